// Rows in the text format of COPY, in chunks.
import { createHash } from 'node:crypto'

export const megabyte = 2 ** 20

/** Rows that were sent, as their hash. */
export function hashed(rows: Iterable<Buffer>) {
  const hash = createHash('sha256')
  async function* source() {
    for (const row of rows) {
      hash.update(row)
      yield row
    }
  }
  return { source: source(), sha256: () => hash.digest('hex') }
}

/** Chunks end anywhere in a row. */
export function* smallRows(count: number): Generator<Buffer> {
  let text = ''
  for (let row = 0; row < count; row++) {
    text += row % 7 === 0 ? `${row}\t\\N\n` : `${row}\tü ${row * 31}\n`
    if (text.length < 100_000) continue
    yield Buffer.from(text.slice(0, 99_991))
    text = text.slice(99_991)
  }
  yield Buffer.from(text)
}

export function* largeRow(bytes: number): Generator<Buffer> {
  const part = Buffer.alloc(megabyte, 'x')
  for (let left = bytes; left > 0; left -= part.length) yield part.subarray(0, left)
  yield Buffer.from('\n')
}
