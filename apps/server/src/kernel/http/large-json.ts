// Reads JSON in slices. JSON.parse cannot be interrupted: 500,000 values or 10 MB of escapes would block the event loop
// for 100 ms and more.
import { isUtf8 } from 'node:buffer'
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { invalidJson, type JsonLimits, JsonTree } from './json-tree.ts'

/** Bytes read in one slice. They take about 2 ms if they are all small values. */
export const sliceBytes = 16 * 1024
/** More digits than Postgres stores of a number. */
export const maxNumberLength = 200_000

export const loneSurrogate = () =>
  new Refusal('invalid_request', 'A text in the body holds half of a surrogate pair')
const tooLongNumber = () =>
  new Refusal('invalid_request', `A number in the body has more than ${maxNumberLength} characters`)

/** The value of bytes that must be valid JSON within the limits. An empty body has no value. */
export function* jsonInSlices(bytes: Buffer, limits: JsonLimits): Sliced<unknown> {
  if (bytes.length === 0) return
  if (!isUtf8(bytes)) throw invalidJson('The body is not valid UTF-8')
  yield
  const reader = new JsonReader(bytes, limits)
  while (!reader.read(sliceBytes)) yield
  return reader.value
}

const [quote, backslash, comma, colon, openBracket, closeBracket, openBrace, closeBrace, letterU, minus] =
  Buffer.from('"\\,:[]{}u-')
const [zero, nine, plus, point, smallE, bigE] = Buffer.from('09+.eE')
const [space, tab, lineFeed, carriageReturn] = Buffer.from(' \t\n\r')
const literals = new Map<number, { text: string; value: boolean | null }>([
  ['t'.charCodeAt(0), { text: 'true', value: true }],
  ['f'.charCodeAt(0), { text: 'false', value: false }],
  ['n'.charCodeAt(0), { text: 'null', value: null }],
])
const numberPattern = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?([0-9]+))?$/
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])
const escapeLength = '\\ud800'.length

/** The tokens that may come next. */
const expected = { value: 0, valueOrEnd: 1, key: 2, keyOrEnd: 3, colon: 4, commaOrEnd: 5, nothing: 6 }

class JsonReader {
  readonly #bytes: Buffer
  readonly #tree: JsonTree
  readonly #onExponent: JsonLimits['onExponent']
  readonly #allowsLoneSurrogates: boolean
  #at: number
  #expects = expected.value
  /** Start of the part of the current text that is not decoded yet, or -1 outside of texts. */
  #textStart = -1
  #decoded: string[] = []
  #hasEscape = false
  /** Where a low surrogate must follow, or -1. */
  #lowSurrogateAt = -1

  constructor(bytes: Buffer, limits: JsonLimits) {
    this.#bytes = bytes
    this.#tree = new JsonTree(limits)
    this.#onExponent = limits.onExponent
    this.#allowsLoneSurrogates = limits.allowsLoneSurrogates === true
    this.#at = !limits.anyKey && bytes.subarray(0, 3).equals(byteOrderMark) ? 3 : 0
  }

  get value(): unknown {
    return this.#tree.value
  }

  /** Reads about `budget` bytes. True at the end of the body. */
  read(budget: number): boolean {
    const { length } = this.#bytes
    const end = this.#at + budget
    while (this.#at < length) {
      if (this.#textStart < 0) {
        if (this.#at >= end) return false
        const byte = this.#bytes[this.#at]!
        if (byte !== quote) {
          if (this.#readPunctuation(byte)) this.#at++
          else this.#readScalar(byte)
          continue
        }
        this.#beginText()
      }
      const text = this.#readText(end)
      if (text === undefined) return false
      this.#takeText(text)
    }
    if (this.#expects !== expected.nothing) throw invalidJson()
    return true
  }

  get #expectsValue(): boolean {
    return this.#expects === expected.value || this.#expects === expected.valueOrEnd
  }

  #endValue(): void {
    this.#expects = this.#tree.isOpen ? expected.commaOrEnd : expected.nothing
  }

  /** Reads punctuation or white space. False if the byte begins a number or literal. */
  #readPunctuation(byte: number): boolean {
    if (byte === comma) {
      if (this.#expects !== expected.commaOrEnd) throw invalidJson()
      this.#expects = this.#tree.isList ? expected.value : expected.key
    } else if (byte === colon) {
      if (this.#expects !== expected.colon) throw invalidJson()
      this.#expects = expected.value
    } else if (byte === openBracket || byte === openBrace) {
      if (!this.#expectsValue) throw invalidJson()
      this.#tree.begin(this.#at)
      this.#tree.open(byte === openBracket)
      this.#expects = byte === openBracket ? expected.valueOrEnd : expected.keyOrEnd
    } else if (byte === closeBracket || byte === closeBrace) this.#close(byte === closeBracket)
    else return byte === space || byte === lineFeed || byte === tab || byte === carriageReturn
    return true
  }

  #close(isList: boolean): void {
    const whenEmpty = isList ? expected.valueOrEnd : expected.keyOrEnd
    if (this.#expects !== expected.commaOrEnd && this.#expects !== whenEmpty) throw invalidJson()
    if (this.#tree.isList !== isList) throw invalidJson()
    this.#tree.close(this.#at + 1)
    this.#endValue()
  }

  #readScalar(byte: number): void {
    if (!this.#expectsValue) throw invalidJson()
    this.#tree.begin(this.#at)
    const literal = literals.get(byte)
    if (literal === undefined) this.#readNumber()
    else {
      const end = this.#at + literal.text.length
      if (this.#bytes.toString('latin1', this.#at, end) !== literal.text) throw invalidJson()
      this.#at = end
      this.#tree.scalar(literal.value, end)
    }
    this.#endValue()
  }

  #readNumber(): void {
    const start = this.#at
    // A number is read within one slice, so its length is limited.
    const last = Math.min(start + maxNumberLength, this.#bytes.length)
    let at = start
    while (at < last && isNumberByte(this.#bytes[at]!)) at++
    if (at - start === maxNumberLength && isNumberByte(this.#bytes[at] ?? 0)) throw tooLongNumber()
    const text = this.#bytes.toString('latin1', start, at)
    const match = numberPattern.exec(text)
    if (!match) throw invalidJson()
    if (match[1] !== undefined) this.#onExponent?.(match[1])
    this.#at = at
    this.#tree.scalar(Number(text), at)
  }

  #beginText(): void {
    if (this.#expectsValue) this.#tree.begin(this.#at)
    else if (this.#expects !== expected.key && this.#expects !== expected.keyOrEnd) throw invalidJson()
    this.#textStart = ++this.#at
  }

  /** Continues a text after its opening quotation mark. Undefined if the text continues in the next slice. */
  #readText(end: number): string | undefined {
    const bytes = this.#bytes
    const { length } = bytes
    let at = this.#at
    while (at < length) {
      const byte = bytes[at]!
      // The slice ends before a character, not between its bytes.
      if (at >= end && (byte & 0xc0) !== 0x80) {
        this.#decoded.push(this.#decode(at))
        this.#textStart = this.#at = at
        return
      }
      if (byte === backslash) {
        const surrogate = this.#allowsLoneSurrogates ? 'none' : surrogateAt(bytes, at)
        if ((surrogate === 'low') !== (at === this.#lowSurrogateAt)) throw loneSurrogate()
        this.#lowSurrogateAt = surrogate === 'high' ? at + escapeLength : -1
        this.#hasEscape = true
        at += bytes[at + 1] === letterU ? escapeLength : 2
        continue
      }
      if (this.#lowSurrogateAt >= 0) throw loneSurrogate()
      if (byte === quote) return this.#endText(at)
      if (byte < space!) throw invalidJson()
      at++
    }
    throw invalidJson()
  }

  #endText(at: number): string {
    const last = this.#decode(at)
    const text = this.#decoded.length === 0 ? last : this.#decoded.join('') + last
    this.#decoded = []
    this.#textStart = -1
    this.#at = at + 1
    return text
  }

  #decode(end: number): string {
    const text = this.#bytes.toString('utf8', this.#textStart, end)
    if (!this.#hasEscape) return text
    this.#hasEscape = false
    try {
      return JSON.parse(`"${text}"`)
    } catch (cause) {
      throw invalidJson(undefined, cause)
    }
  }

  #takeText(text: string): void {
    if (this.#expectsValue) {
      this.#tree.scalar(text, this.#at)
      this.#endValue()
    } else {
      this.#tree.key(text)
      this.#expects = expected.colon
    }
  }
}

const isNumberByte = (byte: number) =>
  (byte >= zero! && byte <= nine!) ||
  byte === minus ||
  byte === plus ||
  byte === point ||
  byte === smallE ||
  byte === bigE

const lowerCase = 0x20
const [digit8, digit9, letterA, letterB, letterD] = Buffer.from('89abd')

/** Whether the escape that begins here is a surrogate, and which kind. */
export function surrogateAt(bytes: Buffer, at: number): 'high' | 'low' | 'none' {
  if (bytes[at + 1] !== letterU || (bytes[at + 2]! | lowerCase) !== letterD) return 'none'
  const kind = bytes[at + 3]! | lowerCase
  if (kind === letterA || kind === letterB || kind === digit8 || kind === digit9) return 'high'
  return kind > letterB! ? 'low' : 'none'
}
