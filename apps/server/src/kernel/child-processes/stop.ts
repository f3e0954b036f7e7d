// Stops a process with one signal after the other, each with its own deadline.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stoppable } from './process.ts'

export interface StopStep {
  signal: NodeJS.Signals
  /** How long the process may take before the next signal is sent. */
  withinMs: number
  /** Checked once, after `afterMs`. If true, this signal cannot succeed and the next one is sent at once. */
  isHopeless?: { afterMs: number; check(): boolean }
}

const pollMs = 10

/** Polls with timers that keep Node running, because a child in the background does not. */
export async function stopProcess(
  running: Stoppable,
  steps: readonly StopStep[],
  name: string,
): Promise<void> {
  for (const step of steps) {
    if (running.hasExited()) return
    running.signal(step.signal)
    await untilExit(running, step)
  }
  if (!running.hasExited())
    throw new Error(`${name} does not end, not even when killed: see what its disk is doing`)
}

async function untilExit(running: Stoppable, { withinMs, isHopeless }: StopStep): Promise<void> {
  const since = performance.now()
  let isChecked = isHopeless === undefined
  while (!running.hasExited() && performance.now() - since < withinMs) {
    if (!isChecked && performance.now() - since > isHopeless!.afterMs) {
      isChecked = true
      if (isHopeless!.check()) return
    }
    await sleep(pollMs)
  }
}
