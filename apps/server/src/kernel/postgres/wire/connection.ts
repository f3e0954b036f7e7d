// One Postgres connection with many callers' transactions in flight on it. A unit is a few prepared
// statements and one Sync: an implicit transaction, so that what it sets locally ends with it and its error
// is its own. Units are written once per turn of the event loop.
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import type { ServerAddress } from '../server-address.ts'
import { cellsOf } from './cells.ts'
import { ConnectionLost, DatabaseError, errorFrom, GivenUp } from './database-error.ts'
import { Encoder, message } from './encoder.ts'
import { type Frames, maxBodyBytes, type OnFrame } from './frames.ts'
import { quietCollector } from './garbage.ts'
import { type Greeted, greet, requestCancel } from './handshake.ts'
import { nameTaken, readOnly, staleStatement } from './stale-session.ts'
import type { Cell, Step, Unit } from './unit.ts'

interface InFlight {
  unit: Unit
  rows: Cell[][]
  bytes: number
  tag: string
  error: DatabaseError | undefined
  stepsDone: number
  /** Statements this unit parses, in order, and how many the server has confirmed. */
  parsing: string[]
  parsed: number
  isRetry: boolean
}

const maxStatements = 512
const maxForgotten = 2048
const idleCleanMs = 10
/** How long after its timeout, or after it was closed, a busy connection is waited for. */
export const graceMs = 1000
const checkMs = 250
const cleanTimeoutMs = 5000

const maxParameters = 65_535
const maxAnswerBytes = maxBodyBytes
/** From here on an answer's memory is worth collecting. */
const largeBytes = 1024 * 1024
/** One for the process, as its memory is. */
const collectWhenQuiet = quietCollector()

/** What `reset all` leaves behind of a tenant's code. */
const cleanUp = 'reset all; close all; unlisten *; discard sequences; select pg_advisory_unlock_all()'

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
  /** Tenants' own prepared statements live in the same session. */
  #namePrefix = newPrefix()
  #forgotten = 0
  #cancelling: Promise<void> | undefined
  #isHeld = false
  #idleClean: NodeJS.Timeout | undefined
  #isFlushing = false
  #lost: Error | undefined
  #isReported = false
  #isAbandoned = false
  #headSince = 0
  /** Runs while something is in flight: one for the connection, so that no unit needs a timer of its own. */
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
    this.#socket = greeted.line.socket
    this.#frames = greeted.frames
    this.#onIdle = hooks.onIdle
    this.#onLost = hooks.onLost
    greeted.line.receive(bytes => this.#frames.push(bytes, this.#onFrame))
    this.#socket.on('error', error => this.#lose(error))
    this.#socket.on('close', () => this.#lose(undefined))
    this.#socket.resume()
  }

  get inFlight(): number {
    return this.#queue.length - this.#head + (this.#isHeld ? 1 : 0)
  }

  /** Done with its unit, and about to be free. */
  get isCleaning(): boolean {
    return this.#isHeld || this.#queue[this.#head]?.unit.steps.length === 0
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  /** The client has let go of it while the server was still at work on it. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
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
    if (unit.steps.some(({ values }) => values.length > maxParameters))
      return unit.reject(new DatabaseError({ C: '54000', M: `more than ${maxParameters} parameters` }))
    this.#write(unit, false)
  }

  /** Stops a lone unit. A cancel hits whatever runs when it arrives, so nothing is sent before it has ended. */
  cancelLone(unit: Unit): void {
    if (this.#queue[this.#head]?.unit !== unit || this.#cancelling) return
    this.#cancelling = this.#requestCancel().finally(() => {
      this.#cancelling = undefined
    })
  }

  /** Ends what runs, too: a server does not notice by itself that nobody waits for its answer any more. */
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
    const entry: InFlight = {
      unit,
      rows: [],
      bytes: 0,
      tag: '',
      error: undefined,
      stepsDone: 0,
      parsing: [],
      parsed: 0,
      isRetry,
    }
    if (this.inFlight === 0) this.#headSince = performance.now()
    this.#queue.push(entry)
    this.#check ??= setTimeout(this.#checkHead, checkMs).unref()
    return entry
  }

  /**
   * Gives the connection up when its head has made no progress for longer than its timeout. The time counts from a check,
   * so that an answer which lies unread, because this process was busy, is read first.
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
      head.error = new GivenUp()
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
    this.#socket.write(this.#out.take())
    // The kernel mostly takes the whole write at once; when it has not, its memory must not be reused.
    this.#out.release(this.#socket.writableLength === 0)
  }

  readonly #onFrame: OnFrame = (type, bytes, start, end, isOwn) => {
    const entry = this.#queue[this.#head]
    switch (type) {
      case 0x44: // DataRow
        if (entry && entry.stepsDone === entry.unit.answering) this.#takeRow(entry, bytes, start, end, isOwn)
        break
      case 0x43: // CommandComplete
        if (!entry) break
        if (entry.stepsDone++ === entry.unit.answering) entry.tag = bytes.toString('latin1', start, end - 1)
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
      case 0x47: // CopyInResponse: no unit brings data for it, and the Sync behind it is lost
        this.#fail(entry, new DatabaseError({ C: '0A000', M: 'COPY FROM STDIN is not possible here' }))
        this.#lose(entry?.error)
        break
      default: // BindComplete, CloseComplete, notices, notifications, parameter changes, COPY data
        break
    }
  }

  /** Nobody's answer may fill the memory of all: what is too large is dropped, and its statement ended. */
  #takeRow(entry: InFlight, bytes: Buffer, start: number, end: number, isOwn: boolean): void {
    entry.bytes += end - start
    if (entry.bytes <= maxAnswerBytes) return void entry.rows.push(cellsOf(bytes, start, end, isOwn))
    if (entry.error) return
    entry.rows = []
    entry.error = new DatabaseError({ C: '54000', M: `the answer is larger than ${maxAnswerBytes} bytes` })
    if (entry.unit.isLone) this.cancelLone(entry.unit)
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
    if (entry.bytes > largeBytes) collectWhenQuiet()
    if (!isOutsideTransaction) this.#lose(new Error('a unit left a transaction open'))
    if (entry.error && this.#triesAgain(entry, entry.error)) return
    if (entry.error) entry.unit.reject(entry.error)
    else entry.unit.resolve({ rows: entry.rows, tag: entry.tag, ms })
    if (entry.unit.isLone && !this.#lost) return this.#clean()
    if (entry.unit.steps.length > 0) this.#cleanWhenIdle()
    this.#onIdle(this)
  }

  /** Among units that share the connection each forgets what the one before has set; the last one has nobody after it. */
  #cleanWhenIdle(): void {
    if (this.#idleClean || this.inFlight > 0) return
    this.#idleClean = setTimeout(() => {
      this.#idleClean = undefined
      if (this.inFlight === 0) this.#clean()
    }, idleCleanMs).unref()
  }

  /** Once the cancel that may still be under way has ended, since it would hit the cleaning. */
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
   * Whether the error may come from what the connection remembers and not from the request. The implicit
   * transaction was rolled back, so doing it again is safe for reads and writes alike.
   */
  #triesAgain(entry: InFlight, error: DatabaseError): boolean {
    for (const key of entry.parsing.slice(entry.parsed)) this.#statements.delete(key)
    if (this.#lost || entry.isRetry) return false
    const failing = entry.unit.steps[entry.stepsDone]
    const wasPrepared = failing !== undefined && !entry.parsing.includes(failing.key)
    if (error.code === nameTaken || (wasPrepared && staleStatement.has(error.code))) this.#forgetAll()
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
