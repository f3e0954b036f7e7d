// Converts CSV to a JSON array of rows, in slices and without an object for each row. The first line has the names. NULL
// without quotes is null.
import { isUtf8 } from 'node:buffer'
import type { Sliced } from '#src/kernel/slices.ts'
import { badBody } from './bad-body.ts'
import { maxValues, sliceBytes, tooManyValues } from './json-scan.ts'
import { JsonText, type Range } from './json-text.ts'
import { longestName, maxKeys } from './row-keys.ts'

export interface CsvRows {
  /** An array of objects. */
  readonly json: Buffer
  readonly names: readonly string[]
  readonly count: number
  /** The positions of the first row's values in the JSON, in the order of the names. */
  readonly first: readonly Range[]
}

export function* csvRows(bytes: Buffer): Sliced<CsvRows> {
  if (!isUtf8(bytes)) throw badBody('The body is not valid UTF-8')
  const writer = new CsvWriter(bytes)
  for (;;) {
    writer.run()
    if (writer.isAtEnd) break
    yield
  }
  const { names, count, first } = writer
  return { json: yield* writer.rows.take(), names, count, first }
}

const [quote, comma, lineFeed, carriageReturn] = Buffer.from('",\n\r')
const [openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('[]{}')
const nullWord = Buffer.from('NULL')
const jsonNull = Buffer.from('null')
const byteOrderMark = Buffer.from('\uFEFF')

class CsvWriter {
  readonly rows = new JsonText()
  readonly names: string[] = []
  readonly first: Range[] = []
  readonly #bytes: Buffer
  /** The text before a value of each column. Undefined if the name is too long for any column. */
  readonly #prefixes: (Buffer | undefined)[] = []
  #name = new JsonText()
  #at: number
  /** Number of complete lines. The first is the header. */
  #line = 0
  #cell = 0
  #values = 0
  #state: 'cell' | 'bare' | 'quoted' = 'cell'
  /** A comma is followed by a cell, even at the end of the text. */
  #isAfterComma = false
  #valueFrom = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#at = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? byteOrderMark.length : 0
    if (this.#at === bytes.length) throw badBody('The CSV has no header line')
    this.rows.byte(openBracket!)
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length && this.#state === 'cell' && !this.#isAfterComma
  }

  get count(): number {
    return this.#line - 1
  }

  /** One slice: `sliceBytes` of input and output together. */
  run(): void {
    const from = this.#at + this.rows.length
    while (!this.isAtEnd && this.#at + this.rows.length < from + sliceBytes) {
      if (this.#state === 'cell') this.#startCell()
      else this.#copy(Math.min(this.#bytes.length, this.#at + sliceBytes))
    }
    if (this.isAtEnd) this.rows.byte(closeBracket!)
  }

  /** Receives the text of the cell. Undefined if the text is not needed because a name is too long. */
  get #out(): JsonText | undefined {
    if (this.#line > 0) return this.#prefixes[this.#cell] && this.rows
    return this.#name.length > longestName + 1 ? undefined : this.#name
  }

  #startCell(): void {
    if (++this.#values > maxValues) throw tooManyValues()
    if (this.#line > 0 && this.#cell === this.names.length)
      throw badBody(
        `Line ${this.#line + 1} of the CSV has more values than its header has names (${this.#cell})`,
      )
    if (this.#line > 0 && this.#cell === 0) {
      if (this.#line > 1) this.rows.byte(comma!)
      this.rows.byte(openBrace!)
    }
    const out = this.#out
    if (this.#line > 0) out?.bytes(this.#prefixes[this.#cell]!)
    this.#valueFrom = this.rows.length
    if (this.#line > 0 && isNull(this.#bytes, this.#at)) {
      out?.bytes(jsonNull)
      this.#at += nullWord.length
      return this.#endCell(false)
    }
    out?.byte(quote!)
    const isQuoted = this.#bytes[this.#at] === quote
    if (isQuoted) this.#at++
    this.#state = isQuoted ? 'quoted' : 'bare'
  }

  #copy(limit: number): void {
    const bytes = this.#bytes
    const isQuoted = this.#state === 'quoted'
    const out = this.#out
    this.#at = isQuoted ? copyQuoted(bytes, this.#at, limit, out) : copyBare(bytes, this.#at, limit, out)
    if (this.#at === bytes.length && isQuoted)
      throw badBody(`A quote on line ${this.#line + 1} of the CSV is never closed`)
    if (this.#at === limit && limit < bytes.length) return
    if (isQuoted && bytes[this.#at + 1] === quote) {
      out?.character(quote!)
      this.#at += 2
      return
    }
    if (isQuoted) this.#at++
    out?.byte(quote!)
    this.#endCell(isQuoted)
  }

  #endCell(isQuoted: boolean): void {
    if (this.#line === 0) this.#addColumn()
    else if (this.#line === 1) this.first.push({ from: this.#valueFrom, to: this.rows.length })
    this.#state = 'cell'
    this.#cell++
    this.#isAfterComma = this.#bytes[this.#at] === comma
    if (this.#isAfterComma) this.#at++
    else this.#endLine(isQuoted)
  }

  #addColumn(): void {
    if (this.names.length === maxKeys) throw badBody(`The CSV has more than ${maxKeys} columns`)
    const json = this.#name.whole().toString()
    this.#name = new JsonText()
    const isShort = Buffer.byteLength(json) <= longestName + 2
    this.names.push(isShort ? (JSON.parse(json) as string) : `${json.slice(1, 100)}…`)
    const isFirst = this.#prefixes.every(prefix => prefix === undefined)
    this.#prefixes.push(isShort ? Buffer.from(`${isFirst ? '' : ','}${json}:`) : undefined)
  }

  #endLine(isQuoted: boolean): void {
    this.#at = lineEnd(this.#bytes, this.#at, this.#line, isQuoted)
    if (this.#line === 0) {
      if (new Set(this.names).size < this.names.length) throw badBody('The CSV names a column twice')
    } else {
      if (this.#cell !== this.names.length)
        throw badBody(
          `Line ${this.#line + 1} of the CSV has ${this.#cell} values, its header ${this.names.length} names`,
        )
      this.rows.byte(closeBrace!)
    }
    this.#line++
    this.#cell = 0
  }
}

/** Whether the cell is the bare word NULL. */
function isNull(bytes: Buffer, at: number): boolean {
  for (let index = 0; index < nullWord.length; index++)
    if (bytes[at + index] !== nullWord[index]) return false
  const after = bytes[at + nullWord.length]
  return after === undefined || after === comma || after === lineFeed || after === carriageReturn
}

/** Copies up to the end of a cell without quotes, or to the limit. */
function copyBare(bytes: Buffer, start: number, limit: number, out: JsonText | undefined): number {
  let at = start
  for (; at < limit; at++) {
    const byte = bytes[at]!
    if (byte === comma || byte === lineFeed || byte === carriageReturn) break
    out?.character(byte)
  }
  return at
}

/** Copies up to the next quote, or to the limit. */
function copyQuoted(bytes: Buffer, start: number, limit: number, out: JsonText | undefined): number {
  let at = start
  for (; at < limit && bytes[at] !== quote; at++) out?.character(bytes[at]!)
  return at
}

/** The position after the line end that must follow the last cell of a line. */
function lineEnd(bytes: Buffer, at: number, line: number, isQuoted: boolean): number {
  if (at === bytes.length) return at
  const length = bytes[at] === carriageReturn ? 2 : 1
  if (bytes[at + length - 1] === lineFeed) return at + length
  throw badBody(
    isQuoted
      ? `Unexpected text after a quote on line ${line + 1} of the CSV`
      : `A carriage return without a line feed on line ${line + 1} of the CSV`,
  )
}
