// Encodes the rows of a script as JSON while they arrive, as to_json of Postgres does. Small rows are encoded at once,
// since the connection pauses between the pieces it reads. A row of megabytes is encoded in slices.
import { answerTooLarge, maxAnswerBytes } from '#src/kernel/postgres/answer-limits.ts'
import type { Column, ResultReader } from '#src/kernel/postgres/driver-internals.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { pieceCharacters } from '#src/kernel/text-list.ts'
import { jsonValue, valuePieces } from './json-values.ts'

/** Characters that are joined before they are written as bytes. Until then each text is an object in memory. */
const bufferedCharacters = 4096
const chunkBytes = 256 * 1024
/** UTF-8 bytes of one UTF-16 unit. */
const maxUnitBytes = 3
const noBytes = Buffer.alloc(0)

type Row = readonly (string | null)[]

export class JsonRows implements ResultReader {
  readonly #maxBytes: number
  #result: EncodedResult

  constructor(maxBytes = maxAnswerBytes) {
    this.#maxBytes = maxBytes
    this.#result = new EncodedResult([], maxBytes)
  }

  begin(columns: readonly Column[]): void {
    this.#result.drop()
    this.#result = new EncodedResult(columns, this.#maxBytes)
  }

  row(values: Row): void {
    this.#result.row(values)
  }

  /** The answer of the last statement as a JSON array, in pieces. */
  finish(): Promise<Buffer[]> {
    return this.#result.finish()
  }
}

class EncodedResult {
  readonly #columns: readonly Column[]
  readonly #maxBytes: number
  readonly #chunks: Buffer[] = []
  #chunk = noBytes
  #end = 0
  #names: readonly string[] | undefined
  #bytes = 0
  #buffered = '['
  #hasRows = false
  /** A row that is being encoded in slices, and the rows after it. */
  #waiting: Row[] = []
  #isEncoding = false
  #encoded: Promise<void> | undefined
  #isDropped = false

  constructor(columns: readonly Column[], maxBytes: number) {
    this.#columns = columns
    this.#maxBytes = maxBytes
  }

  row(values: Row): void {
    if (!this.#isEncoding && charactersIn(values) <= pieceCharacters) return this.#write(this.#json(values))
    this.#waiting.push(values)
    if (this.#isEncoding) return
    this.#isEncoding = true
    this.#encoded = inSlices(this.#encodeWaiting())
    // `finish` awaits the same promise and throws its error.
    this.#encoded.catch(() => {})
  }

  drop(): void {
    this.#isDropped = true
  }

  async finish(): Promise<Buffer[]> {
    await this.#encoded
    this.#write(']')
    this.#flush()
    this.#nextChunk(0)
    return this.#chunks
  }

  *#encodeWaiting(): Sliced<void> {
    let characters = 0
    while (this.#waiting.length > 0) {
      const rows = this.#waiting
      this.#waiting = []
      for (const row of rows)
        for (const piece of this.#pieces(row)) {
          if (this.#isDropped) return
          this.#write(piece)
          characters += piece.length + 1
          if (characters < pieceCharacters) continue
          characters = 0
          yield
        }
    }
    this.#isEncoding = false
  }

  #separator(): string {
    const separator = this.#hasRows ? ',\n ' : ''
    this.#hasRows = true
    return separator
  }

  #json(values: Row): string {
    const names = this.#quotedNames()
    let text = `${this.#separator()}{`
    for (let place = 0; place < values.length; place++)
      text += `${place === 0 ? '' : ','}${names[place]}:${jsonValue(values[place]!, this.#columns[place]!.type)}`
    return `${text}}`
  }

  *#pieces(values: Row): Generator<string> {
    const names = this.#quotedNames()
    yield `${this.#separator()}{`
    for (const [place, value] of values.entries()) {
      yield `${place === 0 ? '' : ','}${names[place]}:`
      yield* valuePieces(value, this.#columns[place]!.type)
    }
    yield '}'
  }

  /** Made with the first row: a script may have many statements whose results have columns but no rows. */
  #quotedNames(): readonly string[] {
    this.#names ??= this.#columns.map(({ name }) => JSON.stringify(name))
    return this.#names
  }

  #write(text: string): void {
    this.#buffered += text
    if (this.#buffered.length >= bufferedCharacters) this.#flush()
  }

  #flush(): void {
    const text = this.#buffered
    this.#buffered = ''
    // The first chunk is only as large as its text, since most answers are short.
    if (text.length * maxUnitBytes > this.#chunk.length - this.#end)
      this.#nextChunk(Math.max(this.#bytes === 0 ? 0 : chunkBytes, text.length * maxUnitBytes))
    const bytes = this.#chunk.write(text, this.#end)
    this.#end += bytes
    this.#bytes += bytes
    if (this.#bytes > this.#maxBytes) throw answerTooLarge(this.#maxBytes)
  }

  #nextChunk(bytes: number): void {
    if (this.#end > 0) this.#chunks.push(this.#chunk.subarray(0, this.#end))
    this.#chunk = bytes === 0 ? noBytes : Buffer.allocUnsafeSlow(bytes)
    this.#end = 0
  }
}

const charactersIn = (values: Row): number => values.reduce((sum, value) => sum + (value?.length ?? 0), 0)
