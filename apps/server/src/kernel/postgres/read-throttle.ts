// Parsing millions of small rows or notices of a tenant's statement would leave no time for other requests. So a
// connection whose answers take time to parse pauses for a multiple of that time. The more connections pause at once, the
// longer each pauses, so that together they use a fifth of the time.

interface Readable {
  prependListener(event: 'data', listener: () => void): unknown
  on(event: 'data', listener: () => void): unknown
  pause(): unknown
  resume(): unknown
}

const pausePerWork = 4
/** Ordinary answers take less time. */
const negligibleMs = 1
const idleMs = 20
let paused = 0

/** Call it after the driver has attached its listener: the time between our two listeners is the parsing time of a chunk. */
export function throttleReading(stream: Readable): void {
  let since = 0
  let workMs = 0
  stream.prependListener('data', () => {
    const now = performance.now()
    // A pause of the server counts like one of ours.
    if (now - since > idleMs) workMs = 0
    since = now
  })
  stream.on('data', () => {
    workMs += performance.now() - since
    if (workMs < negligibleMs) return
    stream.pause()
    paused++
    const pauseMs = workMs * pausePerWork * paused
    workMs = 0
    setTimeout(() => {
      paused--
      stream.resume()
    }, pauseMs)
  })
}
