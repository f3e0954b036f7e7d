// All sessions of a server share one lock table. While one project fills it, every statement and login that needs a lock
// fails with 53200, until the watchdog has ended the session that fills it. Meanwhile the platform retries for a few
// seconds. A failed statement was rolled back, so a retry is safe for reads and writes.
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from './database-error.ts'

const outOfMemory = '53200'
const maxMs = 5000
const minTries = 10
const pause = { minMs: 20, maxMs: 100 }

/** RAISE in a tenant's function, and the allocation of memory that only one session uses, have the same code. */
const otherRoutines = /^(exec_stmt_raise$|MemoryContext|AllocSet|Generation|Slab|Bump|Aligned)/

export const isLockTableFull = (error: unknown): boolean =>
  error instanceof DatabaseError && error.code === outOfMemory && !otherRoutines.test(error.routine ?? '')

/** Limits the time of retries. A busy process may have had no chance to retry in that time, so some are always allowed. */
export class RetryBudget {
  readonly #since = performance.now()
  #tries = 0

  allowsRetry(): boolean {
    return this.#tries++ < minTries || performance.now() - this.#since < maxMs
  }
}

/** Random, so that statements that failed together are not retried together. */
export const pauseMs = () => pause.minMs + Math.random() * (pause.maxMs - pause.minMs)

/** Retries work that has no effect when it fails. */
export async function retryWhileLockTableFull<T>(work: () => Promise<T>): Promise<T> {
  const retries = new RetryBudget()
  for (;;)
    try {
      return await work()
    } catch (error) {
      if (!isLockTableFull(error) || !retries.allowsRetry()) throw error
      await sleep(pauseMs())
    }
}
