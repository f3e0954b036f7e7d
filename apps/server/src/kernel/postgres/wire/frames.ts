// Splits a byte stream into protocol messages. The memory of a chunk is reused. A message within one chunk is read in
// place, and one that spans chunks is copied into memory of its exact size.

export const headerBytes = 5
/** Bytes that are kept of a message over the limit. Enough for its type and the fields of an error. */
const cutBytes = 64 * 1024

export const maxBodyBytes = 64 * 1024 * 1024
const largeBytes = 1024 * 1024

/**
 * Receives the type of a message, its memory, and where its body starts and ends. Unless `isOwn`, the memory is overwritten
 * after the call. A body over the limit is truncated: then `end` is after the end of the memory.
 */
export type OnFrame = (type: number, bytes: Buffer, start: number, end: number, isOwn: boolean) => void

export class Frames {
  readonly #maxBodyBytes: number
  readonly #header = Buffer.alloc(headerBytes)
  /** The incomplete message, once its header was received. */
  #message: Buffer | undefined
  #size = 0
  #filled = 0

  constructor(bodyBytes = maxBodyBytes) {
    this.#maxBodyBytes = bodyBytes
  }

  push(chunk: Buffer, onFrame: OnFrame): void {
    let at = this.#filled > 0 ? this.#continue(chunk, 0, onFrame) : 0
    while (chunk.length - at >= headerBytes) {
      const end = at + 1 + chunk.readInt32BE(at + 1)
      if (end > chunk.length) break
      onFrame(chunk[at]!, chunk, at + headerBytes, end, false)
      at = end
    }
    if (at < chunk.length) this.#continue(chunk, at, onFrame)
  }

  /** Copies the bytes of the current message from the chunk, and returns their end. */
  #continue(chunk: Buffer, start: number, onFrame: OnFrame): number {
    let at = start
    if (!this.#message) {
      const copied = chunk.copy(this.#header, this.#filled, at)
      this.#filled += copied
      at += copied
      if (this.#filled < headerBytes) return at
      this.#size = 1 + this.#header.readInt32BE(1)
      const isTooLarge = this.#size - headerBytes > this.#maxBodyBytes
      this.#message = memoryFor(isTooLarge ? Math.min(cutBytes, this.#size) : this.#size)
      this.#header.copy(this.#message)
    }
    const end = Math.min(chunk.length, at + this.#size - this.#filled)
    chunk.copy(this.#message, this.#filled, at, end)
    this.#filled += end - at
    if (this.#filled === this.#size) this.#emit(this.#message, onFrame)
    return end
  }

  #emit(message: Buffer, onFrame: OnFrame): void {
    this.#message = undefined
    this.#filled = 0
    onFrame(message[0]!, message, headerBytes, this.#size, true)
  }
}

/**
 * A resizable buffer has its own memory mapping, which is returned to the system when the buffer is collected. Other
 * buffers come from malloc, which can keep the memory of freed blocks because of fragmentation.
 */
const memoryFor = (size: number): Buffer =>
  size < largeBytes ? Buffer.allocUnsafe(size) : Buffer.from(new ArrayBuffer(size, { maxByteLength: size }))
