// A Postgres connection that pipelines transactions of many callers. A unit is a few prepared statements and one Sync,
// which is an implicit transaction: its local settings end with it, and its error affects no other unit. Units are
// written once per turn of the event loop.
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { AbandonedStatement, ConnectionLost, type DatabaseError } from '../database-error.ts'
import type { ServerAddress } from '../server-address.ts'
import { cellsOf } from './cells.ts'
import { Encoder, message } from './encoder.ts'
import { errorFrom } from './error-response.ts'
import type { Frames, OnFrame } from './frames.ts'
import { type LoggedIn, logIn, requestCancel } from './handshake.ts'
import { idleCollector } from './idle-collector.ts'
import { type InFlight, isAnswering, newInFlight } from './in-flight.ts'
import {
  answerTooLarge,
  copyNotPossible,
  maxAnswerBytes,
  maxParameters,
  tooManyParameters,
} from './rejections.ts'
import { cleanUp, nameTaken, readOnly, staleStatement } from './stale-session.ts'
import type { Step, Unit } from './unit.ts'

const maxStatements = 512
/**
 * Units that are written while others are still being answered. The server runs them one after the other, so they would
 * only wait in its socket, and a write costs more than its bytes, on both sides.
 */
const gathered = { most: 8, whileMoreThan: 2 }
const maxForgotten = 2048
const idleCleanMs = 10
/** How long after its timeout, or after it was closed, a busy connection may take to end. */
export const graceMs = 1000
const checkMs = 250
const cleanTimeoutMs = 5000
/** After answers of this size, garbage is collected when the process is idle. */
const largeBytes = 1024 * 1024
/** Shared by all connections of the process. */
const collectWhenIdle = idleCollector()

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
  /** Random, because tenants can prepare statements in the same session. */
  #namePrefix = newPrefix()
  #forgotten = 0
  #cancelling: Promise<void> | undefined
  #isHeld = false
  #idleClean: NodeJS.Timeout | undefined
  #isFlushing = false
  /** Units in the buffer. They are the last ones of the queue. */
  #unsent = 0
  #lost: Error | undefined
  #isReported = false
  #isAbandoned = false
  #headSince = 0
  /** Runs while units are in flight. One timer per connection instead of one per unit. */
  #check: NodeJS.Timeout | undefined
  #seen = { head: undefined as InFlight | undefined, progress: 0, since: 0 }
  readonly #onIdle: (connection: Connection) => void
  readonly #onLost: (connection: Connection) => void
  lastUsedAt = performance.now()

  static async open(
    address: ServerAddress,
    database: string,
    settings: Record<string, string>,
    hooks: { onIdle(connection: Connection): void; onLost(connection: Connection): void },
  ): Promise<Connection> {
    return new Connection(address, await logIn(address, database, settings), hooks)
  }

  private constructor(
    address: ServerAddress,
    login: LoggedIn,
    hooks: { onIdle(connection: Connection): void; onLost(connection: Connection): void },
  ) {
    this.#address = address
    this.processId = login.processId
    this.#secretKey = login.secretKey
    this.#socket = login.transport.socket
    this.#frames = login.frames
    this.#onIdle = hooks.onIdle
    this.#onLost = hooks.onLost
    login.transport.receive(bytes => this.#frames.push(bytes, this.#onFrame))
    this.#socket.on('error', error => this.#lose(error))
    this.#socket.on('close', () => this.#lose(undefined))
    this.#socket.resume()
  }

  get inFlight(): number {
    return this.#queue.length - this.#head + (this.#isHeld ? 1 : 0)
  }

  /** Its unit has ended and its session is being cleaned. */
  get isCleaning(): boolean {
    return this.#isHeld || this.#queue[this.#head]?.unit.steps.length === 0
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  /** The connection was closed while the server was still running a statement. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /** Whether it has so many stale prepared statements that a new connection is better. */
  get isWorn(): boolean {
    return this.#forgotten > maxForgotten
  }

  /** How long the first unit of the queue has been running. */
  headAgeMs(now: number): number {
    return this.inFlight === 0 ? 0 : now - this.#headSince
  }

  send(unit: Unit): void {
    if (this.#lost) return unit.reject(new ConnectionLost(true, this.#lost))
    if (unit.steps.some(({ values }) => values.length > maxParameters))
      return unit.reject(tooManyParameters())
    this.#write(unit, false)
  }

  /** Cancels a lone unit. A cancel request ends whatever statement runs when it arrives, so no other is sent until it ends. */
  cancelLone(unit: Unit): void {
    if (this.#queue[this.#head]?.unit !== unit || this.#cancelling) return
    this.#cancelling = this.#requestCancel().finally(() => {
      this.#cancelling = undefined
    })
  }

  /** Also cancels the running statement, because the server does not notice that its client has disconnected. */
  close(): void {
    clearTimeout(this.#idleClean)
    clearTimeout(this.#check)
    const isBusy = this.inFlight > 0
    this.#lost ??= new Error('closed')
    if (isBusy) {
      void this.#requestCancel()
      this.#check = setTimeout(() => this.#abandon(this.#lost), graceMs).unref()
    }
    this.#socket.end(message('X'))
    this.#socket.once('close', () => this.#socket.destroy())
  }

  #requestCancel(): Promise<void> {
    const backend = { processId: this.processId, secretKey: this.#secretKey }
    return requestCancel(this.#address, backend).catch(() => {})
  }

  #write(unit: Unit, isRetry: boolean): void {
    const entry = this.#enqueue(unit, isRetry)
    for (const step of unit.steps) {
      const name = unit.isLone ? this.#parseOnce(step, entry) : this.#statement(step, entry)
      this.#out.bindAndExecute(name, step.values)
    }
    this.#out.sync()
    this.#flushSoon()
  }

  #enqueue(unit: Unit, isRetry: boolean): InFlight {
    const entry = newInFlight(unit, isRetry)
    if (this.inFlight === 0) this.#headSince = performance.now()
    this.#queue.push(entry)
    this.#unsent++
    this.#check ??= setTimeout(this.#checkHead, checkMs).unref()
    return entry
  }

  /**
   * Abandons the connection if its first unit has made no progress for longer than its timeout. The time starts at a check
   * and not at the send: if this process was busy, the answer may wait in the socket and must be read first.
   */
  readonly #checkHead = (): void => {
    this.#check = undefined
    const head = this.#queue[this.#head]
    if (!head || this.#lost) {
      this.#seen.head = undefined
      return
    }
    const now = performance.now()
    const progress = head.stepsDone + head.bytes
    if (this.#seen.head !== head || this.#seen.progress !== progress)
      this.#seen = { head, progress, since: now }
    const { timeoutMs } = head.unit
    if (timeoutMs !== undefined && now - this.#seen.since > timeoutMs + graceMs) {
      head.error = new AbandonedStatement()
      return this.#abandon(head.error)
    }
    this.#check = setTimeout(this.#checkHead, checkMs).unref()
  }

  #abandon(cause: Error | undefined): void {
    this.#isAbandoned = true
    this.#lose(cause)
  }

  #flushSoon(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    setImmediate(this.#flush)
  }

  #parseOnce(step: Step, entry: InFlight): string {
    this.#out.parse('', step.sql)
    entry.parsing.push(step.key)
    return ''
  }

  #statement(step: Step, entry: InFlight): string {
    const known = this.#statements.get(step.key)
    if (known !== undefined) return known
    if (this.#statements.size >= maxStatements) this.#forgetOldest()
    const name = `${this.#namePrefix}${this.#named++}`
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
    const sent = this.#queue.length - this.#head - this.#unsent
    if (sent > gathered.whileMoreThan && this.#unsent < gathered.most) return
    if (sent === 0) this.#headSince = performance.now()
    this.#unsent = 0
    this.#socket.write(this.#out.take())
    // The operating system usually accepts the whole write at once. Otherwise its memory must not be reused.
    this.#out.release(this.#socket.writableLength === 0)
  }

  readonly #onFrame: OnFrame = (type, bytes, start, end, isOwn) => {
    const entry = this.#queue[this.#head]
    switch (type) {
      case 0x44: // DataRow
        if (entry && isAnswering(entry)) this.#takeRow(entry, bytes, start, end, isOwn)
        break
      case 0x43: // CommandComplete
        if (!entry) break
        if (isAnswering(entry)) entry.tag = bytes.toString('latin1', start, end - 1)
        entry.stepsDone++
        break
      case 0x49: // EmptyQueryResponse
        if (entry) entry.stepsDone++
        break
      case 0x32: // BindComplete
        if (entry) entry.stepsBegun++
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
      case 0x47: // CopyInResponse: no unit sends COPY data, and the server discards the Sync that follows
        this.#fail(entry, copyNotPossible())
        this.#lose(entry?.error)
        break
      default: // CloseComplete, notices, notifications, parameter changes, COPY data
        break
    }
  }

  /** Drops an answer that is too large and cancels its statement, to limit memory. */
  #takeRow(entry: InFlight, bytes: Buffer, start: number, end: number, isOwn: boolean): void {
    entry.bytes += end - start
    if (entry.bytes <= maxAnswerBytes) return void entry.rows.push(cellsOf(bytes, start, end, isOwn))
    if (entry.error) return
    entry.rows = []
    entry.error = answerTooLarge()
    if (entry.unit.isLone) this.cancelLone(entry.unit)
  }

  #fail(entry: InFlight | undefined, error: DatabaseError): void {
    if (entry) {
      error.isWhileRunning = entry.stepsBegun > entry.stepsDone
      error.isAfterOthers = entry.stepsDone > entry.unit.answering
      entry.error ??= error
    }
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
    if (entry.bytes > largeBytes) collectWhenIdle()
    if (!isOutsideTransaction) this.#lose(new Error('a unit left a transaction open'))
    if (entry.error && this.#retry(entry, entry.error)) return
    if (entry.error) entry.unit.reject(entry.error)
    else entry.unit.resolve({ rows: entry.rows, tag: entry.tag, ms })
    if (entry.unit.isLone && !this.#lost) return this.#clean()
    if (entry.unit.steps.length > 0) this.#cleanWhenIdle()
    this.#onIdle(this)
    if (this.#unsent > 0) this.#flushSoon()
  }

  /** A pipelined unit begins with a reset of the settings of the unit before it. After the last unit, this resets them. */
  #cleanWhenIdle(): void {
    if (this.#idleClean || this.inFlight > 0) return
    this.#idleClean = setTimeout(() => {
      this.#idleClean = undefined
      if (this.inFlight === 0) this.#clean()
    }, idleCleanMs).unref()
  }

  /** Waits for a running cancel request, which would otherwise cancel the cleanup. */
  #clean(): void {
    if (this.#cancelling) {
      this.#isHeld = true
      void this.#cancelling.then(() => {
        this.#isHeld = false
        this.#clean()
      })
      return
    }
    if (this.#lost) return
    this.#enqueue(
      {
        steps: [],
        answering: -1,
        isLone: false,
        timeoutMs: cleanTimeoutMs,
        resolve: () => {},
        reject: error => this.#lose(error),
      },
      true,
    )
    this.#out.query(cleanUp)
    this.#flushSoon()
  }

  /**
   * Sends the unit again if stale state of the session may have caused its error. The implicit transaction was rolled
   * back, so a retry is safe for reads and writes.
   */
  #retry(entry: InFlight, error: DatabaseError): boolean {
    for (const key of entry.parsing.slice(entry.parsed)) this.#statements.delete(key)
    if (this.#lost || entry.isRetry) return false
    const failing = entry.unit.steps[entry.stepsDone]
    const wasPrepared = failing !== undefined && !entry.parsing.includes(failing.key)
    const isStale = error.code === nameTaken || (wasPrepared && staleStatement.has(error.code))
    if (isStale && !error.isWhileRunning) this.#forgetAll()
    else if (readOnly.has(error.code)) this.#clean()
    else return false
    this.#write(entry.unit, true)
    return true
  }

  #forgetAll(): void {
    this.#forgotten += this.#statements.size
    this.#statements = new Map()
    this.#namePrefix = newPrefix()
  }

  #lose(cause: Error | undefined): void {
    clearTimeout(this.#idleClean)
    clearTimeout(this.#check)
    this.#seen.head = undefined
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

const newPrefix = () => `plinth_${randomBytes(6).toString('hex')}_`
