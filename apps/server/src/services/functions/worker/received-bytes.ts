// The bytes that a worker has sent on a connection and that were not taken yet.
import type { Socket } from 'node:net'

export class ConnectionLost extends Error {
  constructor(cause?: unknown) {
    super('the worker closed the connection', { cause })
    this.name = 'ConnectionLost'
  }
}

/** Beyond this, reading from the worker stops until some bytes are taken. */
const maxBuffered = 512 * 1024
const maxLineBytes = 256 * 1024
const empty = Buffer.alloc(0)

export class ReceivedBytes {
  readonly #socket: Socket
  #bytes: Buffer = empty
  #isClosed = false
  #failure: unknown
  #wake: () => void = () => {}

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('error', error => {
      this.#failure = error
    })
    socket.on('close', () => {
      this.#isClosed = true
      this.#wake()
    })
    socket.on('data', (chunk: Buffer) => {
      this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk])
      if (this.#bytes.length > maxBuffered) socket.pause()
      this.#wake()
    })
  }

  get length(): number {
    return this.#bytes.length
  }

  /** Waits for bytes beyond those that were received already. */
  async more(): Promise<void> {
    const before = this.#bytes.length
    if (this.#socket.isPaused()) this.#socket.resume()
    while (this.#bytes.length === before) {
      if (this.#isClosed) throw new ConnectionLost(this.#failure)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  /** Takes at most so many bytes of those that were received. */
  take(count: number): Buffer {
    const all = this.#bytes
    this.#bytes = all.length <= count ? empty : all.subarray(count)
    return all.length <= count ? all : all.subarray(0, count)
  }

  /** Takes the text before the given end, and the end itself. */
  async takeTextUntil(end: string): Promise<string> {
    for (;;) {
      const at = this.#bytes.indexOf(end, 0, 'latin1')
      if (at >= 0) {
        const text = this.#bytes.toString('latin1', 0, at)
        this.take(at + end.length)
        return text
      }
      if (this.#bytes.length > maxLineBytes) {
        this.#socket.destroy()
        throw new ConnectionLost(new Error('the head of an answer is too long'))
      }
      await this.more()
    }
  }
}
