// Cuts a byte stream into protocol messages without copying what arrives whole.

const headerBytes = 5

export class Frames {
  #held: Buffer[] = []
  #heldBytes = 0
  #needed = 0

  /** Calls back for every complete message: its type, the memory it lies in, and where its body starts and ends. */
  push(chunk: Buffer, onFrame: (type: number, bytes: Buffer, start: number, end: number) => void): void {
    const bytes = this.#assemble(chunk)
    if (!bytes) return
    let at = 0
    while (bytes.length - at >= headerBytes) {
      const end = at + 1 + bytes.readInt32BE(at + 1)
      if (end > bytes.length) break
      onFrame(bytes[at]!, bytes, at + headerBytes, end)
      at = end
    }
    if (at < bytes.length) this.#hold(bytes.subarray(at))
  }

  /** A message larger than a chunk is joined once, when its last byte is here. */
  #assemble(chunk: Buffer): Buffer | undefined {
    if (this.#heldBytes === 0) return chunk
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (this.#heldBytes < this.#needed) return
    const bytes = Buffer.concat(this.#held, this.#heldBytes)
    this.#held = []
    this.#heldBytes = 0
    return bytes
  }

  #hold(rest: Buffer): void {
    this.#held = [rest]
    this.#heldBytes = rest.length
    this.#needed = rest.length < headerBytes ? headerBytes : 1 + rest.readInt32BE(1)
  }
}
