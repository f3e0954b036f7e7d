// Of nodes that read the same outbox, each removes after a while what it has read, whoever has not come to it.
import type { ChangesStore, Reading } from './store.ts'

/** Told after every look, and when it began, it says when others may have removed what this one had still to read. */
export function createLag(
  store: Pick<ChangesStore, 'hasOthers'>,
  keepMs: number,
  tellAll: (message: string) => void,
) {
  let allReadAt = performance.now()
  return async ({ isFull }: Pick<Reading, 'isFull'>, lookedAt: number): Promise<void> => {
    const isLate = lookedAt - allReadAt > keepMs && (await store.hasOthers())
    if (!isFull || isLate) allReadAt = lookedAt
    if (isLate) tellAll('Changes may have been lost: they came faster than they could be judged')
  }
}
