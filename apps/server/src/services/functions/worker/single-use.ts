// A new worker for each call, which is stopped before the answer ends.
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import { Backoff, crashKey } from './backoff.ts'
import type { PoolSettings, WorkerRequest } from './pool.ts'
import { busy, inBackoff } from './refusals.ts'
import { watchWorkers, whenCalm } from './watching.ts'
import type { Worker } from './worker.ts'

export interface SingleUse {
  /** Starts a worker. `release` waits for its background work, up to the time of a call, and stops it. */
  lease(request: WorkerRequest): Promise<{ worker: Worker; release(): Promise<void> }>
  readonly size: number
  keys(): string[]
  close(): Promise<void>
}

export function createSingleUse(settings: PoolSettings, log: Log): SingleUse {
  const workers = new Map<Worker, string>()
  const backoff = new Backoff(settings.backoff)
  const limit = createLimiter({
    concurrency: settings.maxWorkers,
    perKey: Math.max(1, Math.ceil(settings.maxWorkers / 2)),
    maxWaiting: 100,
    rejection: busy,
  })
  const watching = watchWorkers(() => [...workers.keys()], log)

  async function startOne({ key, fingerprint, start }: WorkerRequest): Promise<Worker> {
    const crashes = crashKey(key, fingerprint)
    const waitMs = backoff.pauseOf(crashes, performance.now())
    if (waitMs > 0) throw inBackoff(waitMs)
    const startedAt = performance.now()
    const worker = await start().catch(error => {
      backoff.crashed(crashes, 0, performance.now())
      throw error
    })
    workers.set(worker, key)
    watching.start()
    void worker.ended.then(ending => {
      workers.delete(worker)
      const now = performance.now()
      if (ending === 'stopped') backoff.reset(crashes)
      else backoff.crashed(crashes, now - startedAt, now)
    })
    return worker
  }

  return {
    lease: request =>
      new Promise((resolve, reject) => {
        limit(request.key, async () => {
          const worker = await startOne(request)
          const released = Promise.withResolvers<void>()
          const stopped = Promise.withResolvers<void>()
          resolve({
            worker,
            release() {
              released.resolve()
              return stopped.promise
            },
          })
          await released.promise
          await whenCalm(worker, settings.drainMs)
          await worker.stop().finally(stopped.resolve)
        }).catch(reject)
      }),
    get size() {
      return workers.size
    },
    keys: () => [...new Set(workers.values())],
    async close() {
      await watching.stop()
      await Promise.all([...workers.keys()].map(worker => worker.stop().catch(() => {})))
    },
  }
}
