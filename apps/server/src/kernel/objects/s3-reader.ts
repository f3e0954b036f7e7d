// Reads a range of an object as the service sends it, no faster than it is taken. Services cut connections that stay
// quiet for long, as those of slow clients do: reading then goes on where it stopped, in an answer of its own.
import { ObjectsUnavailable, type PieceReader } from './pieces.ts'

export interface Answer {
  /** Of the whole object. */
  size: number
  /** Absent when there is nothing to read. */
  body?: NodeJS.ReadableStream & { destroy(error?: Error): void }
}

const silenceMs = 30_000
/** In a row, without a byte between them. */
const attemptsMax = 3

export function createReader(
  first: Answer,
  from: number,
  to: number,
  again: (at: number) => Promise<Answer>,
): PieceReader {
  const end = Math.min(to, first.size)
  let { body } = first
  let chunks = body?.[Symbol.asyncIterator]()
  let rest: Buffer | undefined
  let position = from
  let isOpen = true

  async function nextChunk(): Promise<Buffer> {
    const silence = setTimeout(() => body?.destroy(new Error(`silent for ${silenceMs} ms`)), silenceMs)
    try {
      const next = await chunks?.next()
      if (!next || next.done) throw new Error(`the answer ended at byte ${position} of ${end}`)
      return next.value as Buffer
    } finally {
      clearTimeout(silence)
    }
  }

  /** The bytes at `position`. */
  async function more(): Promise<Buffer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await nextChunk()
      } catch (error) {
        body?.destroy()
        if (!isOpen || attempt === attemptsMax) throw new ObjectsUnavailable(error)
      }
      body = (await again(position)).body
      chunks = body?.[Symbol.asyncIterator]()
      // Closed meanwhile: the next look at it ends in an error.
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
        rest ??= await more()
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
      const giveUp = () => body?.destroy()
      // An answer taken to its end leaves a connection for the next.
      if (position < end || rest) giveUp()
      else nextChunk().then(giveUp, giveUp)
    },
  }
}
