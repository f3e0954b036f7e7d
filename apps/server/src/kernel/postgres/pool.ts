// The connections of one login to one database, in two lanes. Statement shapes that have proven quick share
// a few pipelined connections (the fast lane); everything else has a connection to itself while it runs (the
// slow lane), so that a slow statement holds up nobody. Nothing is open, and no timer runs, while idle.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Abandoned } from './abandoned.ts'
import { isLockTableFull, Patience, pauseMs, whileLockTableIsFull } from './full-lock-table.ts'
import type { ServerAddress } from './server-address.ts'
import { isUnavailable, unavailable } from './unavailable.ts'
import { Connection } from './wire/connection.ts'
import { ConnectionLost, DatabaseError, GivenUp } from './wire/database-error.ts'
import type { Answer, Step, Unit } from './wire/unit.ts'

export interface PoolOptions {
  address: ServerAddress
  database: string
  /** Startup settings: they beat what a tenant stored for its roles, and RESET ALL returns to them. */
  settings: Record<string, string>
  maxConnections: number
  maxWaiting: number
  maxWaitMs: number
  /** Shared by all pools of a server. */
  budget: ConnectionBudget
  /** Backends that were given up take places until they have ended: of this group, also those of an earlier pool. */
  abandoned: Abandoned
  group: string
  /** Before a login: undoes settings a tenant has stored for it. */
  check(): Promise<void>
  /** After a failed login: puts right what a tenant has broken. */
  heal(): Promise<void>
}

/** How many connections all pools together may hold. */
export interface ConnectionBudget {
  /** Makes room by closing an idle connection of another pool if it must. */
  take(): boolean
  give(): void
}

export interface RunOptions {
  /** Names the statement's shape for the measurement of what is quick. */
  shape: string
  /** May share a connection with others once it has proven quick. */
  mayPipeline: boolean
  /** The statement_timeout its steps set when it runs alone. */
  timeoutMs: number
  /** Can write nothing, so that it may be sent again although the server may have carried it out. */
  isReadOnly?: boolean | undefined
  /** The steps when it runs alone after all, if these differ: alone, it may take all the time it has. */
  alone?: (() => readonly Step[]) | undefined
  /** Which step's rows are the answer; the last one when absent. */
  answering?: number
  /** Whose signal is asked for only when it can be heard: a statement among others is never cancelled. */
  request?: { readonly signal?: AbortSignal | undefined }
}

type Sendable = Unit & Pick<RunOptions, 'alone'>

interface Waiting {
  unit: Unit
  since: number
}

const fastLane = { connections: 2, depth: 16 }
const quickMs = 5
/** On a machine that is short of time everything takes longer; slow is what takes much longer than the rest. */
const slowFactor = 8
const typicalWeight = 0.02
const stuckMs = 20
const runsToProve = 3
const maxProof = 10
const slowRunCosts = 4
const maxInLine = 1000
const maxShapes = 2000

export class Pool {
  readonly #options: PoolOptions
  readonly #fast = new Set<Connection>()
  readonly #slow = new Set<Connection>()
  /** Slow-lane connections that run nothing and wait for nothing, not even the end of a cancel. */
  readonly #free: Connection[] = []
  readonly #waiting: Waiting[] = []
  /** Quick ones for which the fast lane has no place at the moment. */
  readonly #inLine: Sendable[] = []
  readonly #running = new WeakMap<Unit, Connection>()
  /** Told to end while they were busy: they keep their place in the budget until they have ended. */
  readonly #closing = new Set<Connection>()
  readonly #quickRuns = new Map<string, number>()
  #opening = { fast: 0, slow: 0 }
  /** How long a pipelined statement takes at the moment. */
  #typicalMs = 0
  #deadline: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  get connections(): number {
    return this.#fast.size + this.#slow.size + this.#opening.fast + this.#opening.slow
  }

  run(steps: readonly Step[], options: RunOptions): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let patience: Patience | undefined
      const unit: Sendable = {
        steps,
        timeoutMs: options.timeoutMs,
        alone: options.alone,
        answering: options.answering ?? steps.length - 1,
        isLone: true,
        resolve: answer => {
          if (options.mayPipeline) this.#learn(options.shape, answer.ms, unit.isLone)
          resolve(answer)
        },
        reject: error => {
          const signal = options.request?.signal
          if (!unit.isLone && hasTakenTooLong(error)) return this.#sendAlone(unit, signal)
          if (options.isReadOnly && error instanceof ConnectionLost && error.isBehindGivenUp)
            return this.#sendAlone(unit, signal)
          if (isLockTableFull(error) && !isConnectionFailure(error)) {
            patience ??= new Patience()
            if (patience.hasLeft()) return void setTimeout(() => this.#sendAlone(unit, signal), pauseMs())
          }
          reject(isConnectionFailure(error) ? connectRefusal(error) : error)
        },
      }
      if (options.mayPipeline && this.#sendPipelined(unit, options.shape)) return
      this.#sendAlone(unit, options.request?.signal)
    })
  }

  /** Closes what has been idle since before the given moment; true when nothing is left. */
  closeIdle(before: number): boolean {
    for (const connection of [...this.#fast, ...this.#free])
      if (connection.inFlight === 0 && connection.lastUsedAt < before) this.#retire(connection)
    if (this.connections > 0 || this.#waiting.length > 0 || this.#inLine.length > 0) return false
    this.#quickRuns.clear()
    return true
  }

  /** Closes the one connection idle for longest, to make room for another pool. */
  closeOneIdle(): boolean {
    const idle = [...this.#fast, ...this.#free].filter(connection => connection.inFlight === 0)
    const oldest = idle.toSorted((a, b) => a.lastUsedAt - b.lastUsedAt)[0]
    if (oldest) this.#retire(oldest)
    return oldest !== undefined
  }

  /** Refuses what waits and drops every connection, running or not. */
  close(): void {
    this.#isClosed = true
    for (const { unit } of this.#waiting.splice(0)) unit.reject(unavailable())
    for (const unit of this.#inLine.splice(0)) unit.reject(unavailable())
    for (const connection of [...this.#fast, ...this.#slow]) this.#retire(connection)
    clearTimeout(this.#deadline)
  }

  #sendPipelined(unit: Sendable, shape: string): boolean {
    if ((this.#quickRuns.get(shape) ?? 0) < runsToProve) return false
    const now = performance.now()
    let best: Connection | undefined
    let isMoving = this.#opening.fast > 0
    for (const connection of this.#fast) {
      if (connection.headAgeMs(now) > stuckMs) continue
      isMoving = true
      if (connection.inFlight < fastLane.depth && (!best || connection.inFlight < best.inFlight))
        best = connection
    }
    const isFilling = !best || best.inFlight >= fastLane.depth / 2
    if (isFilling && this.#fast.size + this.#opening.fast < fastLane.connections && this.#places > 0)
      void this.#open('fast')
    if (best) {
      unit.isLone = false
      best.send(unit)
      return true
    }
    if (!isMoving || this.#inLine.length >= maxInLine) return false
    unit.isLone = false
    this.#inLine.push(unit)
    return true
  }

  /** How many connections of its own a statement may have; each backend that was given up takes one. */
  get #places(): number {
    return this.#options.maxConnections - this.#options.abandoned.count(this.#options.group)
  }

  #sendAlone(unit: Sendable, signal?: AbortSignal): void {
    if (this.#isClosed) return unit.reject(unavailable())
    unit.isLone = true
    if (unit.alone) unit.steps = unit.alone()
    if (signal?.aborted) return unit.reject(hungUp())
    if (signal) this.#dropWhenAborted(unit, signal)
    const connection = this.#free.pop()
    if (connection) return this.#give(connection, unit)
    if (this.#slow.size + this.#opening.slow === 0 && this.#places <= 0) return unit.reject(exhausted())
    const soonFree = this.#opening.slow + [...this.#slow].filter(each => each.isCleaning).length
    if (this.#waiting.length >= this.#options.maxWaiting + soonFree) return unit.reject(exhausted())
    this.#waiting.push({ unit, since: performance.now() })
    this.#watchDeadline()
    if (this.#waiting.length > soonFree && this.#slow.size + this.#opening.slow < this.#places)
      void this.#open('slow')
  }

  #dropWhenAborted(unit: Unit, signal: AbortSignal): void {
    const onAbort = () => {
      const at = this.#waiting.findIndex(waiting => waiting.unit === unit)
      if (at >= 0) {
        this.#waiting.splice(at, 1)
        return unit.reject(hungUp())
      }
      this.#running.get(unit)?.cancelLone(unit)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    const { resolve, reject } = unit
    unit.resolve = answer => {
      signal.removeEventListener('abort', onAbort)
      resolve(answer)
    }
    unit.reject = error => {
      signal.removeEventListener('abort', onAbort)
      reject(signal.aborted ? hungUp() : error)
    }
  }

  #give(connection: Connection, unit: Unit): void {
    this.#running.set(unit, connection)
    connection.send(unit)
  }

  async #open(lane: 'fast' | 'slow'): Promise<void> {
    if (!this.#options.budget.take()) {
      if (lane === 'slow' && this.#slow.size + this.#opening.slow === 0) this.#refuseAll(exhausted())
      return
    }
    this.#opening[lane]++
    try {
      const connection = await this.#connect()
      this.#opening[lane]--
      if (this.#isClosed) {
        this.#options.budget.give()
        return connection.close()
      }
      if (lane === 'fast') {
        this.#fast.add(connection)
        this.#feedFast(connection)
      } else {
        this.#slow.add(connection)
        this.#feed(connection)
      }
    } catch (error) {
      this.#opening[lane]--
      this.#options.budget.give()
      // Whoever waits may still be served by a connection that is already there.
      if (this.#slow.size + this.#opening.slow === 0) this.#refuseAll(connectRefusal(error))
      this.#leaveFastLane()
    }
  }

  async #connect(): Promise<Connection> {
    const { address, database, settings, check, heal } = this.#options
    const hooks = {
      onIdle: (connection: Connection) => this.#feed(connection),
      onLost: (connection: Connection) => this.#lost(connection),
    }
    await check()
    const open = () => whileLockTableIsFull(() => Connection.open(address, database, settings, hooks))
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof DatabaseError) || !isLoginFailure(error.code)) throw error
      await heal()
      return open()
    }
  }

  #feed(connection: Connection): void {
    if (connection.isLost) return this.#remove(connection)
    if (connection.isWorn && connection.inFlight === 0) return this.#retire(connection)
    if (this.#fast.has(connection)) return this.#feedFast(connection)
    if (connection.inFlight > 0) return
    const next = this.#waiting.shift()
    if (next) this.#give(connection, next.unit)
    else this.#free.push(connection)
  }

  #feedFast(connection: Connection): void {
    while (connection.inFlight < fastLane.depth && this.#inLine.length > 0)
      connection.send(this.#inLine.shift()!)
  }

  #retire(connection: Connection): void {
    if (connection.inFlight > 0 && !connection.isCleaning) this.#closing.add(connection)
    this.#remove(connection)
    connection.close()
  }

  #lost(connection: Connection): void {
    const { abandoned, group, database, budget } = this.#options
    const isHere = this.#closing.has(connection) || this.#fast.has(connection) || this.#slow.has(connection)
    if (isHere && connection.isAbandoned) {
      this.#closing.add(connection)
      abandoned.add(group, { processId: connection.processId, database }, budget.give)
      this.#remove(connection)
      this.#closing.delete(connection)
    } else {
      this.#remove(connection)
      if (this.#closing.delete(connection)) budget.give()
    }
  }

  #remove(connection: Connection): void {
    const wasHere = this.#fast.delete(connection) || this.#slow.delete(connection)
    if (!wasHere) return
    const at = this.#free.indexOf(connection)
    if (at >= 0) this.#free.splice(at, 1)
    if (!this.#closing.has(connection)) this.#options.budget.give()
    this.#leaveFastLane()
    if (this.#places <= 0 && this.#slow.size + this.#opening.slow === 0) this.#refuseAll(exhausted())
    if (this.#waiting.length > 0 && !this.#isClosed && this.#slow.size + this.#opening.slow === 0)
      void this.#open('slow')
  }

  /** When its last connection is gone, those in line for it go the other way. */
  #leaveFastLane(): void {
    if (this.#fast.size + this.#opening.fast > 0 || this.#isClosed) return
    for (const unit of this.#inLine.splice(0)) this.#sendAlone(unit)
  }

  /** A slow run takes back several quick ones, so a shape that has turned slow soon leaves the fast lane. */
  #learn(shape: string, ms: number, isLone: boolean): void {
    const runs = this.#quickRuns.get(shape) ?? 0
    const isSlow = ms > quickMs && ms > this.#typicalMs * slowFactor
    if (!isLone) this.#typicalMs += (Math.min(ms, stuckMs * 5) - this.#typicalMs) * typicalWeight
    if (isSlow) this.#quickRuns.set(shape, Math.max(0, runs - slowRunCosts))
    else if (runs < maxProof) {
      if (this.#quickRuns.size >= maxShapes) this.#quickRuns.clear()
      this.#quickRuns.set(shape, runs + 1)
    }
  }

  #watchDeadline(): void {
    if (this.#deadline) return
    this.#deadline = setTimeout(() => {
      this.#deadline = undefined
      const now = performance.now()
      while (this.#waiting[0] && now - this.#waiting[0].since >= this.#options.maxWaitMs)
        this.#waiting.shift()!.unit.reject(exhausted())
      if (this.#waiting.length > 0) this.#watchDeadline()
    }, this.#options.maxWaitMs / 4).unref()
  }

  #refuseAll(error: Error): void {
    for (const { unit } of this.#waiting.splice(0)) unit.reject(error)
  }
}

const isLoginFailure = (code: string) =>
  code === '28P01' || code === '28000' || code === '58P01' || code === '22023'

/** Whatever it waits for, those behind it must not wait, too. */
const hasTakenTooLong = (error: Error) =>
  error instanceof DatabaseError && error.code === '57014' && !(error instanceof GivenUp)

const exhausted = () =>
  retryLater('pool_exhausted', 'All database connections of this project are busy; try again in a second', 1)
const hungUp = () => new Refusal('client_closed_request', 'The client closed the connection')

/** What a failure to connect, or of the connection itself, means to the caller. */
function connectRefusal(error: unknown): Error {
  if (error instanceof Refusal) return error
  if (error instanceof DatabaseError && error.code === '53300') return exhausted()
  return unavailable(error)
}

/** What a statement raises is its own error, also under a code that would mean the end of the connection. */
const isConnectionFailure = (error: unknown): boolean =>
  error instanceof DatabaseError
    ? error.severity === 'FATAL' || error.severity === 'PANIC'
    : isUnavailable(error)
