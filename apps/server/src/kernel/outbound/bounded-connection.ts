// A connection that ends once the other side has sent too much. It counts what comes over the network, so the bound
// also holds for TLS on top of it, for replies without end and for floods of complete replies alike.
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
    // A turn later, so that TLS on top of it reports its own reason first: a bad certificate, not a lost connection.
    setImmediate(() => done(error))
  }

  /** As a socket has it: silence of this length emits `timeout`; 0 switches it off. */
  setTimeout(ms: number): this {
    this.#socket.setTimeout(ms)
    return this
  }
}
