// The frames between the platform and a worker, on one connection for all calls. A frame has the length of the rest in four
// bytes, its type in one, the number of the call in four, and its content.

export const frameTypes = {
  /** JSON: method, URL and headers of a call; status and headers of an answer. The body follows. */
  head: 1,
  /** The length of the head in four bytes, the head, and the whole body. */
  whole: 2,
  data: 3,
  /** The end of a body. */
  end: 4,
  /** The other side does not want or cannot send the rest. */
  reset: 5,
  /** Four bytes: the other side may send so many bytes more. */
  credit: 6,
} as const
export type FrameType = (typeof frameTypes)[keyof typeof frameTypes]

/** Bytes of a body that may be sent before the other side has taken any. */
export const initialCredit = 256 * 1024
/** Credit is given back in steps of at least this. */
export const creditStep = 64 * 1024
/** Bodies of answers up to this length are sent together with the head. */
export const maxWholeBytes = 64 * 1024
export const maxAnswerHeadBytes = 256 * 1024
export const maxAnswerHeaders = 1000
export const frameHeaderBytes = 9
/** A longer frame does not come from the host of a worker. */
export const maxAnswerFrameBytes = maxWholeBytes + maxAnswerHeadBytes + 64

/** What HTTP allows. Deno allows more. */
export const isHeaderValue = (value: string): boolean => !/[^\t\x20-\x7e\x80-\xff]/.test(value)

export interface Frame {
  readonly type: FrameType
  readonly call: number
  readonly content: Uint8Array
}

export function encodeFrame(type: FrameType, call: number, ...parts: readonly Uint8Array[]): Uint8Array {
  let length = frameHeaderBytes - 4
  for (const part of parts) length += part.length
  const bytes = new Uint8Array(4 + length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, length)
  view.setUint8(4, type)
  view.setUint32(5, call)
  let at = frameHeaderBytes
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/** Collects bytes, and returns the frames that are complete. Their content is valid until the next call. */
export class FrameReader {
  #bytes = new Uint8Array(64 * 1024)
  #length = 0

  /** Where the next bytes are to be put. */
  get room(): Uint8Array {
    if (this.#length === this.#bytes.length) this.#grow(this.#bytes.length * 2)
    return this.#bytes.subarray(this.#length)
  }

  *received(count: number): Generator<Frame> {
    this.#length += count
    let at = 0
    const view = new DataView(this.#bytes.buffer)
    while (this.#length - at >= frameHeaderBytes) {
      const length = view.getUint32(at)
      if (this.#length - at < 4 + length) {
        if (4 + length > this.#bytes.length) this.#grow(4 + length)
        break
      }
      const content = this.#bytes.subarray(at + frameHeaderBytes, at + 4 + length)
      yield { type: view.getUint8(at + 4) as FrameType, call: view.getUint32(at + 5), content }
      at += 4 + length
    }
    this.#bytes.copyWithin(0, at, this.#length)
    this.#length -= at
  }

  #grow(bytes: number): void {
    const larger = new Uint8Array(bytes)
    larger.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = larger
  }
}
