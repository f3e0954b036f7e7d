// Batches frames that wait to be written to WebSockets. Frames of one turn are written together, because a write costs
// more than its bytes. Most sockets get the same frames, so these share one concatenated buffer.

export interface Outbox {
  /** Frames that are not written yet, in order. Empty after `write`. */
  readonly frames: readonly Buffer[]
  write(bytes: Buffer): void
}

/** The shortest pause between two rounds. Under load, fewer and larger rounds take less CPU time. */
const pauseMs = 2
/** A round blocks the event loop. */
const maxRoundMs = 10

let waiting: Outbox[] = []
let callbacks: (() => void)[] = []
let isScheduled = false
let lastRoundAt = 0

/** Called when the first frame is added to an empty outbox. */
export function flushSoon(outbox: Outbox): void {
  waiting.push(outbox)
  if (!isScheduled) schedule()
}

/** The callback runs when the next round begins, and can send frames in this round. It must not throw. */
export function beforeFlush(callback: () => void): void {
  callbacks.push(callback)
  if (!isScheduled) schedule()
}

function schedule(): void {
  isScheduled = true
  const restMs = pauseMs - (performance.now() - lastRoundAt)
  if (restMs > 0) setTimeout(flush, restMs)
  else setImmediate(flush)
}

function flush(): void {
  const due = callbacks
  callbacks = []
  for (const callback of due) callback()
  const outboxes = waiting
  waiting = []
  const endAt = performance.now() + maxRoundMs
  let same: readonly Buffer[] = []
  let bytes: Buffer = empty
  let at = 0
  for (; at < outboxes.length; at++) {
    const outbox = outboxes[at]!
    const { frames } = outbox
    if (frames.length === 0) continue
    if (frames.length === 1) outbox.write(frames[0]!)
    else {
      if (!areSame(same, frames)) {
        bytes = Buffer.concat(frames)
        same = frames
      }
      outbox.write(bytes)
    }
    if ((at & 63) === 63 && performance.now() > endAt) break
  }
  lastRoundAt = performance.now()
  isScheduled = false
  if (at < outboxes.length) waiting = outboxes.slice(at + 1).concat(waiting)
  if (waiting.length > 0 || callbacks.length > 0) schedule()
}

function areSame(some: readonly Buffer[], others: readonly Buffer[]): boolean {
  if (some.length !== others.length) return false
  for (let at = 0; at < some.length; at++) if (some[at] !== others[at]) return false
  return true
}

const empty = Buffer.alloc(0)
