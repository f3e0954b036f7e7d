// Bounds how many tasks run at once, over all keys and for each key. Waiting tasks of different keys start in rotation,
// so a key with many tasks delays only its own. A key is usually a project id.
import { retryLater } from './errors.ts'

export interface LimiterOptions {
  /** Tasks that run at once, over all keys. */
  concurrency?: number
  /** Tasks of one key that run at once. */
  perKey?: number
  /** Tasks of one key that may wait. Further ones are rejected. */
  maxWaiting?: number
  /** The error for a rejected task. */
  rejection?: () => Error
}

/** Runs the task when the limits allow it, and returns its result. */
export type Limiter = <T>(key: string, task: () => Promise<T>) => Promise<T>

interface Key {
  running: number
  /** Starts a waiting task. */
  waiting: (() => void)[]
}

export function createLimiter({
  concurrency = Number.POSITIVE_INFINITY,
  perKey = Number.POSITIVE_INFINITY,
  maxWaiting = Number.POSITIVE_INFINITY,
  rejection = tooManyWaiting,
}: LimiterOptions): Limiter {
  const keys = new Map<string, Key>()
  /** Keys that have waiting tasks and run fewer than `perKey`, in the order of their next start. */
  const ready = new Set<string>()
  let running = 0

  function wait(name: string, key: Key): Promise<void> {
    if (key.waiting.length >= maxWaiting) throw rejection()
    return new Promise(resolve => {
      key.waiting.push(resolve)
      if (key.running < perKey) ready.add(name)
    })
  }

  /** Counts a task as running before it resumes, so that no later call can take its place. */
  function startWaiting(): void {
    while (running < concurrency && ready.size > 0) {
      const name = ready.values().next().value!
      const key = keys.get(name)!
      ready.delete(name)
      running++
      key.running++
      key.waiting.shift()!()
      if (key.waiting.length > 0 && key.running < perKey) ready.add(name)
    }
  }

  function end(name: string, key: Key): void {
    running--
    key.running--
    if (key.waiting.length > 0) ready.add(name)
    else if (key.running === 0) keys.delete(name)
    startWaiting()
  }

  return async (name, task) => {
    const key = keys.get(name) ?? { running: 0, waiting: [] }
    if (running < concurrency && key.running < perKey) {
      running++
      key.running++
      keys.set(name, key)
    } else {
      const waiting = wait(name, key)
      keys.set(name, key)
      await waiting
    }
    try {
      return await task()
    } finally {
      end(name, key)
    }
  }
}

const tooManyWaiting = () =>
  retryLater('pool_exhausted', 'Too many requests of this kind are waiting; try again in a second', 1)
