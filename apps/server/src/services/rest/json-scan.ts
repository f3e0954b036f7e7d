// Validates JSON in slices and collects the keys of its rows, without creating values: Postgres parses the text itself.
// Accepts and refuses the same texts as `parseJsonBody`.
import { isUtf8 } from 'node:buffer'
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { badBody } from './bad-body.ts'
import { RowKeys } from './row-keys.ts'

export const maxDepth = 100
export const maxValues = 500_000
/** A slice ends with the first token after this number of bytes. */
export const sliceBytes = 32 * 1024
/** Of the types of Postgres, only json takes numbers with more digits. */
const maxDigits = 64 * 1024

export const tooManyValues = () =>
  new Refusal('body_too_large', `The body holds more than ${maxValues} values; send it in several requests`)

export interface ScannedJson {
  readonly kind: 'array' | 'object' | 'other'
  /** The keys of the object, or of the objects in the array. */
  readonly rows: RowKeys
}

const [quote, backslash, comma, colon, minus, plus, dot] = Buffer.from('"\\,:-+.')
const [openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('[]{}')
const [zero, nine, letterE, letterU, lowerCase] = Buffer.from('09eu ')

/** The token that may come next. */
const expects = { value: 0, firstElement: 1, firstKey: 2, key: 3, colon: 4, more: 5 } as const
/** Kinds of levels. `prototype` is a forbidden key in an object that is the value of a key `constructor`. */
const levels = { array: 1, object: 2, constructor: 3 } as const

/** With `anyElement`, an array may have any elements. If the first one is an object, all its objects are rows. */
export function* scanJson(bytes: Buffer, { anyElement = false } = {}): Sliced<ScannedJson> {
  if (!isUtf8(bytes)) throw badBody('The body is not valid UTF-8')
  const scanner = new Scanner(bytes, anyElement)
  for (;;) {
    scanner.run(Math.min(bytes.length, scanner.at + sliceBytes))
    if (scanner.at >= bytes.length) return scanner.end()
    yield
  }
}

class Scanner {
  at = 0
  readonly #bytes: Buffer
  readonly #anyElement: boolean
  readonly #rows: RowKeys
  readonly #levels = new Uint8Array(maxDepth + 1)
  #depth = 0
  /** The depth of the rows' keys. */
  #rowDepth = -1
  #kind: ScannedJson['kind'] = 'other'
  #values = 1
  #next: number = expects.value
  /** The start of the string that the scanner is in, or -1. */
  #textStart = -1
  #hasEscapes = false
  /** The last key was `constructor`. */
  #isConstructor = false

  constructor(bytes: Buffer, anyElement: boolean) {
    this.#bytes = bytes
    this.#anyElement = anyElement
    this.#rows = new RowKeys(bytes)
  }

  /** Scans up to the limit. A number, a word or an escape may end behind it. */
  run(limit: number): void {
    while (this.at < limit) {
      if (this.#textStart >= 0) {
        this.#text(limit)
        continue
      }
      const byte = this.#bytes[this.at]!
      if (isSpace(byte)) this.at++
      else this.#token(byte)
    }
  }

  end(): ScannedJson {
    if (this.#depth > 0 || this.#next !== expects.more || this.#textStart >= 0) throw notJson()
    return { kind: this.#kind, rows: this.#rows }
  }

  #token(byte: number): void {
    switch (this.#next) {
      case expects.more:
        return this.#more(byte)
      case expects.colon:
        return this.#colon(byte)
      case expects.key:
      case expects.firstKey:
        if (byte === quote) return this.#startText()
        if (byte !== closeBrace || this.#next === expects.key) throw notJson()
        return this.#close()
      default:
        if (byte === closeBracket && this.#next === expects.firstElement) return this.#close()
        return this.#value(byte)
    }
  }

  #more(byte: number): void {
    if (this.#depth === 0) throw notJson()
    const isArray = this.#levels[this.#depth] === levels.array
    if (this.#depth === this.#rowDepth && !isArray) this.#rows.endValue(this.at)
    if (byte === comma) {
      this.#count()
      this.#next = isArray ? expects.value : expects.key
      this.at++
      return
    }
    if (byte !== (isArray ? closeBracket : closeBrace)) throw notJson()
    this.#close()
  }

  #colon(byte: number): void {
    if (byte !== colon) throw notJson()
    this.at++
    if (this.#depth === this.#rowDepth) this.#rows.startValue(this.at)
    this.#next = expects.value
  }

  #value(byte: number): void {
    if (byte === openBrace) return this.#open(true)
    const isElement = this.#kind === 'array' && this.#depth === 1
    const mustBeRow = isElement && !this.#anyElement
    if (isElement && this.#rows.count === 0) this.#rowDepth = -1
    if (byte === quote || byte === openBracket) {
      if (mustBeRow) throw notRows()
      return byte === quote ? this.#startText() : this.#open(false)
    }
    this.at = scalarEnd(this.#bytes, this.at)
    if (mustBeRow) throw notRows()
    this.#next = expects.more
  }

  #open(isObject: boolean): void {
    this.#count()
    if (++this.#depth > maxDepth) throw badBody(`The body is nested more than ${maxDepth} levels deep`)
    if (this.#depth === 1) {
      this.#kind = isObject ? 'object' : 'array'
      this.#rowDepth = isObject ? 1 : 2
    }
    const object = this.#isConstructor ? levels.constructor : levels.object
    this.#levels[this.#depth] = isObject ? object : levels.array
    this.#isConstructor = false
    this.#next = isObject ? expects.firstKey : expects.firstElement
    if (this.#depth === this.#rowDepth && isObject) this.#rows.startRow()
    this.at++
  }

  #close(): void {
    if (this.#depth === this.#rowDepth && this.#levels[this.#depth] !== levels.array) this.#rows.endRow()
    this.#depth--
    this.#next = expects.more
    this.at++
  }

  #startText(): void {
    this.#textStart = ++this.at
    this.#hasEscapes = false
  }

  #text(limit: number): void {
    const bytes = this.#bytes
    this.at = plainEnd(bytes, this.at, limit)
    if (this.at >= limit) return
    if (bytes[this.at] === quote) return this.#endText()
    this.#hasEscapes = true
    this.at = escapeEnd(bytes, this.at)
  }

  #endText(): void {
    const start = this.#textStart
    const end = this.at++
    this.#textStart = -1
    if (this.#next === expects.key || this.#next === expects.firstKey) this.#key(start, end)
    else this.#next = expects.more
  }

  #key(start: number, end: number): void {
    const name = forbiddenName(this.#bytes, start, end, this.#hasEscapes)
    const isInConstructor = this.#levels[this.#depth] === levels.constructor
    if (name === '__proto__' || (name === 'prototype' && isInConstructor)) throw notJson()
    this.#isConstructor = name === 'constructor'
    if (this.#depth === this.#rowDepth) this.#rows.key(start, end, this.#hasEscapes)
    this.#next = expects.colon
  }

  #count(): void {
    if (++this.#values > maxValues) throw tooManyValues()
  }
}

const notJson = () => badBody('The body is not valid JSON')
const notRows = () => badBody('Every element of the array must be an object')

export const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** The position after characters of a string that are not escaped. */
function plainEnd(bytes: Buffer, start: number, limit: number): number {
  let at = start
  for (; at < limit; at++) {
    const byte = bytes[at]!
    if (byte === quote || byte === backslash) break
    if (byte < 0x20) throw notJson()
  }
  return at
}

const simpleEscapes = new Set(Buffer.from('"\\/bfnrt'))

/** The position after an escape, or after both escapes of a surrogate pair. */
function escapeEnd(bytes: Buffer, at: number): number {
  if (simpleEscapes.has(bytes[at + 1]!)) return at + 2
  const unit = unitAt(bytes, at)
  if (unit >= 0xdc00 && unit < 0xe000) throw half()
  if (unit < 0xd800 || unit >= 0xe000) return at + 6
  if (bytes[at + 6] !== backslash || bytes[at + 7] !== letterU) throw half()
  const second = unitAt(bytes, at + 6)
  if (second < 0xdc00 || second >= 0xe000) throw half()
  return at + 12
}

function unitAt(bytes: Buffer, at: number): number {
  if (bytes[at + 1] !== letterU || at + 6 > bytes.length) throw notJson()
  let unit = 0
  for (let digit = at + 2; digit < at + 6; digit++) unit = unit * 16 + hexDigit(bytes[digit]!)
  return unit
}

function hexDigit(byte: number): number {
  if (isDigit(byte)) return byte - zero!
  const letter = byte | lowerCase!
  if (letter < 0x61 || letter > 0x66) throw notJson()
  return letter - 0x61 + 10
}

const half = () => badBody('A text in the body holds half of a surrogate pair')

/** The length of the longest forbidden name with every character escaped. */
const longestForbidden = 'constructor'.length * 6
const firstLetters = new Set(Buffer.from('_cp\\'))

/** The key if it may be one that reaches a prototype, otherwise an empty text. */
function forbiddenName(bytes: Buffer, start: number, end: number, hasEscapes: boolean): string {
  if (end - start > longestForbidden || !firstLetters.has(bytes[start]!)) return ''
  const text = bytes.toString('latin1', start, end)
  return hasEscapes ? (JSON.parse(`"${text}"`) as string) : text
}

const isDigit = (byte: number | undefined) => byte !== undefined && byte >= zero! && byte <= nine!

const words = ['true', 'false', 'null'].map(word => Buffer.from(word))

/** The position after a number or a word. */
function scalarEnd(bytes: Buffer, start: number): number {
  let at = start
  if (bytes[at] !== minus && !isDigit(bytes[at])) {
    const word = words.find(each => each.every((byte, index) => bytes[start + index] === byte))
    if (!word) throw notJson()
    return start + word.length
  }
  if (bytes[at] === minus) at++
  if (bytes[at] === zero) at++
  else at = digitsEnd(bytes, at)
  if (bytes[at] === dot) at = digitsEnd(bytes, at + 1)
  if ((bytes[at]! | lowerCase!) === letterE) {
    at++
    if (bytes[at] === minus || bytes[at] === plus) at++
    at = digitsEnd(bytes, at)
  }
  return at
}

/** The position after one or more digits. */
function digitsEnd(bytes: Buffer, start: number): number {
  if (!isDigit(bytes[start])) throw notJson()
  let at = start + 1
  for (; isDigit(bytes[at]); at++)
    if (at - start >= maxDigits) throw badBody(`A number in the body has more than ${maxDigits} digits`)
  return at
}
