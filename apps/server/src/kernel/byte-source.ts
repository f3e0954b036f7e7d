// Bytes that are made as they are taken. The streams of Node would cost as much as opening the seal of a file, and
// leave the memory of what has passed to the garbage collector, which lets tens of megabytes of it pile up.

export interface ByteSource {
  readonly hasMore: boolean
  /** The next of them, in order. They are the taker's alone, who may discard them. */
  next(): Promise<readonly Buffer[]>
  /** To be called once by whoever was given the source, at its end or before, also while `next` is under way. */
  close(): Promise<void>
}

/** Bytes that are all there already. */
export function sourceOf(chunks: readonly Buffer[]): ByteSource {
  let left = [...chunks]
  return {
    get hasMore() {
      return left.length > 0
    },
    next: async () => left.splice(0, 1),
    close: async () => {
      left = []
    },
  }
}

export async function* chunksOf(source: ByteSource): AsyncGenerator<readonly Buffer[]> {
  try {
    while (source.hasMore) yield await source.next()
  } finally {
    await source.close()
  }
}

export async function wholeOf(source: Buffer | ByteSource): Promise<Buffer> {
  if (Buffer.isBuffer(source)) return source
  const chunks: Buffer[] = []
  for await (const next of chunksOf(source)) chunks.push(...next)
  return Buffer.concat(chunks)
}

/** Gives back the memory of a buffer that nobody reads any more; one that shares its memory is left as it is. */
export function discard({ buffer, byteLength }: Buffer): void {
  if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

export const bytesIn = (chunks: readonly Buffer[]): number =>
  chunks.reduce((sum, { length }) => sum + length, 0)
