// Keeps a child running: starts it again whenever it ends by itself, with growing pauses.
import { setTimeout as sleep } from 'node:timers/promises'
import type { LaunchedChild } from './launch.ts'

export interface Supervision {
  /** Starts the child again. If the signal aborts during the start, the new child is stopped. */
  restart(signal: AbortSignal): Promise<LaunchedChild>
  onExit(how: string): void
  onRestarted(): void
  onRestartFailed(error: unknown): void
  /** The pause before each consecutive restart. The last value repeats. */
  backoffMs?: readonly number[]
  /** After a child has run for this long, the pauses start again at the first value. */
  stableAfterMs?: number
  clock?: Clock
}

export interface Clock {
  now(): number
  /** Ends early, without an error, when the signal aborts. */
  pause(ms: number, signal: AbortSignal): Promise<void>
}

export interface Health {
  state: 'running' | 'restarting' | 'stopped'
  /** Restarts since the child last ran for `stableAfterMs`. */
  restarts: number
  /** How it ended the last time. */
  lastExit: string | undefined
}

export interface Supervisor {
  health(): Readonly<Health>
  /** Resolves when the child has ended. */
  stop(): Promise<void>
}

const systemClock: Clock = {
  now: () => performance.now(),
  // It does not keep Node running: the next start of the platform cleans up what this one leaves.
  pause: (ms, signal) => sleep(ms, undefined, { signal, ref: false }).catch(() => {}),
}

export function supervise(first: LaunchedChild, supervision: Supervision): Supervisor {
  const { restart, onExit, onRestarted, onRestartFailed, clock = systemClock } = supervision
  const { backoffMs = [200, 500, 1000, 2000, 5000], stableAfterMs = 60_000 } = supervision
  const stopping = new AbortController()
  const { signal } = stopping
  const stopRequested = new Promise<void>(resolve => {
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
  const health: Health = { state: 'running', restarts: 0, lastExit: undefined }

  async function tryRestart(): Promise<LaunchedChild | undefined> {
    try {
      const child = await restart(signal)
      health.state = 'running'
      onRestarted()
      return child
    } catch (error) {
      if (!signal.aborted) onRestartFailed(error)
      return
    }
  }

  async function keepRunning(): Promise<void> {
    let child: LaunchedChild | undefined = first
    while (!signal.aborted) {
      if (child) {
        const since = clock.now()
        const how = await Promise.race([child.exited, stopRequested])
        if (how === undefined || signal.aborted) break
        health.state = 'restarting'
        health.lastExit = how
        if (clock.now() - since > stableAfterMs) health.restarts = 0
        onExit(how)
        child = undefined
      }
      await clock.pause(backoffMs[Math.min(health.restarts++, backoffMs.length - 1)]!, signal)
      if (!signal.aborted) child = await tryRestart()
    }
    await child?.stop()
  }

  const ended = keepRunning().finally(() => {
    health.state = 'stopped'
  })
  return {
    health: () => health,
    stop() {
      stopping.abort()
      return ended
    },
  }
}
