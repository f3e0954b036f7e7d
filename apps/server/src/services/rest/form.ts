// Converts a form to a JSON object whose values are strings. The fields are counted before any is decoded.
import { isUtf8 } from 'node:buffer'
import type { Sliced } from '#src/kernel/slices.ts'
import { badBody } from './bad-body.ts'
import { sliceBytes } from './json-scan.ts'
import { JsonText, type Range } from './json-text.ts'
import { longestName, maxKeys } from './row-keys.ts'

export interface FormRow {
  /** An object. */
  readonly json: Buffer
  /** The position of each field's value in the JSON. Of fields with the same name, the last one counts. */
  readonly values: ReadonlyMap<string, Range>
}

export function* formRow(bytes: Buffer): Sliced<FormRow> {
  yield* countFields(bytes)
  const writer = new FormWriter(bytes)
  for (;;) {
    writer.run(Math.min(bytes.length, writer.at + sliceBytes))
    if (writer.at >= bytes.length) break
    yield
  }
  writer.end()
  const json = yield* writer.row.take()
  if (!isUtf8(json)) throw notUtf8()
  return { json, values: writer.values }
}

const [ampersand, equals, percent, plus, space, quote] = Buffer.from('&=%+ "')
const [openBrace, closeBrace, comma, colon] = Buffer.from('{},:')

function* countFields(bytes: Buffer): Sliced<void> {
  let fields = 0
  for (let at = 0; at < bytes.length; at++) {
    if (at % sliceBytes === 0 && at > 0) yield
    const isStart = bytes[at] !== ampersand && (at === 0 || bytes[at - 1] === ampersand)
    if (isStart && ++fields > maxKeys) throw badBody(`The form has more than ${maxKeys} fields`)
  }
}

class FormWriter {
  at = 0
  readonly row = new JsonText()
  readonly values = new Map<string, Range>()
  readonly #bytes: Buffer
  #state: 'between' | 'name' | 'value' = 'between'
  #json = new JsonText()
  #name = ''
  #valueFrom = 0
  /** Receives the text of the name or value. Undefined for the value of a name that is too long for a column. */
  #out: JsonText | undefined

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.row.byte(openBrace!)
  }

  /** Reads up to the limit. An escape may end behind it. */
  run(limit: number): void {
    for (; this.at < limit; this.at++) {
      const byte = this.#bytes[this.at]!
      if (byte === ampersand) this.#endField()
      else {
        if (this.#state === 'between') this.#startName()
        if (byte === equals && this.#state === 'name') this.#endName()
        else this.#character(byte)
      }
    }
  }

  end(): void {
    this.#endField()
    this.row.byte(closeBrace!)
  }

  #character(encoded: number): void {
    let byte = encoded
    if (byte === plus) byte = space!
    else if (byte === percent) {
      byte = hexAt(this.#bytes, this.at + 1) * 16 + hexAt(this.#bytes, this.at + 2)
      this.at += 2
    }
    if (byte === 0) throw badBody('The form holds a NUL character, which Postgres cannot store')
    // The rest of a name that is too long is dropped.
    if (this.#state === 'value' || this.#json.length <= longestName + 1) this.#out?.character(byte)
  }

  #startName(): void {
    this.#state = 'name'
    this.#json = new JsonText()
    this.#json.byte(quote!)
    this.#out = this.#json
  }

  #endName(): void {
    this.#json.byte(quote!)
    const json = this.#json.whole()
    const isShort = json.length <= longestName + 2
    this.#name = isShort ? (JSON.parse(json.toString()) as string) : `${json.toString('utf8', 1, 100)}…`
    this.#out = isShort ? this.row : undefined
    if (isShort) {
      if (this.row.length > 1) this.row.byte(comma!)
      this.row.bytes(json)
      this.row.byte(colon!)
    }
    this.#valueFrom = this.row.length
    this.#out?.byte(quote!)
    this.#state = 'value'
  }

  #endField(): void {
    if (this.#state === 'between') return
    if (this.#state === 'name') this.#endName()
    this.#out?.byte(quote!)
    this.values.set(this.#name, { from: this.#valueFrom, to: this.row.length })
    this.#state = 'between'
  }
}

const hexDigits = new Int8Array(256).fill(-1)
for (const [value, digit] of [...'0123456789abcdef'].entries())
  for (const each of [digit, digit.toUpperCase()]) hexDigits[each.charCodeAt(0)] = value

function hexAt(bytes: Buffer, at: number): number {
  const digit = hexDigits[bytes[at] ?? 0]!
  if (digit < 0) throw badBody('A % in the form must come before two hexadecimal digits')
  return digit
}

const notUtf8 = () => badBody('The form is not valid UTF-8')
