// Each node deletes outbox rows older than the retention, even if another node has not read them.
import type { ChangesStore, OutboxBatch } from './store.ts'

/** Call the result after every read, with the time at which the read began. It reports when rows may have been lost. */
export function createLagDetector(
  store: Pick<ChangesStore, 'hasOthers'>,
  retentionMs: number,
  notifyAll: (message: string) => void,
) {
  let caughtUpAt = performance.now()
  return async ({ isFull }: Pick<OutboxBatch, 'isFull'>, readAt: number): Promise<void> => {
    const isLate = readAt - caughtUpAt > retentionMs && (await store.hasOthers())
    if (!isFull || isLate) caughtUpAt = readAt
    if (isLate) notifyAll('Changes may have been lost: they came faster than they could be judged')
  }
}
