// Ctrl-C. It ends the program at once, unless a command has something to put away first.
import { Interrupted } from './failure.ts'

let tidying: AbortController | null = null
let asked: number | null = null
const patienceMilliseconds = 5000
// A parent that hands signals on makes two of one key press.
const sameKeyMilliseconds = 500

export function watchForInterruption(): void {
  process.on('SIGINT', interrupt)
}

/** Aborts on Ctrl-C, a kill or a closed terminal; whoever asks for it ends soon after, by `Interrupted`. */
export function interruption(): AbortSignal {
  if (!tidying) {
    tidying = new AbortController()
    process.on('SIGTERM', interrupt)
    process.on('SIGHUP', interrupt)
  }
  return tidying.signal
}

/** Whatever fails from then on fails because of it. */
export const wasInterrupted = (): boolean => tidying?.signal.aborted === true

export function throwIfInterrupted(signal: AbortSignal): void {
  if (signal.aborted) throw new Interrupted()
}

function interrupt(): void {
  const now = performance.now()
  if (!tidying || (asked !== null && now - asked > sameKeyMilliseconds)) process.exit(130)
  if (asked !== null) return
  asked = now
  setTimeout(() => process.exit(130), patienceMilliseconds).unref()
  tidying.abort()
}
