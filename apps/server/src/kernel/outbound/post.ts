// One request of keep-alive.ts, from the lookup to the end of the answer. It is also the handler that undici calls, so
// that a request needs few objects. The handler has undici's older method names: with the newer ones, undici would parse
// the headers of every answer.
import { StringDecoder } from 'node:string_decoder'
import type { Dispatcher } from 'undici'
import type { ConnectionPool, Waiting } from './connection-pool.ts'
import type { Deadlines, Timed } from './deadlines.ts'
import { type ConnectionLimits, type KeptConnection, openConnection } from './kept-connection.ts'
import type { Lookups } from './lookups.ts'
import { cancelled, fromConnection, fromOutbound, PostError, timedOut } from './post-error.ts'
import type { Address } from './resolve.ts'
import type { HttpTarget } from './target.ts'

export interface PostRequest {
  url: string
  headers?: Readonly<Record<string, string>>
  body: string | Buffer
  /** From the DNS lookup to the last byte of the answer. */
  timeoutMs: number
  signal?: AbortSignal
}

export interface PostAnswer {
  status: number
  /** The beginning of the body, read as UTF-8. It may contain any character, NUL as well. */
  body: string
}

/** What all requests share. */
export interface PostShared {
  limits: ConnectionLimits & { keptBytes: number }
  lookups: Lookups
  pool: ConnectionPool
  deadlines: Deadlines
  isClosed: boolean
}

export class Post implements Dispatcher.DispatchHandler, Timed, Waiting {
  readonly deadline: number
  readonly #shared: PostShared
  readonly #target: HttpTarget
  readonly #origin: string
  readonly #request: PostRequest
  readonly #resolve: (answer: PostAnswer) => void
  readonly #reject: (error: unknown) => void
  /** Aborts opening a connection. */
  #opening: AbortController | undefined
  #connection: KeptConnection | undefined
  #isOnKept = false
  #isResent = false
  #hasEnded = false
  #status = 0
  /** The first chunk of the body, or a copy of the first chunks. */
  #kept: Buffer | undefined
  #keptLength = 0
  #isCopied = false
  #isCut = false

  constructor(
    shared: PostShared,
    target: HttpTarget,
    request: PostRequest,
    resolve: (answer: PostAnswer) => void,
    reject: (error: unknown) => void,
  ) {
    this.deadline = performance.now() + request.timeoutMs
    this.#shared = shared
    this.#target = target
    this.#origin = target.origin
    this.#request = request
    this.#resolve = resolve
    this.#reject = reject
  }

  start(): void {
    this.#shared.deadlines.add(this)
    this.#request.signal?.addEventListener('abort', this, { once: true })
    this.#lookUp(false)
  }

  /** Of the caller's signal. */
  handleEvent(): void {
    this.#fail(cancelled())
  }

  expire(): void {
    this.#fail(this.#shared.isClosed ? cancelled() : timedOut(this.#request.timeoutMs))
  }

  wake(): void {
    this.#lookUp(true)
  }

  /** Before every use of a connection, and again after waiting for one. */
  #lookUp(isWoken: boolean): void {
    const { lookups } = this.#shared
    const known = lookups.known(this.#target.host)
    if (known) this.#connect(known, isWoken)
    else
      lookups.addressesOf(this.#target.host).then(
        addresses => this.#connect(addresses, isWoken),
        error => this.#fail(fromOutbound(error)),
      )
  }

  #connect(addresses: readonly Address[], isWoken: boolean): void {
    if (this.#hasEnded) return
    const { pool } = this.#shared
    if (!isWoken && pool.hasWaiting(this.#origin)) return pool.wait(this.#origin, this)
    const kept = this.#isResent ? undefined : pool.take(this.#origin, addresses)
    if (kept) this.#send(kept)
    else if (pool.reserve(this.#origin)) void this.#open(addresses)
    else pool.wait(this.#origin, this)
  }

  async #open(addresses: readonly Address[]): Promise<void> {
    const { pool, limits } = this.#shared
    this.#opening = new AbortController()
    const opened = await openConnection(this.#target, addresses, limits, this.#opening.signal).catch(
      error => {
        pool.cancelReservation(this.#origin)
        this.#fail(fromOutbound(error))
      },
    )
    if (!opened) return
    pool.add(opened)
    if (this.#hasEnded) pool.discard(opened)
    else this.#send(opened)
  }

  #send(connection: KeptConnection): void {
    this.#connection = connection
    this.#isOnKept = connection.isUsed
    const { headers, body } = this.#request
    connection.dispatch(
      {
        method: 'POST',
        path: this.#target.path,
        headers: { 'user-agent': 'Plinth', ...headers, 'accept-encoding': 'identity' },
        body,
      },
      this,
    )
  }

  onConnect(abort: () => void): void {
    if (this.#hasEnded) abort()
    else this.#connection?.requestSent()
  }

  onHeaders(status: number): boolean {
    this.#status = status
    return true
  }

  onData(chunk: Buffer): boolean {
    const { keptBytes } = this.#shared.limits
    const free = keptBytes - this.#keptLength
    if (chunk.length > free) this.#isCut = true
    if (free === 0) return true
    if (this.#kept === undefined) {
      // Most answers have one chunk, which is not copied.
      this.#kept = chunk.length > free ? chunk.subarray(0, free) : chunk
      this.#keptLength = this.#kept.length
      return true
    }
    if (!this.#isCopied) {
      const copy = Buffer.allocUnsafe(keptBytes)
      this.#kept.copy(copy)
      this.#kept = copy
      this.#isCopied = true
    }
    this.#keptLength += chunk.copy(this.#kept, this.#keptLength, 0, free)
    return true
  }

  onComplete(): void {
    const connection = this.#connection!
    connection.answerEnded()
    if (!this.#end()) return
    this.#resolve({ status: this.#status, body: this.#text() })
    this.#shared.pool.release(connection)
  }

  onError(error: Error): void {
    const connection = this.#connection!
    this.#shared.pool.discard(connection)
    if (this.#hasEnded) return
    const failure = fromConnection(error, {
      maxBytes: this.#shared.limits.maxBytes,
      hasServerClosed: connection.hasServerClosed,
    })
    const isClosed = failure instanceof PostError && failure.reason === 'closed'
    // The server may have closed the kept connection before it received the request. A new connection is not kept, so
    // the request is sent at most twice.
    if (!isClosed || !this.#isOnKept || connection.hasAnswerBytes) return this.#fail(failure)
    this.#isResent = true
    this.#connection = undefined
    this.#lookUp(false)
  }

  #text(): string {
    if (this.#kept === undefined) return ''
    // The decoder leaves out an incomplete last character.
    if (this.#isCut) return new StringDecoder('utf8').write(this.#kept)
    return this.#kept.toString('utf8', 0, this.#keptLength)
  }

  #fail(error: unknown): void {
    if (!this.#end()) return
    this.#opening?.abort(error)
    if (this.#connection) this.#shared.pool.discard(this.#connection)
    else this.#shared.pool.stopWaiting(this.#origin, this)
    this.#reject(error)
  }

  /** False if it has ended before. */
  #end(): boolean {
    if (this.#hasEnded) return false
    this.#hasEnded = true
    this.#shared.deadlines.delete(this)
    this.#request.signal?.removeEventListener('abort', this)
    return true
  }
}
