// Bytes that are produced when a consumer asks for them. Node's streams would take as much CPU time as decrypting the
// file, and leave used buffers to the garbage collector, which lets tens of megabytes of them accumulate.

export interface ByteSource {
  /** The bytes arrive as they are produced, so the head of the answer is sent before the first of them. */
  readonly isLive?: boolean
  readonly hasMore: boolean
  /** The next chunks, in order. The consumer owns them and may `discard` them. */
  next(): Promise<readonly Buffer[]>
  /** Called once by the owner of the source, at its end or earlier, possibly while `next` is running. */
  close(): Promise<void>
}

/** A source of bytes that are in memory already. */
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

export async function readAll(source: Buffer | ByteSource): Promise<Buffer> {
  if (Buffer.isBuffer(source)) return source
  const chunks: Buffer[] = []
  for await (const next of chunksOf(source)) chunks.push(...next)
  return Buffer.concat(chunks)
}

/** Frees the memory of a buffer that is no longer read. Does nothing if the buffer shares its memory with others. */
export function discard({ buffer, byteLength }: Buffer): void {
  if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

export const bytesIn = (chunks: readonly Buffer[]): number =>
  chunks.reduce((sum, { length }) => sum + length, 0)
