// Collects the keys of the rows in a JSON text while the text is scanned.
import { badBody } from './bad-body.ts'

/** No relation has more columns, and no function more parameters. */
export const maxKeys = 1664
/** A name in Postgres has at most 63 bytes, and an escape takes six. No column has a longer name. */
export const longestName = 63 * 6

export const tooManyKeys = () => badBody(`An object has more than ${maxKeys} keys`)

export class RowKeys {
  /** Number of rows. */
  count = 0
  /** Whether every row has the same keys. */
  isUniform = true
  /** Keys of the first row. */
  readonly names: string[] = []
  readonly #bytes: Buffer
  readonly #places = new Map<string, number>()
  /** For each key of the first row: positions of the key and its value, the last row with it, and the number of rows. */
  readonly #keys: { start: number; end: number; from: number; to: number; lastRow: number; rows: number }[] =
    []
  /** Number of distinct keys that this row shares with the first row. */
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

  /** `start` and `end` are the positions of the text between the quotes. */
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

  /** The position of the first row's value for the key. */
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

  /** Tries the next key first, since most rows have their keys in the same order. */
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

/** A name that is too long for a column is shortened, for the error message. */
function nameIn(bytes: Buffer, start: number, end: number, hasEscapes: boolean): string {
  if (end - start > longestName) return `${bytes.toString('utf8', start, start + shownLength)}…`
  const text = bytes.toString('utf8', start, end)
  return hasEscapes ? (JSON.parse(`"${text}"`) as string) : text
}
