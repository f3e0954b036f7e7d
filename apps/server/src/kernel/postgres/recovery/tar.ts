// Reads the tar format as Postgres writes it for a base backup: names of at most 100 bytes, no extended headers.

export type TarPart =
  /** `bytes` is the header itself. */
  | { kind: 'entry'; bytes: Buffer; name: string; size: number; isDirectory: boolean }
  | { kind: 'content'; bytes: Buffer }
  /** Zeros up to the next block. */
  | { kind: 'padding'; bytes: Buffer }

const blockBytes = 512
const directoryType = 0x35

export class TarReader {
  #held: Buffer = Buffer.alloc(0)
  #content = 0
  #padding = 0

  /** Throws if the archive ended within an entry. */
  end(): void {
    if (this.#content > 0 || this.#padding > 0 || this.#held.length > 0)
      throw new Error('the archive is incomplete')
  }

  /** Yields parts that share the memory of the chunk. */
  *push(chunk: Buffer): Generator<TarPart> {
    const bytes = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk
    this.#held = Buffer.alloc(0)
    let at = 0
    while (at < bytes.length) {
      if (this.#content > 0) {
        const part = bytes.subarray(at, at + this.#content)
        this.#content -= part.length
        at += part.length
        yield { kind: 'content', bytes: part }
      } else if (this.#padding > 0) {
        const part = bytes.subarray(at, at + this.#padding)
        this.#padding -= part.length
        at += part.length
        yield { kind: 'padding', bytes: part }
      } else if (bytes.length - at < blockBytes) {
        this.#held = Buffer.from(bytes.subarray(at))
        return
      } else {
        const header = bytes.subarray(at, at + blockBytes)
        at += blockBytes
        // The end of the archive: two blocks of zeros.
        if (header[0] !== 0) yield this.#entry(header)
      }
    }
  }

  #entry(header: Buffer): TarPart {
    const name = header.toString('utf8', 0, Math.min(100, header.indexOf(0)))
    const size = Number.parseInt(header.toString('latin1', 124, 136), 8)
    if (!Number.isSafeInteger(size)) throw new Error(`${name} has no valid size in the archive`)
    this.#content = size
    this.#padding = (blockBytes - (size % blockBytes)) % blockBytes
    return { kind: 'entry', bytes: header, name, size, isDirectory: header[156] === directoryType }
  }
}
