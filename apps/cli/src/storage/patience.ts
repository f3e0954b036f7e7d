// Connections are cut and servers start anew: a transfer goes on, but not for ever.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refused } from './wire.ts'

// Enough for a platform to start anew and to let go of the upload it was killed in.
const waits = [300, 1000, 2000, 4000, 8000, 8000]
const longestWait = 60_000

export interface Patience {
  /** Something moved: the next failure is the first one again. */
  restored(): void
  /** Waits until it is worth another attempt, or throws what went wrong. */
  after(error: unknown, mayPass?: boolean): Promise<void>
}

export function patience(signal: AbortSignal): Patience {
  let failures = 0
  return {
    restored() {
      failures = 0
    },
    async after(error, mayPass = isPassing(error)) {
      const wait = mayPass && !signal.aborted ? waitAfter(error, failures++) : null
      if (wait === null) throw error
      await sleep(wait, undefined, { signal })
    },
  }
}

/** Milliseconds before the next attempt, ever more and as many as the server asks for; null to give up. */
export function waitAfter(error: unknown, failuresBefore: number): number | null {
  const wait = waits[failuresBefore]
  if (wait === undefined) return null
  const asked = error instanceof Refused ? error.retryAfterSeconds * 1000 : 0
  return Math.min(longestWait, Math.max(wait, asked))
}

const passingStatuses = new Set([408, 423, 429, 502, 503, 504])
const passingCodes = new Set([
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

/** What may be gone a moment later. Problems of local files are a `Failure` by now. */
export function isPassing(error: unknown): boolean {
  if (error instanceof Refused) return passingStatuses.has(error.status)
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' && passingCodes.has(code)
}

/** The same request once more while what went wrong may pass: only for requests that may be sent twice. */
export async function persistently<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const patient = patience(signal)
  for (;;) {
    try {
      return await work()
    } catch (error) {
      await patient.after(error)
    }
  }
}
