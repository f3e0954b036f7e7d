// Retries transfers after cut connections and server restarts, a limited number of times.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refused } from './client.ts'

// Long enough for a platform to restart and to release the lock of the interrupted upload.
const waits = [300, 1000, 2000, 4000, 8000, 8000]
const longestWait = 60_000

export interface Retry {
  /** Resets the wait after progress. */
  succeeded(): void
  /** Waits before the next attempt, or throws the error when it is permanent or the attempts are used up. */
  after(error: unknown, isWorthRetrying?: boolean): Promise<void>
}

type Pause = (milliseconds: number, signal: AbortSignal) => Promise<void>
const pauseFor: Pause = (milliseconds, signal) => sleep(milliseconds, undefined, { signal })

export function retries(signal: AbortSignal, pause = pauseFor): Retry {
  let failures = 0
  return {
    succeeded() {
      failures = 0
    },
    async after(error, isWorthRetrying = isTransient(error)) {
      const wait = isWorthRetrying && !signal.aborted ? waitAfter(error, failures++) : null
      if (wait === null) throw error
      await pause(wait, signal)
    },
  }
}

/** Milliseconds before the next attempt, at least what Retry-After says; null to give up. */
export function waitAfter(error: unknown, failuresBefore: number): number | null {
  const wait = waits[failuresBefore]
  if (wait === undefined) return null
  const asked = error instanceof Refused ? error.retryAfterSeconds * 1000 : 0
  return Math.min(longestWait, Math.max(wait, asked))
}

const transientStatuses = new Set([408, 423, 429, 502, 503, 504])
const transientCodes = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ETIMEDOUT',
])

/** Errors after which another attempt may work. Errors of local files are a `Failure` and never transient. */
export function isTransient(error: unknown): boolean {
  if (error instanceof Refused) return transientStatuses.has(error.status)
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' && transientCodes.has(code)
}

/** Repeats a request after transient errors. Only for requests that may be sent twice. */
export async function withRetries<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const retry = retries(signal)
  for (;;) {
    try {
      return await work()
    } catch (error) {
      await retry.after(error)
    }
  }
}
