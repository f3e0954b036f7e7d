// The connections of one login to one database, in two lanes. Statements whose shape has been fast share a few pipelined
// connections (the fast lane). Every other statement has its own connection while it runs (the slow lane), so that a slow
// statement delays no other. An idle pool has no open connection and no running timer.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Abandoned } from './abandoned.ts'
import { AbandonedStatement, ConnectionLost, DatabaseError } from './database-error.ts'
import { isLockTableFull, pauseMs, RetryBudget, retryWhileLockTableFull } from './full-lock-table.ts'
import type { ServerAddress } from './server-address.ts'
import { isUnavailable, unavailable } from './unavailable.ts'
import { Connection } from './wire/connection.ts'
import type { Answer, Step, Unit } from './wire/unit.ts'

export interface PoolOptions {
  address: ServerAddress
  database: string
  /** Startup settings. They override what a tenant stored for its roles, and RESET ALL returns to them. */
  settings: Record<string, string>
  maxConnections: number
  maxWaiting: number
  maxWaitMs: number
  /** Shared by all pools of a server. */
  budget: ConnectionBudget
  /** Abandoned backends of this group count against maxConnections, including those of an earlier pool. */
  abandoned: Abandoned
  group: string
  /** Called before each login. Removes settings that a tenant has stored for the role. */
  check(): Promise<void>
  /** Called after a failed login. Repairs what a tenant may have changed. */
  heal(): Promise<void>
}

/** Limits the connections of all pools together. */
export interface ConnectionBudget {
  /** If the limit is reached, it closes an idle connection of another pool. False if there is none. */
  take(): boolean
  give(): void
}

export interface RunOptions {
  /** The key under which the pool measures how fast this kind of statement is. */
  shape: string
  /** Whether it may share a connection with others once its shape has been fast. */
  mayPipeline: boolean
  /** The statement_timeout that its steps set when it runs alone. */
  timeoutMs: number
  /** Whether it writes nothing, so that it may be sent again although the server may have executed it. */
  isReadOnly?: boolean | undefined
  /** Other steps for when it runs alone, with the full statement timeout. */
  alone?: (() => readonly Step[]) | undefined
  /** Index of the step whose rows are the answer. Default: the last step. */
  answering?: number
  /** Number of steps, from that one on, whose rows are the answer. Default: 1. */
  answers?: number
  /** The signal applies only to a statement that runs alone. A pipelined statement is never cancelled. */
  request?: { readonly signal?: AbortSignal | undefined }
}

type Sendable = Unit & Pick<RunOptions, 'alone'>

interface Waiting {
  unit: Unit
  since: number
}

const fastLane = { connections: 2, depth: 16 }
const quickMs = 5
/** On an overloaded machine every statement takes longer, so a slow one must also exceed the average by this factor. */
const slowFactor = 8
const averageWeight = 0.02
const stuckMs = 20
const minQuickRuns = 3
const maxQuickRuns = 10
const slowRunCosts = 4
const maxQueued = 1000
const maxShapes = 2000

export class Pool {
  readonly #options: PoolOptions
  readonly #fast = new Set<Connection>()
  readonly #slow = new Set<Connection>()
  /** Idle slow-lane connections. One that waits for the end of a cancel request is not idle. */
  readonly #free: Connection[] = []
  readonly #waiting: Waiting[] = []
  /** Units that wait for the fast lane. */
  readonly #queued: Sendable[] = []
  readonly #running = new WeakMap<Unit, Connection>()
  /** Connections that were closed while busy. They count in the budget until they have ended. */
  readonly #closing = new Set<Connection>()
  readonly #quickRuns = new Map<string, number>()
  #opening = { fast: 0, slow: 0 }
  /** Moving average of the time of pipelined statements. */
  #averageMs = 0
  #deadline: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  get connections(): number {
    return this.#fast.size + this.#slow.size + this.#opening.fast + this.#opening.slow
  }

  get busy(): number {
    return [...this.#fast, ...this.#slow].filter(({ inFlight }) => inFlight > 0).length
  }

  get waiting(): number {
    return this.#waiting.length + this.#queued.length
  }

  run(steps: readonly Step[], options: RunOptions): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let retries: RetryBudget | undefined
      const unit: Sendable = {
        steps,
        timeoutMs: options.timeoutMs,
        alone: options.alone,
        answering: options.answering ?? steps.length - 1,
        answers: options.answers,
        isLone: true,
        resolve: answer => {
          if (options.mayPipeline) this.#learn(options.shape, answer.ms, unit.isLone)
          resolve(answer)
        },
        reject: error => {
          const signal = options.request?.signal
          if (!unit.isLone && isTimeout(error)) return this.#sendAlone(unit, signal)
          if (options.isReadOnly && error instanceof ConnectionLost && error.isBehindAbandoned)
            return this.#sendAlone(unit, signal)
          if (isLockTableFull(error) && !isConnectionFailure(error)) {
            retries ??= new RetryBudget()
            if (retries.allowsRetry()) return void setTimeout(() => this.#sendAlone(unit, signal), pauseMs())
          }
          reject(isConnectionFailure(error) ? connectRefusal(error) : error)
        },
      }
      if (options.mayPipeline && this.#sendPipelined(unit, options.shape)) return
      this.#sendAlone(unit, options.request?.signal)
    })
  }

  /** Closes connections that are idle since before the given time. True if none are left. */
  closeIdle(before: number): boolean {
    for (const connection of [...this.#fast, ...this.#free])
      if (connection.inFlight === 0 && connection.lastUsedAt < before) this.#retire(connection)
    if (this.connections > 0 || this.#waiting.length > 0 || this.#queued.length > 0) return false
    this.#quickRuns.clear()
    return true
  }

  /** Closes the connection that is idle for longest, so that another pool can open one. */
  closeOneIdle(): boolean {
    const idle = [...this.#fast, ...this.#free].filter(connection => connection.inFlight === 0)
    const oldest = idle.toSorted((a, b) => a.lastUsedAt - b.lastUsedAt)[0]
    if (oldest) this.#retire(oldest)
    return oldest !== undefined
  }

  /** Rejects waiting units and closes all connections. */
  close(): void {
    this.#isClosed = true
    for (const { unit } of this.#waiting.splice(0)) unit.reject(unavailable())
    for (const unit of this.#queued.splice(0)) unit.reject(unavailable())
    for (const connection of [...this.#fast, ...this.#slow]) this.#retire(connection)
    clearTimeout(this.#deadline)
  }

  #sendPipelined(unit: Sendable, shape: string): boolean {
    if ((this.#quickRuns.get(shape) ?? 0) < minQuickRuns) return false
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
    if (isFilling && this.#fast.size + this.#opening.fast < fastLane.connections && this.#maxSlow > 0)
      void this.#open('fast')
    if (best) {
      unit.isLone = false
      best.send(unit)
      return true
    }
    if (!isMoving || this.#queued.length >= maxQueued) return false
    unit.isLone = false
    this.#queued.push(unit)
    return true
  }

  /** How many slow-lane connections may be open. Each abandoned backend counts as one. */
  get #maxSlow(): number {
    return this.#options.maxConnections - this.#options.abandoned.count(this.#options.group)
  }

  #sendAlone(unit: Sendable, signal?: AbortSignal): void {
    if (this.#isClosed) return unit.reject(unavailable())
    unit.isLone = true
    if (unit.alone) unit.steps = unit.alone()
    if (signal?.aborted) return unit.reject(clientClosed())
    if (signal) this.#cancelOnAbort(unit, signal)
    const connection = this.#free.pop()
    if (connection) return this.#sendOn(connection, unit)
    if (this.#slow.size + this.#opening.slow === 0 && this.#maxSlow <= 0) return unit.reject(exhausted())
    const soonFree = this.#opening.slow + [...this.#slow].filter(each => each.isCleaning).length
    if (this.#waiting.length >= this.#options.maxWaiting + soonFree) return unit.reject(exhausted())
    this.#waiting.push({ unit, since: performance.now() })
    this.#watchDeadline()
    if (this.#waiting.length > soonFree && this.#slow.size + this.#opening.slow < this.#maxSlow)
      void this.#open('slow')
  }

  #cancelOnAbort(unit: Unit, signal: AbortSignal): void {
    const onAbort = () => {
      const at = this.#waiting.findIndex(waiting => waiting.unit === unit)
      if (at >= 0) {
        this.#waiting.splice(at, 1)
        return unit.reject(clientClosed())
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
      reject(signal.aborted ? clientClosed() : error)
    }
  }

  #sendOn(connection: Connection, unit: Unit): void {
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
      // An open connection can still run the waiting units.
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
    const open = () => retryWhileLockTableFull(() => Connection.open(address, database, settings, hooks))
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
    if (next) this.#sendOn(connection, next.unit)
    else this.#free.push(connection)
  }

  #feedFast(connection: Connection): void {
    while (connection.inFlight < fastLane.depth && this.#queued.length > 0)
      connection.send(this.#queued.shift()!)
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
    if (this.#maxSlow <= 0 && this.#slow.size + this.#opening.slow === 0) this.#refuseAll(exhausted())
    if (this.#waiting.length > 0 && !this.#isClosed && this.#slow.size + this.#opening.slow === 0)
      void this.#open('slow')
  }

  /** Without a fast-lane connection, the units that wait for one run in the slow lane. */
  #leaveFastLane(): void {
    if (this.#fast.size + this.#opening.fast > 0 || this.#isClosed) return
    for (const unit of this.#queued.splice(0)) this.#sendAlone(unit)
  }

  /** A slow run offsets several quick ones, so a shape that has become slow soon leaves the fast lane. */
  #learn(shape: string, ms: number, isLone: boolean): void {
    const runs = this.#quickRuns.get(shape) ?? 0
    const isSlow = ms > quickMs && ms > this.#averageMs * slowFactor
    if (!isLone) this.#averageMs += (Math.min(ms, stuckMs * 5) - this.#averageMs) * averageWeight
    if (isSlow) this.#quickRuns.set(shape, Math.max(0, runs - slowRunCosts))
    else if (runs < maxQuickRuns) {
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

/** A pipelined unit has a shorter timeout, after which it runs alone, so that it does not delay those behind it. */
const isTimeout = (error: Error) =>
  error instanceof DatabaseError && error.code === '57014' && !(error instanceof AbandonedStatement)

const exhausted = () =>
  retryLater('pool_exhausted', 'All database connections of this project are busy; try again in a second', 1)
const clientClosed = () => new Refusal('client_closed_request', 'The client closed the connection')

/** Converts a failure of a connection or login to an error for the caller. */
function connectRefusal(error: unknown): Error {
  if (error instanceof Refusal) return error
  if (error instanceof DatabaseError && error.code === '53300') return exhausted()
  return unavailable(error)
}

/** Checks the severity, because a statement may raise an error with any code. */
const isConnectionFailure = (error: unknown): boolean =>
  error instanceof DatabaseError
    ? error.severity === 'FATAL' || error.severity === 'PANIC'
    : isUnavailable(error)
