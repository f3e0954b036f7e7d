// Work in the background that takes long, such as a backup, gives way to requests. All such work of this process pauses
// together, so how busy the event loop is during a pause says how much other work there is. On an idle platform the pauses
// are rare and short. On a busy one they come after every part of the work, so that requests keep most of the processor.
import { setTimeout as sleep } from 'node:timers/promises'

/** Of the time of the event loop. Less is not a reason to slow down. */
const quietLoad = 0.35
const quiet = { stretchMs: 250, pauseMs: 2 }
/** The pause after each part of the work if other work takes all the time. */
const longestPauseMs = 40
/** Of the last pause in the average, so that a single request is no reason to slow down. */
const weight = 0.4

/** The share of the event loop's time that other work takes. */
let load = 0
let pausing: Promise<void> | undefined
let resumedAt = performance.now()

/**
 * To be called after each part of the work, which takes about half a millisecond. Returns nothing if the work may go on at
 * once.
 */
export function giveWay(): Promise<void> | undefined {
  if (pausing) return pausing
  const isQuiet = load < quietLoad
  if (isQuiet && performance.now() - resumedAt < quiet.stretchMs) return
  pausing = pause(isQuiet ? quiet.pauseMs : load * longestPauseMs)
  return pausing
}

async function pause(milliseconds: number): Promise<void> {
  const before = performance.eventLoopUtilization()
  await sleep(milliseconds)
  const { utilization } = performance.eventLoopUtilization(before)
  load += (utilization - load) * weight
  resumedAt = performance.now()
  pausing = undefined
}
