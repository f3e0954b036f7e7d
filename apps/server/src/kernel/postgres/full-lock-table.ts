// All sessions of a server share one lock table, and while one project fills it every statement and every login that
// needs a lock fails with 53200. That lasts until the watchdog has ended the session that fills it. Meanwhile the platform
// retries, for a few seconds. What failed was rolled back, so a retry is safe for reads and writes alike.
import { setTimeout as sleep } from 'node:timers/promises'

const outOfMemory = '53200'
const mostMs = 5000
const leastTries = 10
const pause = { leastMs: 20, mostMs: 100 }

export function isLockTableFull(error: unknown): boolean {
  const { code, routine } = error as { code?: unknown; routine?: unknown }
  // A tenant's own RAISE may use the same code.
  return code === outOfMemory && routine !== 'exec_stmt_raise'
}

/** A process that had no time to try has not used up its time, either. */
export class Patience {
  readonly #since = performance.now()
  #tries = 0

  hasLeft(): boolean {
    return this.#tries++ < leastTries || performance.now() - this.#since < mostMs
  }
}

/** At random, so that those who failed together do not come back together. */
export const pauseMs = () => pause.leastMs + Math.random() * (pause.mostMs - pause.leastMs)

/** Runs work that fails as a whole, again while it fails for a full lock table. */
export async function whileLockTableIsFull<T>(work: () => Promise<T>): Promise<T> {
  const patience = new Patience()
  for (;;)
    try {
      return await work()
    } catch (error) {
      if (!isLockTableFull(error) || !patience.hasLeft()) throw error
      await sleep(pauseMs())
    }
}
