// Bytes that were received and not read yet. Small parts are copied together: each would keep the whole buffer of the
// socket that it arrived in, and many of them would be passed on one by one.

/** Larger parts are kept as they are. */
const joinBelow = 16 * 1024

export class ReceivedBytes {
  #parts: Buffer[] = []
  #joined: Buffer = Buffer.alloc(0)
  /** Where the part of `#joined` begins that was not taken yet, and where it ends. */
  #start = 0
  #end = 0

  get isEmpty(): boolean {
    return this.#parts.length === 0 && this.#start === this.#end
  }

  add(bytes: Buffer): void {
    if (bytes.length >= joinBelow) {
      this.#close()
      this.#parts.push(bytes)
      return
    }
    for (let at = 0; at < bytes.length; ) {
      if (this.#end === this.#joined.length) {
        this.#close()
        this.#joined = Buffer.allocUnsafeSlow(joinBelow)
        this.#start = 0
        this.#end = 0
      }
      const count = bytes.copy(this.#joined, this.#end, at)
      this.#end += count
      at += count
    }
  }

  take(): Buffer[] {
    this.#close()
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  #close(): void {
    if (this.#start === this.#end) return
    this.#parts.push(this.#joined.subarray(this.#start, this.#end))
    this.#start = this.#end
  }
}
