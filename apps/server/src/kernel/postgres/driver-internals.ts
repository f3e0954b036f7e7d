// All uses of undocumented parts of `pg`: private fields, events, query hooks and error messages. A new version may change
// any of them. driver-internals.test.ts, here and in test/, fails if one does.
import type { Socket } from 'node:net'
import {
  type Client,
  DatabaseError as DriverError,
  type Pool,
  type PoolClient,
  type QueryConfig,
  type Submittable,
} from 'pg'
import { DatabaseError } from './database-error.ts'

export type DriverClient = Client | PoolClient

interface DriverConnection {
  stream: Socket
  query(text: string): void
  sendCopyFail(message: string): void
  on(event: 'commandComplete', listener: (message: { text: string }) => void): void
  on(event: 'message', listener: () => void): void
}
interface PrivateFields {
  connection: DriverConnection
  processID: number
  secretKey: number
}

const fieldsOf = (client: DriverClient) => client as unknown as PrivateFields

/** With TLS this is the TLS socket, once the client has connected. */
export const socketOf = (client: DriverClient): Socket => fieldsOf(client).connection.stream

/** The process id and secret key for a cancel request. */
export function backendOf(client: DriverClient): { processId: number; secretKey: Buffer } {
  const { processID, secretKey } = fieldsOf(client)
  const key = Buffer.alloc(4)
  key.writeInt32BE(secretKey | 0)
  return { processId: processID, secretKey: key }
}

/** Calls back after each complete message of the server. */
export const onMessage = (client: DriverClient, listener: () => void): void =>
  fieldsOf(client).connection.on('message', listener)

/** Calls back with the full command tag of each statement, like `INSERT 0 3`. The driver's results have only `INSERT`. */
export const onCommandTag = (client: DriverClient, listener: (tag: string) => void): void =>
  fieldsOf(client).connection.on('commandComplete', ({ text }) => listener(text))

/** Uses the extended protocol, which rejects a text with several statements. */
export const singleStatement = (text: string, values: readonly unknown[]): QueryConfig =>
  ({ text, values, queryMode: 'extended' }) as unknown as QueryConfig

export function resizePool(pool: Pool, max: number): void {
  pool.options.max = max
}

const lostTexts =
  /^(Connection terminated|Client (was closed|has encountered)|timeout (exceeded when trying to connect|expired))/

/** Whether an error of the driver itself means that the connection is lost, or could not be opened. */
export const isDriverConnectionLoss = ({ message }: Error): boolean => lostTexts.test(message)

/** Whether the pool was closed before the statement could be sent. */
export const isPoolClosed = ({ message }: Error): boolean =>
  message.startsWith('Cannot use a pool after calling end')

/** Converts an error of the server to a DatabaseError. Any other error is returned unchanged. */
export function fromDriver(error: unknown): unknown {
  if (!(error instanceof DriverError)) return error
  const { code = 'XX000', position, ...fields } = error
  const { message, stack = '' } = error
  const converted = new DatabaseError({
    ...fields,
    code,
    message,
    position: position === undefined ? undefined : Number(position),
  })
  // Keep the frames of the driver's stack, which contain the caller of the query, without its repeated message.
  const frames = stack.indexOf('\n    at ', stack.indexOf(message) + message.length)
  converted.stack = `${converted.name}: ${converted.message}${frames < 0 ? '' : stack.slice(frames)}`
  return converted
}

/** Receives rows as they arrive. If it throws, the connection is closed and the script fails with that error. */
export interface ResultReader {
  /** Called before the rows of each statement. */
  begin(columns: readonly Column[]): void
  /** Values in the text format of Postgres. */
  row(values: readonly (string | null)[]): void
}

export interface Column {
  name: string
  type: number
}

/**
 * Runs statements of a tenant as one script. The driver's own query object would keep all rows of all statements in
 * memory; this one passes them to the reader as they arrive.
 */
export function runScript(client: DriverClient, text: string, reader?: ResultReader): Promise<void> {
  const query = new ScriptQuery(text, reader)
  client.query(query as unknown as Submittable)
  return query.outcome
}

/** The methods that the driver's client calls on its query objects. */
class ScriptQuery {
  readonly outcome: Promise<void>
  readonly #text: string
  readonly #reader: ResultReader | undefined
  readonly #resolve: () => void
  readonly #reject: (error: unknown) => void
  #hasColumns = false
  #failure: unknown
  #connection: DriverConnection | undefined

  constructor(text: string, reader: ResultReader | undefined) {
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
    this.#read(reader => reader.begin(fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }))))
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    this.#read(reader => reader.row(fields))
  }

  handleCommandComplete(): void {
    if (!this.#hasColumns) this.#read(reader => reader.begin([]))
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

  #read(give: (reader: ResultReader) => void): void {
    if (!this.#reader || this.#failure !== undefined) return
    try {
      give(this.#reader)
    } catch (error) {
      // Rethrown here, in the socket's listener, it would end the process.
      this.#failure = error
      this.#connection?.stream.destroy()
    }
  }
}
