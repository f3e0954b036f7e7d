// The WebSocket of a client. `ws` handles received frames only. Sent frames bypass it, because a frame is encoded once for
// all its receivers (outbox.ts). A client that reads too slowly is disconnected, because unsent frames take memory.
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { paceReading, piecesOfLength } from '#src/kernel/paced-reading.ts'
import { beforeFlush, flushSoon, type Outbox } from './outbox.ts'
import { pongFrame } from './websocket-frame.ts'

export interface ClientSocket {
  /** Sends a whole frame (websocket-frame.ts). Does nothing once the socket is closing. */
  send(frame: Buffer): void
  close(code: number, reason: string): void
  /** Stops reading until `resume`. Frames that were read already are still delivered. */
  pause(): void
  resume(): void
  readonly isOpen: boolean
  /** Bytes that were sent but not yet accepted by the operating system. */
  readonly unsentBytes: number
}

export interface SocketHandlers {
  /** The handler may keep the bytes. */
  message(data: Buffer, isBinary: boolean): void
  /** Called once, whichever side closed the socket. */
  closed(): void
}

/** A client with more unsent bytes than this is disconnected. */
const maxUnsentBytes = 4 * 1024 * 1024

/** A piece has at most 682 frames. */
const pieces = piecesOfLength(4096)

/** Finds the client of a connection, so that all connections share the same event listeners. */
const clientOf = Symbol('client')
type Connection = WebSocket & { [clientOf]?: Client }

export class Client implements ClientSocket, Outbox {
  frames: Buffer[] = []
  handlers: SocketHandlers | undefined
  readonly #connection: Connection
  readonly #socket: Socket
  readonly #clients: Set<Client>
  #waitingBytes = 0
  #lastReceivedAt = performance.now()
  /** Payload of the last ping that is not answered yet. One pong answers all pings before it. */
  #unansweredPing: Buffer | undefined
  isOpen = true

  constructor(connection: Connection, socket: Socket, clients: Set<Client>) {
    this.#connection = connection
    this.#socket = socket
    this.#clients = clients
    clients.add(this)
    connection[clientOf] = this
    connection.on('message', onMessage)
    connection.on('ping', onPing)
    connection.on('close', onClose)
    // The close frame tells the client what was wrong.
    connection.on('error', ignore)
    paceReading(socket, pieces)
  }

  get unsentBytes(): number {
    return this.#waitingBytes + this.#socket.writableLength
  }

  send(frame: Buffer): void {
    if (!this.isOpen) return
    if (this.unsentBytes > maxUnsentBytes) return this.#closeSlow()
    this.#waitingBytes += frame.length
    if (this.frames.push(frame) === 1) flushSoon(this)
  }

  write(bytes: Buffer): void {
    this.frames = []
    this.#waitingBytes = 0
    if (this.#socket.writable) this.#socket.write(bytes)
  }

  close(code: number, reason: string): void {
    if (!this.isOpen) return
    // Frames that were sent before must precede the close frame.
    if (this.frames.length > 0) this.write(Buffer.concat(this.frames))
    this.isOpen = false
    // A paused connection would not receive the client's close frame.
    this.#connection.resume()
    this.#connection.close(code, reason.slice(0, 120))
  }

  pause(): void {
    if (this.isOpen) this.#connection.pause()
  }

  resume(): void {
    if (!this.#connection.isPaused) return
    this.#lastReceivedAt = performance.now()
    this.#connection.resume()
  }

  terminate(): void {
    this.isOpen = false
    this.frames = []
    this.#connection.terminate()
  }

  /** Drops the waiting frames and sends a close frame. `ws` terminates a client that does not answer it. */
  #closeSlow(): void {
    this.frames = []
    this.#waitingBytes = 0
    this.close(1013, 'too slow: more than 4 MiB were waiting to be read')
  }

  received(data: Buffer, isBinary: boolean): void {
    this.#lastReceivedAt = performance.now()
    if (this.isOpen) this.handlers?.message(data, isBinary)
  }

  pinged(data: Buffer): void {
    this.#lastReceivedAt = performance.now()
    if (this.#unansweredPing === undefined) beforeFlush(() => this.#answerPing())
    this.#unansweredPing = data
  }

  #answerPing(): void {
    const data = this.#unansweredPing!
    this.#unansweredPing = undefined
    this.send(pongFrame(data))
  }

  closeIfIdle(now: number, idleMs: number): void {
    if (now - this.#lastReceivedAt > idleMs)
      this.close(1001, `idle: nothing was heard for ${idleMs / 1000} seconds`)
  }

  closed(): void {
    this.isOpen = false
    this.frames = []
    this.#clients.delete(this)
    this.handlers?.closed()
    this.handlers = undefined
  }
}

function onMessage(this: Connection, data: unknown, isBinary: boolean): void {
  this[clientOf]!.received(data as Buffer, isBinary)
}
function onPing(this: Connection, data: Buffer): void {
  this[clientOf]!.pinged(data)
}
function onClose(this: Connection): void {
  this[clientOf]!.closed()
}
function ignore(): void {}
