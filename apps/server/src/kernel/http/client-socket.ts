// One socket of a client. `ws` receives; what is sent goes past it, since it is made once for all who get it (outbox.ts).
// A reader that is too slow is let go: what waits for it is memory.
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { paceReading, piecesOfLength } from '#src/kernel/paced-reading.ts'
import { beforeFlush, flushSoon, type Outbox } from './outbox.ts'
import { pongFrame } from './websocket-frame.ts'

export interface ClientSocket {
  /** A whole frame (websocket-frame.ts). Of no consequence once the socket is closing. */
  send(frame: Buffer): void
  close(code: number, reason: string): void
  /** Nothing is heard until `resume`, but for what has been read already; the other side has to wait. */
  pause(): void
  resume(): void
  readonly isOpen: boolean
  /** Sent, but not yet taken by the system. */
  readonly unsentBytes: number
}

export interface SocketHandlers {
  /** The bytes are the handler's to keep. */
  message(data: Buffer, isBinary: boolean): void
  /** Once, whoever closed it. */
  closed(): void
}

/** A reader that leaves more than this to wait is let go. */
const maxUnsentBytes = 4 * 1024 * 1024

/** At most 682 frames in each. */
const pieces = piecesOfLength(4096)

/** By the connection, whose events come to functions that all sockets share. */
const clientOf = Symbol('client')
type Connection = WebSocket & { [clientOf]?: Client }

export class Client implements ClientSocket, Outbox {
  frames: Buffer[] = []
  handlers: SocketHandlers | undefined
  readonly #connection: Connection
  readonly #socket: Socket
  readonly #clients: Set<Client>
  #waitingBytes = 0
  #heardAt = performance.now()
  /** Payload of the last ping that is not answered yet. One pong answers all pings before it. */
  #pinged: Buffer | undefined
  isOpen = true

  constructor(connection: Connection, socket: Socket, clients: Set<Client>) {
    this.#connection = connection
    this.#socket = socket
    this.#clients = clients
    clients.add(this)
    connection[clientOf] = this
    connection.on('message', heard)
    connection.on('ping', pinged)
    connection.on('close', gone)
    // What it has done wrong is told to it in the closing frame.
    connection.on('error', ignore)
    paceReading(socket, pieces)
  }

  get unsentBytes(): number {
    return this.#waitingBytes + this.#socket.writableLength
  }

  send(frame: Buffer): void {
    if (!this.isOpen) return
    if (this.unsentBytes > maxUnsentBytes) return this.#tooSlow()
    this.#waitingBytes += frame.length
    if (this.frames.push(frame) === 1) flushSoon(this)
  }

  take(bytes: Buffer): void {
    this.frames = []
    this.#waitingBytes = 0
    if (this.#socket.writable) this.#socket.write(bytes)
  }

  close(code: number, reason: string): void {
    if (!this.isOpen) return
    // What was sent before goes out before.
    if (this.frames.length > 0) this.take(Buffer.concat(this.frames))
    this.isOpen = false
    // Its answer is to be heard.
    this.#connection.resume()
    this.#connection.close(code, reason.slice(0, 120))
  }

  pause(): void {
    if (this.isOpen) this.#connection.pause()
  }

  resume(): void {
    if (!this.#connection.isPaused) return
    this.#heardAt = performance.now()
    this.#connection.resume()
  }

  cut(): void {
    this.isOpen = false
    this.frames = []
    this.#connection.terminate()
  }

  /** What waits is dropped, the reason comes behind what has been begun; a client that reads neither is cut. */
  #tooSlow(): void {
    this.frames = []
    this.#waitingBytes = 0
    this.close(1013, 'too slow: more than 4 MiB were waiting to be read')
  }

  heard(data: Buffer, isBinary: boolean): void {
    this.#heardAt = performance.now()
    if (this.isOpen) this.handlers?.message(data, isBinary)
  }

  pinged(data: Buffer): void {
    this.#heardAt = performance.now()
    if (this.#pinged === undefined) beforeFlush(() => this.#answerPing())
    this.#pinged = data
  }

  #answerPing(): void {
    const data = this.#pinged!
    this.#pinged = undefined
    this.send(pongFrame(data))
  }

  closeIfIdle(now: number, idleMs: number): void {
    if (now - this.#heardAt > idleMs) this.close(1001, `idle: nothing was heard for ${idleMs / 1000} seconds`)
  }

  gone(): void {
    this.isOpen = false
    this.frames = []
    this.#clients.delete(this)
    this.handlers?.closed()
    this.handlers = undefined
  }
}

function heard(this: Connection, data: unknown, isBinary: boolean): void {
  this[clientOf]!.heard(data as Buffer, isBinary)
}
function pinged(this: Connection, data: Buffer): void {
  this[clientOf]!.pinged(data)
}
function gone(this: Connection): void {
  this[clientOf]!.gone()
}
function ignore(): void {}
