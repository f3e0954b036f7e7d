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
let resting = 0

/** After the driver has begun to listen: the time between both listeners is what reading a piece took. */
export function readFairly(stream: Readable): void {
  let since = 0
  stream.prependListener('data', () => {
    since = performance.now()
  })
  stream.on('data', () => {
    const tookMs = performance.now() - since
    if (tookMs < worthRestMs) return
    stream.pause()
    resting++
    setTimeout(
      () => {
        resting--
        stream.resume()
      },
      tookMs * restPerWork * resting,
    )
  })
}
