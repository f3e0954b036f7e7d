// One Postgres connection with many callers' transactions in flight on it. A unit is a few prepared
// statements and one Sync: an implicit transaction, so that what it sets locally ends with it and its error
// is its own. Units are written once per turn of the event loop.
import type { Socket } from 'node:net'
import type { ServerAddress } from '../server-address.ts'
import { ConnectionLost, type DatabaseError, errorFrom } from './database-error.ts'
import { Encoder, message, type Value } from './encoder.ts'
import type { Frames } from './frames.ts'
import { type Greeted, greet, requestCancel } from './handshake.ts'

export interface Step {
  /** Names the prepared statement; the role is part of it, because plans depend on the role. */
  key: string
  sql: string
  values: readonly Value[]
}
export type Cell = Buffer | null
export interface Answer {
  /** Rows of the last step, as text. */
  rows: Cell[][]
  /** Command tag of the last step, like `INSERT 0 3`. */
  tag: string
  /** How long it ran in Postgres, as seen from here. */
  ms: number
}

export interface Unit {
  steps: readonly Step[]
  resolve(answer: Answer): void
  reject(error: Error): void
}

interface InFlight {
  unit: Unit
  rows: Cell[][]
  tag: string
  error: DatabaseError | undefined
  stepsDone: number
  /** Statements this unit parses, in order, and how many the server has confirmed. */
  parsing: string[]
  parsed: number
  isRetry: boolean
  isCancelled: boolean
}

const maxStatements = 512
const maxForgotten = 2048

/** Errors that may only mean that a statement prepared earlier no longer fits the schema. */
const staleStatement = new Set(['0A000', '26000', '42P05', '42P01', '42703', '42883', '42804', '22P02'])

export class Connection {
  readonly processId: number
  readonly #address: ServerAddress
  readonly #secretKey: Buffer
  readonly #socket: Socket
  readonly #frames: Frames
  readonly #out = new Encoder()
  readonly #queue: (InFlight | undefined)[] = []
  #head = 0
  #statements = new Map<string, string>()
  #named = 0
  #forgotten = 0
  #isFlushing = false
  #lost: Error | undefined
  #isReported = false
  #headSince = 0
  readonly #onIdle: (connection: Connection) => void
  readonly #onLost: (connection: Connection) => void
  lastUsedAt = performance.now()

  static async open(
    address: ServerAddress,
    database: string,
    settings: Record<string, string>,
    hooks: { onIdle(connection: Connection): void; onLost(connection: Connection): void },
  ): Promise<Connection> {
    return new Connection(address, await greet(address, database, settings), hooks)
  }

  private constructor(
    address: ServerAddress,
    greeted: Greeted,
    hooks: { onIdle(connection: Connection): void; onLost(connection: Connection): void },
  ) {
    this.#address = address
    this.processId = greeted.processId
    this.#secretKey = greeted.secretKey
    this.#socket = greeted.socket
    this.#frames = greeted.frames
    this.#onIdle = hooks.onIdle
    this.#onLost = hooks.onLost
    this.#socket.on('data', chunk => this.#frames.push(chunk, this.#onFrame))
    this.#socket.on('error', error => this.#lose(error))
    this.#socket.on('close', () => this.#lose(undefined))
    this.#socket.resume()
  }

  get inFlight(): number {
    return this.#queue.length - this.#head
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  /** Has collected so many stale statements that a fresh connection is the better deal. */
  get isWorn(): boolean {
    return this.#forgotten > maxForgotten
  }

  /** How long the unit at the head of the line has been running. */
  headAgeMs(now: number): number {
    return this.inFlight === 0 ? 0 : now - this.#headSince
  }

  send(unit: Unit): void {
    if (this.#lost) return unit.reject(new ConnectionLost(true, this.#lost))
    this.#write(unit, false)
  }

  /**
   * Stops a unit that runs alone on this connection. A cancel hits whatever runs when it arrives, so
   * nothing else may be sent until both the server's answer and the end of the cancel itself are here.
   */
  async cancelLone(unit: Unit): Promise<void> {
    const running = this.#queue[this.#head]
    if (running?.unit !== unit || this.inFlight !== 1) return
    running.isCancelled = true
    await requestCancel(this.#address, { processId: this.processId, secretKey: this.#secretKey }).catch(
      () => {},
    )
  }

  close(): void {
    this.#lost ??= new Error('closed')
    this.#socket.end(message('X'))
    this.#socket.once('close', () => this.#socket.destroy())
  }

  #write(unit: Unit, isRetry: boolean): void {
    const entry: InFlight = {
      unit,
      rows: [],
      tag: '',
      error: undefined,
      stepsDone: 0,
      parsing: [],
      parsed: 0,
      isRetry,
      isCancelled: false,
    }
    if (this.inFlight === 0) this.#headSince = performance.now()
    this.#queue.push(entry)
    for (const step of unit.steps) this.#out.bindAndExecute(this.#statement(step, entry), step.values)
    this.#out.sync()
    if (this.#isFlushing) return
    this.#isFlushing = true
    setImmediate(this.#flush)
  }

  #statement(step: Step, entry: InFlight): string {
    const known = this.#statements.get(step.key)
    if (known !== undefined) return known
    if (this.#statements.size >= maxStatements) this.#forgetOldest()
    const name = `s${this.#named++}`
    this.#statements.set(step.key, name)
    this.#out.parse(name, step.sql)
    entry.parsing.push(step.key)
    return name
  }

  #forgetOldest(): void {
    const [key, name] = this.#statements.entries().next().value!
    this.#statements.delete(key)
    this.#out.closeStatement(name)
  }

  readonly #flush = (): void => {
    this.#isFlushing = false
    if (this.#out.isEmpty || this.#lost) return
    this.#socket.write(this.#out.take())
    // The kernel mostly takes the whole write at once; when it has not, its memory must not be reused.
    if (this.#socket.writableLength > 0) this.#out.abandon()
  }

  readonly #onFrame = (type: number, bytes: Buffer, start: number, end: number): void => {
    const entry = this.#queue[this.#head]
    switch (type) {
      case 0x44: // DataRow
        if (entry && entry.stepsDone === entry.unit.steps.length - 1) entry.rows.push(cells(bytes, start))
        break
      case 0x43: // CommandComplete
        if (!entry) break
        if (++entry.stepsDone === entry.unit.steps.length)
          entry.tag = bytes.toString('latin1', start, end - 1)
        break
      case 0x49: // EmptyQueryResponse
        if (entry) entry.stepsDone++
        break
      case 0x31: // ParseComplete
        if (entry) entry.parsed++
        break
      case 0x45: // ErrorResponse
        this.#fail(entry, errorFrom(bytes, start, end))
        break
      case 0x5a: // ReadyForQuery
        if (entry) this.#finish(entry, bytes[start] === 0x49)
        break
      case 0x47: // CopyInResponse: no unit brings data for it
        this.#socket.write(message('f', 'COPY is not possible here'))
        break
      default: // BindComplete, CloseComplete, notices, notifications, parameter changes, COPY data
        break
    }
  }

  #fail(entry: InFlight | undefined, error: DatabaseError): void {
    if (entry) entry.error ??= error
    if (error.severity === 'FATAL' || error.severity === 'PANIC') this.#lost ??= error
  }

  #finish(entry: InFlight, isOutsideTransaction: boolean): void {
    const now = performance.now()
    const ms = now - this.#headSince
    this.#headSince = now
    this.lastUsedAt = now
    this.#queue[this.#head++] = undefined
    if (this.#head === this.#queue.length || this.#head > 1024) {
      this.#queue.splice(0, this.#head)
      this.#head = 0
    }
    if (!isOutsideTransaction) this.#lose(new Error('a unit left a transaction open'))
    if (entry.error) this.#refuse(entry, entry.error, isOutsideTransaction)
    else entry.unit.resolve({ rows: entry.rows, tag: entry.tag, ms })
    this.#onIdle(this)
  }

  #refuse(entry: InFlight, error: DatabaseError, mayRetry: boolean): void {
    for (const key of entry.parsing.slice(entry.parsed)) this.#statements.delete(key)
    // The implicit transaction was rolled back, so doing it again is safe for reads and writes alike.
    const failing = entry.unit.steps[entry.stepsDone]
    const wasPrepared = failing !== undefined && !entry.parsing.includes(failing.key)
    const isStray = error.code === '57014' && !entry.isCancelled && error.message.includes('user request')
    if (
      mayRetry &&
      !this.#lost &&
      !entry.isRetry &&
      (isStray || (wasPrepared && staleStatement.has(error.code)))
    ) {
      if (!isStray) this.#forgetAll()
      return this.#write(entry.unit, true)
    }
    entry.unit.reject(error)
  }

  #forgetAll(): void {
    this.#forgotten += this.#statements.size
    this.#statements = new Map()
  }

  #lose(cause: Error | undefined): void {
    const reason = this.#lost ?? cause ?? new Error('the server closed the connection')
    this.#lost = reason
    this.#socket.destroy()
    for (const entry of this.#queue.splice(0).slice(this.#head))
      entry?.unit.reject(entry.error ?? new ConnectionLost(false, reason))
    this.#head = 0
    if (this.#isReported) return
    this.#isReported = true
    this.#onLost(this)
  }
}

/** Cells point into the received memory: nothing is copied or decoded until somebody asks. */
function cells(bytes: Buffer, start: number): Cell[] {
  const count = bytes.readInt16BE(start)
  const row: Cell[] = new Array(count)
  let at = start + 2
  for (let index = 0; index < count; index++) {
    const length = bytes.readInt32BE(at)
    at += 4
    row[index] = length < 0 ? null : bytes.subarray(at, at + length)
    if (length > 0) at += length
  }
  return row
}
