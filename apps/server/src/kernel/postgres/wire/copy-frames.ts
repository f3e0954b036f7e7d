// Splits a byte stream into protocol messages like Frames, but collects the content of CopyData messages in large chunks.
// The server sends one such message for each row, so a call for each would take most of the time. A message may be larger
// than the memory, so its parts are taken as they arrive.
import { Frames, headerBytes, type OnFrame } from './frames.ts'

/** The last chunk of a statement is smaller. */
const chunkBytes = 128 * 1024
const copyData = 0x64
/** New memory for each chunk would be most of what the process allocates, and the garbage collector would run often. */
const mostSpares = 8
/** Up to this length, copying in a loop is faster than a call of `copy`. */
const shortBytes = 48

export class CopyFrames extends Frames {
  /** Receives each full chunk and owns it until it gives it back. */
  onChunk: (chunk: Buffer) => void = () => {}
  #chunk: Buffer | undefined
  readonly #spares: Buffer[] = []
  #filled = 0
  /** The header of a message, while only a part of it was received. */
  readonly #header = Buffer.alloc(headerBytes)
  #headerFilled = 0
  /** Bytes of the current message that are still to come. */
  #left = 0
  #isCopyData = false

  override push(bytes: Buffer, onFrame: OnFrame): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#left > 0) at = this.#continueBody(bytes, at, onFrame)
      else if (this.#headerFilled > 0 || bytes.length - at < headerBytes)
        at = this.#continueHeader(bytes, at, onFrame)
      else {
        const end = at + 1 + lengthAt(bytes, at)
        if (end > bytes.length) at = this.#continueHeader(bytes, at, onFrame)
        else {
          if (bytes[at] === copyData) this.#collect(bytes, at + headerBytes, end)
          else onFrame(bytes[at]!, bytes, at + headerBytes, end, false)
          at = end
        }
      }
    }
  }

  /** Passes on the content that does not fill a chunk. */
  flush(): void {
    const chunk = this.#chunk?.subarray(0, this.#filled)
    this.drop()
    if (chunk) this.onChunk(chunk)
  }

  /** Uses the memory of a chunk again. */
  giveBack(chunk: Buffer): void {
    const whole = Buffer.from(chunk.buffer)
    if (this.#spares.length < mostSpares && whole.length === chunkBytes) this.#spares.push(whole)
  }

  drop(): void {
    this.#chunk = undefined
    this.#filled = 0
  }

  #continueHeader(bytes: Buffer, at: number, onFrame: OnFrame): number {
    const copied = bytes.copy(this.#header, this.#headerFilled, at)
    this.#headerFilled += copied
    if (this.#headerFilled < headerBytes) return at + copied
    this.#headerFilled = 0
    this.#left = 1 + lengthAt(this.#header, 0) - headerBytes
    this.#isCopyData = this.#header[0] === copyData
    if (!this.#isCopyData) super.push(this.#header, onFrame)
    return at + copied
  }

  #continueBody(bytes: Buffer, at: number, onFrame: OnFrame): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    if (this.#isCopyData) this.#collect(bytes, at, end)
    else super.push(bytes.subarray(at, end), onFrame)
    return end
  }

  #collect(bytes: Buffer, start: number, end: number): void {
    for (let at = start; at < end; ) {
      this.#chunk ??= this.#spares.pop() ?? Buffer.allocUnsafeSlow(chunkBytes)
      const stop = Math.min(end, at + chunkBytes - this.#filled)
      copyBytes(bytes, at, stop, this.#chunk, this.#filled)
      this.#filled += stop - at
      at = stop
      if (this.#filled === chunkBytes) this.flush()
    }
  }
}

function copyBytes(from: Buffer, start: number, end: number, to: Buffer, offset: number): void {
  if (end - start > shortBytes) return void from.copy(to, offset, start, end)
  let target = offset
  for (let at = start; at < end; at++) to[target++] = from[at]!
}

/** The length in the header of the message, which counts itself. `readInt32BE` would check the range again. */
const lengthAt = (bytes: Buffer, at: number): number =>
  (bytes[at + 1]! << 24) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 8) | bytes[at + 4]!
