// What waits to be written to sockets. Frames of one turn go out together, since a write costs more than the bytes in
// it; and those who are sent the same frames, as most are, share the bytes they are put together to.

export interface Outbox {
  /** Not yet written, in order; empty after `take`. */
  readonly frames: readonly Buffer[]
  take(bytes: Buffer): void
}

/** Between two rounds at least: under load, longer rounds are the cheaper ones. */
const pauseMs = 2
/** Nobody else is served during a round. */
const longestRoundMs = 10

let waiting: Outbox[] = []
let collecting: (() => void)[] = []
let isScheduled = false
let lastRoundAt = 0

/** Called once for an outbox that has been empty. */
export function flushSoon(outbox: Outbox): void {
  waiting.push(outbox)
  if (!isScheduled) schedule()
}

/** Called when the next round begins, to send in it whatever has come together until then. Must not throw. */
export function beforeFlush(collect: () => void): void {
  collecting.push(collect)
  if (!isScheduled) schedule()
}

function schedule(): void {
  isScheduled = true
  const restMs = pauseMs - (performance.now() - lastRoundAt)
  if (restMs > 0) setTimeout(flush, restMs)
  else setImmediate(flush)
}

function flush(): void {
  const collects = collecting
  collecting = []
  for (const collect of collects) collect()
  const outboxes = waiting
  waiting = []
  const endAt = performance.now() + longestRoundMs
  let same: readonly Buffer[] = []
  let bytes: Buffer = nothing
  let at = 0
  for (; at < outboxes.length; at++) {
    const outbox = outboxes[at]!
    const { frames } = outbox
    if (frames.length === 0) continue
    if (frames.length === 1) outbox.take(frames[0]!)
    else {
      if (!areSame(same, frames)) {
        bytes = Buffer.concat(frames)
        same = frames
      }
      outbox.take(bytes)
    }
    if ((at & 63) === 63 && performance.now() > endAt) break
  }
  lastRoundAt = performance.now()
  isScheduled = false
  if (at < outboxes.length) waiting = outboxes.slice(at + 1).concat(waiting)
  if (waiting.length > 0 || collecting.length > 0) schedule()
}

function areSame(some: readonly Buffer[], others: readonly Buffer[]): boolean {
  if (some.length !== others.length) return false
  for (let at = 0; at < some.length; at++) if (some[at] !== others[at]) return false
  return true
}

const nothing = Buffer.alloc(0)
