// Statements of a tenant, sent as one script. The driver's own query object keeps an object for each of the statements
// and all of their rows; this one keeps nothing, and hands over rows as they arrive.
import type { Socket } from 'node:net'

/** Takes what statements answer, while it arrives. What it throws ends the connection and is the outcome. */
export interface ResultReader {
  /** The answer of a statement begins; the rows so far belonged to an earlier one. */
  begin(columns: readonly Column[]): void
  /** Values as Postgres writes them. */
  row(values: readonly (string | null)[]): void
}

export interface Column {
  name: string
  type: number
}

interface DriverConnection {
  stream: Socket
  query(text: string): void
  sendCopyFail(message: string): void
}

/** The part of the driver's query object that its client calls. */
export class ScriptQuery {
  readonly outcome: Promise<void>
  readonly #text: string
  readonly #reader: ResultReader | undefined
  readonly #resolve: () => void
  readonly #reject: (error: unknown) => void
  #hasColumns = false
  #failure: unknown
  #connection: DriverConnection | undefined

  constructor(text: string, reader?: ResultReader) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.outcome = promise
    this.#resolve = resolve
    this.#reject = reject
    this.#text = text
    this.#reader = reader
  }

  submit(connection: DriverConnection): void {
    this.#connection = connection
    connection.query(this.#text)
  }

  handleRowDescription({ fields }: { fields: readonly { name: string; dataTypeID: number }[] }): void {
    this.#hasColumns = true
    if (!this.#reader) return
    this.#hand(reader => reader.begin(fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }))))
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    this.#hand(reader => reader.row(fields))
  }

  handleCommandComplete(): void {
    if (!this.#hasColumns) this.#hand(reader => reader.begin([]))
    this.#hasColumns = false
  }

  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleCopyData(): void {}
  handleCopyInResponse(connection: DriverConnection): void {
    connection.sendCopyFail('there are no rows to read')
  }

  handleError(error: unknown): void {
    this.#reject(this.#failure ?? error)
  }

  handleReadyForQuery(): void {
    if (this.#failure === undefined) this.#resolve()
    else this.#reject(this.#failure)
  }

  #hand(give: (reader: ResultReader) => void): void {
    if (!this.#reader || this.#failure !== undefined) return
    try {
      give(this.#reader)
    } catch (error) {
      // It must not reach the socket's listener, where it would end the process.
      this.#failure = error
      this.#connection?.stream.destroy()
    }
  }
}
