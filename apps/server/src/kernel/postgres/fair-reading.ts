// What a tenant's statement answers with is read in this process, a row at a time, and millions of small rows or notices
// would leave no time for anybody else. A connection whose answers take time to read rests for a multiple of it; the
// more do so at once, the longer each rests, so that all of them together have one fifth of the time.

interface Readable {
  prependListener(event: 'data', heard: () => void): unknown
  on(event: 'data', heard: () => void): unknown
  pause(): unknown
  resume(): unknown
}

const restPerWork = 4
/** Less is what ordinary answers take. */
const worthRestMs = 1
const forgetMs = 20
let resting = 0

/** After the driver has begun to listen: the time between both listeners is what reading a piece took. */
export function readFairly(stream: Readable): void {
  let since = 0
  let owedMs = 0
  stream.prependListener('data', () => {
    const now = performance.now()
    // A pause of the server's own pays for what came before it.
    if (now - since > forgetMs) owedMs = 0
    since = now
  })
  stream.on('data', () => {
    owedMs += performance.now() - since
    if (owedMs < worthRestMs) return
    stream.pause()
    resting++
    const restMs = owedMs * restPerWork * resting
    owedMs = 0
    setTimeout(() => {
      resting--
      stream.resume()
    }, restMs)
  })
}
