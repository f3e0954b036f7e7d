// Open connections by origin. An origin has a limited number of them, and further requests wait. Unused connections are
// limited over all origins: the one that was unused for the longest time is closed first.
import type { KeptConnection } from './kept-connection.ts'
import type { Address } from './resolve.ts'

/** A request that waits for a connection. */
export interface Waiting {
  /** Called when a connection may be free. */
  wake(): void
}

interface Origin {
  /** Connections that are open or being opened. */
  open: number
  /** The most recently used one is last. */
  idle: KeptConnection[]
  waiting: Set<Waiting>
}

export interface PoolLimits {
  maxPerOrigin: number
  maxIdle: number
}

export class ConnectionPool {
  readonly #limits: PoolLimits
  readonly #origins = new Map<string, Origin>()
  readonly #connections = new Set<KeptConnection>()
  /** In the order in which they became idle. */
  readonly #idle = new Set<KeptConnection>()

  constructor(limits: PoolLimits) {
    this.#limits = limits
  }

  /** Takes an unused connection to one of the addresses. */
  take(name: string, addresses: readonly Address[]): KeptConnection | undefined {
    const idle = this.#origins.get(name)?.idle
    if (!idle) return undefined
    for (let index = idle.length - 1; index >= 0; index--) {
      const connection = idle[index]!
      if (!addresses.some(({ address }) => address === connection.address)) continue
      if (connection.isReady) {
        idle.splice(index, 1)
        this.#idle.delete(connection)
        return connection
      }
      this.discard(connection)
    }
    return undefined
  }

  /** Makes room for a new connection. False if all connections of the origin are in use. */
  reserve(name: string): boolean {
    let origin = this.#origins.get(name)
    if (!origin) {
      origin = { open: 0, idle: [], waiting: new Set() }
      this.#origins.set(name, origin)
    }
    if (origin.open >= this.#limits.maxPerOrigin) {
      const [unused] = origin.idle
      if (!unused) return false
      this.discard(unused)
      this.#origins.set(name, origin)
    }
    origin.open++
    return true
  }

  /** For a reserved connection that could not be opened. */
  cancelReservation(name: string): void {
    this.#left(name)
  }

  /** For a reserved connection that is open now. */
  add(connection: KeptConnection): void {
    this.#connections.add(connection)
    connection.onClose(() => this.discard(connection))
  }

  /** The request on it has ended. */
  release(connection: KeptConnection): void {
    const origin = this.#origins.get(connection.origin)
    if (!origin || !this.#connections.has(connection)) return
    origin.idle.push(connection)
    this.#idle.add(connection)
    if (this.#idle.size > this.#limits.maxIdle) {
      const [longestIdle] = this.#idle
      this.discard(longestIdle!)
    }
    this.#wakeNext(origin)
  }

  discard(connection: KeptConnection): void {
    if (!this.#connections.delete(connection)) return
    void connection.destroy()
    const idle = this.#idle.delete(connection) ? this.#origins.get(connection.origin)?.idle : undefined
    idle?.splice(idle.indexOf(connection), 1)
    this.#left(connection.origin)
  }

  hasWaiting(name: string): boolean {
    return (this.#origins.get(name)?.waiting.size ?? 0) > 0
  }

  wait(name: string, request: Waiting): void {
    this.#origins.get(name)?.waiting.add(request)
  }

  /** The request has ended without a connection. So another one may use what it was woken for. */
  stopWaiting(name: string, request: Waiting): void {
    const origin = this.#origins.get(name)
    origin?.waiting.delete(request)
    if (origin) this.#wakeNext(origin)
  }

  async close(): Promise<void> {
    const connections = [...this.#connections]
    const destroyed = connections.map(connection => connection.destroy())
    for (const connection of connections) this.discard(connection)
    await Promise.all(destroyed)
  }

  #left(name: string): void {
    const origin = this.#origins.get(name)
    if (!origin) return
    origin.open--
    if (origin.open === 0 && origin.waiting.size === 0) this.#origins.delete(name)
    else this.#wakeNext(origin)
  }

  /** In a microtask, because the parser of the connection may be running. Requests that come before it wait behind. */
  #wakeNext(origin: Origin): void {
    if (origin.waiting.size === 0) return
    queueMicrotask(() => {
      if (origin.idle.length === 0 && origin.open >= this.#limits.maxPerOrigin) return
      const [next] = origin.waiting
      if (!next) return
      origin.waiting.delete(next)
      next.wake()
    })
  }
}
