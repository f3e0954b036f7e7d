// The keys of the rows in a JSON text, counted while the text is scanned.
import { badBody } from './bad-body.ts'

/** No relation has more columns, and no function more parameters. */
export const maxKeys = 1664
/** A name of Postgres has at most 63 bytes, and an escape takes six. What is longer is the name of nothing. */
export const longestName = 63 * 6

export const tooManyKeys = () => badBody(`An object has more than ${maxKeys} keys`)

export class RowKeys {
  /** Rows seen. */
  count = 0
  /** Whether every row has the same keys. */
  isUniform = true
  /** Keys of the first row. */
  readonly names: string[] = []
  readonly #bytes: Buffer
  readonly #places = new Map<string, number>()
  /** Of each key of the first row: where it is written, where its value is, and which rows have it. */
  readonly #keys: { start: number; end: number; from: number; to: number; lastRow: number; rows: number }[] =
    []
  /** Distinct keys of the first row that this row has. */
  #found = 0
  #place = -1

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  startRow(): void {
    this.count++
    this.#found = 0
    this.#place = -1
  }

  /** `start` and `end` are the places of the text between the quotes. */
  key(start: number, end: number, hasEscapes: boolean): void {
    this.#place = this.count === 1 ? this.#add(start, end, hasEscapes) : this.#find(start, end, hasEscapes)
    const key = this.#keys[this.#place]
    if (!key) this.isUniform = false
    else if (key.lastRow !== this.count) {
      key.lastRow = this.count
      key.rows++
      this.#found++
    }
  }

  startValue(at: number): void {
    if (this.count === 1) this.#keys[this.#place]!.from = at
  }

  endValue(at: number): void {
    if (this.count === 1) this.#keys[this.#place]!.to = at
  }

  endRow(): void {
    if (this.#found !== this.#keys.length) this.isUniform = false
  }

  /** Whether some row lacks the key. */
  lacks(name: string): boolean {
    const place = this.#places.get(name)
    return this.count > 0 && (place === undefined || this.#keys[place]!.rows < this.count)
  }

  /** Where the first row has the value of the key. */
  valueOf(name: string): { readonly from: number; readonly to: number } | undefined {
    const place = this.#places.get(name)
    return place === undefined ? undefined : this.#keys[place]
  }

  #add(start: number, end: number, hasEscapes: boolean): number {
    const name = nameIn(this.#bytes, start, end, hasEscapes)
    const known = this.#places.get(name)
    if (known !== undefined) return known
    if (this.names.push(name) > maxKeys) throw tooManyKeys()
    const place = this.#keys.push({ start, end, from: 0, to: 0, lastRow: 0, rows: 0 }) - 1
    this.#places.set(name, place)
    return place
  }

  /** Rows mostly have their keys in the same order. */
  #find(start: number, end: number, hasEscapes: boolean): number {
    if (end - start > longestName) return -1
    const next = this.#place + 1
    if (this.#isKey(next, start, end)) return next
    return this.#places.get(nameIn(this.#bytes, start, end, hasEscapes)) ?? -1
  }

  #isKey(place: number, start: number, end: number): boolean {
    const key = this.#keys[place]
    if (!key || key.end - key.start !== end - start) return false
    for (let at = start, known = key.start; at < end; at++, known++)
      if (this.#bytes[at] !== this.#bytes[known]) return false
    return true
  }
}

const shownLength = 100

/** Of a name that nothing can have, only the beginning, for the refusal. */
function nameIn(bytes: Buffer, start: number, end: number, hasEscapes: boolean): string {
  if (end - start > longestName) return `${bytes.toString('utf8', start, start + shownLength)}…`
  const text = bytes.toString('utf8', start, end)
  return hasEscapes ? (JSON.parse(`"${text}"`) as string) : text
}
