// Collects the rows of an answer as objects with text values, up to a limit.
import { cellsOf } from './cells.ts'
import { answerTooLarge, maxAnswerBytes } from './rejections.ts'

/** Bytes of a column in a RowDescription after its name. */
const columnBytes = 18

export class TextRows {
  rows: Record<string, string | null>[] = []
  error: Error | undefined
  #names: string[] = []
  #bytes = 0

  /** Reads a RowDescription. The rows of an earlier statement of the same text are dropped. */
  begin(bytes: Buffer, start: number): void {
    this.rows = []
    this.#names = []
    let at = start + 2
    for (let count = bytes.readInt16BE(start); count > 0; count--) {
      const end = bytes.indexOf(0, at)
      this.#names.push(bytes.toString('utf8', at, end))
      at = end + 1 + columnBytes
    }
  }

  /** Reads a DataRow. */
  add(bytes: Buffer, start: number, end: number): void {
    this.#bytes += end - start
    if (this.#bytes > maxAnswerBytes) {
      this.rows = []
      this.error ??= answerTooLarge()
      return
    }
    const cells = cellsOf(bytes, start, end, true)
    this.rows.push(
      Object.fromEntries(this.#names.map((name, index) => [name, cells[index]?.toString() ?? null])),
    )
  }
}
