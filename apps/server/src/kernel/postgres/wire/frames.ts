// Cuts a byte stream into protocol messages. The memory it arrives in is only lent: a message that comes whole is
// read where it lies, and of one that does not the bytes are gathered in memory of its exact size.

const headerBytes = 5
/** Of a message that is too large to be gathered: enough to tell what it is. */
const cutBytes = 64 * 1024

export const maxBodyBytes = 64 * 1024 * 1024
const largeBytes = 1024 * 1024

/**
 * Gets a message's type, the memory it lies in, and where its body starts and ends. Memory that is not `isOwn`
 * holds something else as soon as this returns. A body that was too large is cut: it ends behind its memory.
 */
export type OnFrame = (type: number, bytes: Buffer, start: number, end: number, isOwn: boolean) => void

export class Frames {
  readonly #maxBodyBytes: number
  readonly #header = Buffer.alloc(headerBytes)
  /** The message whose end is still to come, once its header is here. */
  #message: Buffer | undefined
  #size = 0
  #filled = 0

  constructor(bodyBytes = maxBodyBytes) {
    this.#maxBodyBytes = bodyBytes
  }

  push(chunk: Buffer, onFrame: OnFrame): void {
    let at = this.#filled > 0 ? this.#goOn(chunk, 0, onFrame) : 0
    while (chunk.length - at >= headerBytes) {
      const end = at + 1 + chunk.readInt32BE(at + 1)
      if (end > chunk.length) break
      onFrame(chunk[at]!, chunk, at + headerBytes, end, false)
      at = end
    }
    if (at < chunk.length) this.#goOn(chunk, at, onFrame)
  }

  /** Takes from the chunk what belongs to the message begun, and says where that ends. */
  #goOn(chunk: Buffer, start: number, onFrame: OnFrame): number {
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
    if (this.#filled === this.#size) this.#handOver(this.#message, onFrame)
    return end
  }

  #handOver(message: Buffer, onFrame: OnFrame): void {
    this.#message = undefined
    this.#filled = 0
    onFrame(message[0]!, message, headerBytes, this.#size, true)
  }
}

/**
 * A buffer that could be resized, though nobody does, is mapped by itself and goes back to the system when it is
 * collected. Any other comes from malloc, which keeps large pieces once small ones lie behind them.
 */
const memoryFor = (size: number): Buffer =>
  size < largeBytes ? Buffer.allocUnsafe(size) : Buffer.from(new ArrayBuffer(size, { maxByteLength: size }))
