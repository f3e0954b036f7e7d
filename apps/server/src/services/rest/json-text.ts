// Writes JSON byte by byte, for CSV and forms. The text is kept in pieces until its end, so that nothing is copied while
// it grows.
import { Refusal } from '#src/kernel/errors.ts'
import { atOnce, type Sliced } from '#src/kernel/slices.ts'

const pieceBytes = 64 * 1024
/** JSON is longer than its source: each row repeats the names, and a control character takes six bytes. */
export const maxJsonBytes = 24 * 1024 * 1024

const [quote, backslash] = Buffer.from('"\\')
const hex = Buffer.from('0123456789abcdef')
const shortEscapes = new Map(
  ['\b\\b', '\f\\f', '\n\\n', '\r\\r', '\t\\t'].map(each => [each.charCodeAt(0), each.charCodeAt(2)]),
)

/** Positions in the text. */
export interface Range {
  readonly from: number
  readonly to: number
}

export class JsonText {
  readonly #pieces: Buffer[] = []
  #piece = Buffer.allocUnsafe(256)
  #end = 0
  #before = 0

  get length(): number {
    return this.#before + this.#end
  }

  byte(byte: number): void {
    if (this.#end === this.#piece.length) this.#startPiece()
    this.#piece[this.#end++] = byte
  }

  bytes(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at++) this.byte(bytes[at]!)
  }

  /** Writes a byte of a string, escaped if necessary. */
  character(byte: number): void {
    if (byte >= 0x20 && byte !== quote && byte !== backslash) return this.byte(byte)
    this.byte(backslash!)
    const short = byte < 0x20 ? shortEscapes.get(byte) : byte
    if (short !== undefined) return this.byte(short)
    this.byte(0x75)
    this.byte(hex[0]!)
    this.byte(hex[0]!)
    this.byte(hex[byte >> 4]!)
    this.byte(hex[byte & 15]!)
  }

  /** The whole text at once. Only for short texts. */
  whole(): Buffer {
    return atOnce(this.take())
  }

  *take(): Sliced<Buffer> {
    const whole = Buffer.allocUnsafe(this.length)
    let at = 0
    for (const piece of this.#pieces) {
      at += piece.copy(whole, at)
      yield
    }
    this.#piece.copy(whole, at, 0, this.#end)
    return whole
  }

  #startPiece(): void {
    if (this.length > maxJsonBytes)
      throw new Refusal(
        'body_too_large',
        `The body becomes more than ${maxJsonBytes} bytes of JSON; send it in several requests`,
      )
    this.#pieces.push(this.#piece)
    this.#before += this.#piece.length
    this.#piece = Buffer.allocUnsafe(pieceBytes)
    this.#end = 0
  }
}
