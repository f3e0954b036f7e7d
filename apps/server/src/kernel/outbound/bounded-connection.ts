// A connection that ends after the server has sent too many bytes. It counts the bytes of the network, so the limit also
// applies to TLS on top of it, to endless replies and to many complete replies.
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

export class TooManyBytes extends Error {
  readonly code = 'ETOOLARGE'
}

export class BoundedConnection extends Duplex {
  readonly #socket: Socket

  constructor(socket: Socket, maxBytes: number) {
    super()
    this.#socket = socket
    let received = 0
    socket.on('data', chunk => {
      received += chunk.length
      if (received > maxBytes) this.destroy(new TooManyBytes(`the server sent more than ${maxBytes} bytes`))
      else if (!this.push(chunk)) socket.pause()
    })
    socket.on('end', () => this.push(null))
    socket.on('error', error => this.destroy(error))
    socket.on('close', () => this.destroy())
    socket.on('timeout', () => this.emit('timeout'))
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy()
    // In the next turn, so that TLS on top of it first reports its own reason, such as a bad certificate.
    setImmediate(() => done(error))
  }

  /** Like that of a socket: emits `timeout` after being idle for this long. 0 disables it. */
  setTimeout(ms: number): this {
    this.#socket.setTimeout(ms)
    return this
  }
}
