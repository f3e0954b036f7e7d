// That something did not reach a subscriber: said at once, but not for each of many changes.
import type { ChangeSubscriber } from '../subscriber.ts'

const usualPauseMs = 10_000

/** Whoever reads its rows anew when it is told must hear of what was lost after that, too: at the end of the pause. */
export function createExcuses(pauseMs = usualPauseMs) {
  const excused = new WeakMap<ChangeSubscriber, { at: number; next: string | undefined }>()

  function excuse(subscriber: ChangeSubscriber, message: string): void {
    const last = excused.get(subscriber)
    const leftMs = last ? last.at + pauseMs - performance.now() : 0
    if (!last || leftMs <= 0) {
      excused.set(subscriber, { at: performance.now(), next: undefined })
      subscriber.tell('error', message)
      return
    }
    if (last.next === undefined) setTimeout(sayNext, leftMs, subscriber).unref()
    last.next = message
  }

  function sayNext(subscriber: ChangeSubscriber): void {
    const message = excused.get(subscriber)?.next
    excused.delete(subscriber)
    if (message !== undefined) excuse(subscriber, message)
  }

  return excuse
}
