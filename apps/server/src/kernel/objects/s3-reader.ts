// Streams a range of an S3 object with back pressure. S3 services close connections that are idle for long, which happens
// when our client reads slowly. The reader then continues at its position with a new request.
import { ObjectsUnavailable, type PieceReader } from './pieces.ts'

export interface Answer {
  /** Size of the whole object. */
  size: number
  /** Absent if the range is empty. */
  body?: NodeJS.ReadableStream & { destroy(error?: Error): void }
}

/** Consecutive attempts without receiving a byte. */
const maxAttempts = 3

export function createReader(
  first: Answer,
  from: number,
  to: number,
  reopen: (at: number) => Promise<Answer>,
  idleMs: number,
): PieceReader {
  const end = Math.min(to, first.size)
  let { body } = first
  let chunks = body?.[Symbol.asyncIterator]()
  let rest: Buffer | undefined
  let position = from
  let isOpen = true

  async function nextChunk(): Promise<Buffer> {
    const timer = setTimeout(() => body?.destroy(new Error(`no data for ${idleMs} ms`)), idleMs)
    try {
      const next = await chunks?.next()
      if (!next || next.done) throw new Error(`the answer ended at byte ${position} of ${end}`)
      return next.value as Buffer
    } finally {
      clearTimeout(timer)
    }
  }

  /** The chunk at `position`, with a new request if the current one fails. */
  async function nextChunkWithRetry(): Promise<Buffer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await nextChunk()
      } catch (error) {
        body?.destroy()
        if (!isOpen || attempt === maxAttempts) throw new ObjectsUnavailable(error)
      }
      body = (await reopen(position)).body
      chunks = body?.[Symbol.asyncIterator]()
      // Closed during the request: destroy the body, so that the next read fails.
      if (!isOpen) body?.destroy()
    }
  }

  return {
    size: first.size,
    async fill(buffer) {
      if (!isOpen) throw new Error('the piece is closed')
      const wanted = Math.min(buffer.length, Math.max(0, end - position))
      let filled = 0
      while (filled < wanted) {
        rest ??= await nextChunkWithRetry()
        const copied = rest.copy(buffer, filled, 0, wanted - filled)
        rest = copied < rest.length ? rest.subarray(copied) : undefined
        filled += copied
        position += copied
      }
      return filled
    },
    async close() {
      if (!isOpen) return
      isOpen = false
      const destroy = () => body?.destroy()
      // A body that is read to its end lets the agent reuse the connection.
      if (position < end || rest) destroy()
      else nextChunk().then(destroy, destroy)
    },
  }
}
