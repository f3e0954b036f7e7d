// A Postgres connection that runs one statement at a time with the simple protocol, and streams the data of COPY in both
// directions.
import type { Socket } from 'node:net'
import { ConnectionLost, type DatabaseError } from '../database-error.ts'
import type { ServerAddress } from '../server-address.ts'
import { CopyFrames } from './copy-frames.ts'
import { sendCopyData } from './copy-input.ts'
import { type ChunkSink, CopyOutput } from './copy-output.ts'
import { message } from './encoder.ts'
import { errorFrom } from './error-response.ts'
import type { OnFrame } from './frames.ts'
import { type LoggedIn, logIn, requestCancel } from './handshake.ts'
import type { TextRows } from './text-rows.ts'

interface Statement {
  text: string
  /** Collects the rows of the answer. Without it they are dropped. */
  rows?: TextRows
  /** Receives the data of COPY TO STDOUT. */
  sink?: ChunkSink
  /** The data for COPY FROM STDIN. */
  source?: AsyncIterable<Buffer>
}

interface Running extends Statement {
  output: CopyOutput | undefined
  hasCopied: boolean
  error: unknown
  isOver: boolean
  resolve(): void
  reject(error: unknown): void
}

/** How long the server may take to end the session. */
const closeTimeoutMs = 5000

export class CopyConnection {
  readonly #address: ServerAddress
  readonly #backend: Pick<LoggedIn, 'processId' | 'secretKey'>
  readonly #socket: Socket
  readonly #frames: CopyFrames
  readonly #signal: AbortSignal | undefined
  readonly #closed: Promise<void>
  #running: Running | undefined
  /** Why no statement can run any more. */
  #lost: { reason: unknown } | undefined

  /** The signal closes the connection. A running statement and later ones then reject with its reason. */
  static async open(
    address: ServerAddress,
    database: string,
    settings: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<CopyConnection> {
    const frames = new CopyFrames()
    try {
      const login = await logIn(address, database, settings, { frames, signal })
      return new CopyConnection(address, login, frames, signal)
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    }
  }

  private constructor(
    address: ServerAddress,
    { transport, processId, secretKey }: LoggedIn,
    frames: CopyFrames,
    signal: AbortSignal | undefined,
  ) {
    this.#address = address
    this.#backend = { processId, secretKey }
    this.#socket = transport.socket
    this.#frames = frames
    this.#signal = signal
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#closed = promise
    frames.onChunk = chunk => this.#running?.output?.take(chunk)
    transport.receive(bytes => frames.push(bytes, this.#onFrame))
    this.#socket.on('error', error => this.#lose(new ConnectionLost(false, error)))
    this.#socket.on('close', () => {
      this.#lose(new ConnectionLost(false))
      resolve()
    })
    this.#socket.resume()
  }

  run(statement: Statement): Promise<void> {
    if (this.#lost) return Promise.reject(this.#lost.reason)
    if (this.#running) return Promise.reject(new Error('a statement is still running on this connection'))
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const { sink } = statement
    this.#running = {
      ...statement,
      output:
        sink &&
        new CopyOutput(
          this.#socket,
          sink,
          error => this.#lose(error, true),
          chunk => this.#frames.giveBack(chunk),
        ),
      hasCopied: false,
      error: undefined,
      isOver: false,
      resolve,
      reject,
    }
    this.#socket.write(message('Q', statement.text))
    return promise
  }

  /** Resolves when the session and the socket have ended. A statement that still runs is cancelled. */
  async close(): Promise<void> {
    if (this.#running) this.#lose(new ConnectionLost(false), true)
    this.#lost ??= { reason: new ConnectionLost(true) }
    if (!this.#socket.destroyed) this.#socket.end(message('X'))
    const timer = setTimeout(() => this.#socket.destroy(), closeTimeoutMs)
    await this.#closed
    clearTimeout(timer)
  }

  readonly #onFrame: OnFrame = (type, bytes, start, end) => {
    const running = this.#running
    if (type === 0x45) return this.#fail(running, errorFrom(bytes, start, end))
    if (!running) return
    switch (type) {
      case 0x54: // RowDescription
        running.rows?.begin(bytes, start)
        break
      case 0x44: // DataRow
        running.rows?.add(bytes, start, end)
        break
      case 0x48: // CopyOutResponse
        if (running.sink) running.hasCopied = true
        break
      case 0x47: // CopyInResponse
        this.#copyIn(running)
        break
      case 0x63: // CopyDone
        this.#frames.flush()
        break
      case 0x5a: // ReadyForQuery
        this.#finish(running)
        break
      default: // command tags, notices, parameter changes
        break
    }
  }

  /** The server also reports an error when it ends an idle session. */
  #fail(running: Running | undefined, error: DatabaseError): void {
    if (running) running.error ??= error
    if (error.severity === 'FATAL' || error.severity === 'PANIC') this.#lose(error)
  }

  #copyIn(running: Running): void {
    const fail = (error: unknown, text: string) => {
      running.error ??= error
      this.#socket.write(message('f', text))
    }
    if (!running.source || running.hasCopied)
      return fail(new Error('the statement asks for data that it is not given'), 'no data')
    running.hasCopied = true
    // After an error of the server, it ignores what was sent and expects the next statement.
    const isOver = () => running.isOver || running.error !== undefined
    sendCopyData(this.#socket, running.source, isOver).catch(error => {
      if (!isOver()) fail(error, 'the source failed')
    })
  }

  #finish(running: Running): void {
    const { output, rows, sink, source } = running
    running.error ??= rows?.error
    if (running.error !== undefined) this.#end(running)
    else if ((sink || source) && !running.hasCopied) {
      running.error = new Error(`the statement is not COPY ${sink ? 'TO STDOUT' : 'FROM STDIN'}`)
      this.#end(running)
    } else if (output) output.end(() => this.#end(running))
    else this.#end(running)
  }

  #end(running: Running): void {
    if (running.isOver) return
    running.isOver = true
    this.#running = undefined
    this.#frames.drop()
    if (running.error === undefined) running.resolve()
    else running.reject(running.error)
  }

  /** Ends the connection. `isOurs`: because of an error on this side, not of the server or the network. */
  #lose(cause: unknown, isOurs = false): void {
    if (this.#lost) return
    const { aborted = false, reason } = this.#signal ?? {}
    const lost = { reason: aborted ? reason : cause }
    this.#lost = lost
    this.#socket.destroy()
    const running = this.#running
    if (!running) return
    // The server notices a closed connection only when it sends.
    if (isOurs || aborted) void requestCancel(this.#address, this.#backend).catch(() => {})
    running.error ??= lost.reason
    this.#end(running)
  }
}
