// Tells a subscriber that changes were lost: at once, but not once per change.
import type { ChangeSubscriber } from '../subscriber.ts'

const defaultIntervalMs = 10_000

/**
 * A subscriber may reload its rows when it gets a notice. Losses after that need another notice, which is sent at the end
 * of the interval.
 */
export function createLossNotices(intervalMs = defaultIntervalMs, now = () => performance.now()) {
  const sent = new WeakMap<ChangeSubscriber, { at: number; next: string | undefined }>()

  function reportLoss(subscriber: ChangeSubscriber, message: string): void {
    const last = sent.get(subscriber)
    const leftMs = last ? last.at + intervalMs - now() : 0
    if (!last || leftMs <= 0) {
      sent.set(subscriber, { at: now(), next: undefined })
      subscriber.sendStatus('error', message)
      return
    }
    if (last.next === undefined) setTimeout(sendNext, leftMs, subscriber).unref()
    last.next = message
  }

  function sendNext(subscriber: ChangeSubscriber): void {
    const message = sent.get(subscriber)?.next
    sent.delete(subscriber)
    if (message !== undefined) reportLoss(subscriber, message)
  }

  return reportLoss
}
