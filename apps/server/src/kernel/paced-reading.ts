// A packet can contain thousands of requests, frames or chunks, and a parser processes all bytes it is given before it
// returns. So the received bytes are passed to the parser in pieces: as many as this turn of the event loop has time for,
// the rest in slices. The rest is put back into the stream, so that it stays in order and before the end of the stream.
import { Socket } from 'node:net'
import { inSlices, isTurnSpent, type Sliced } from '#src/kernel/slices.ts'

/** How the bytes of one connection are divided. */
export interface Pieces {
  /** Where the piece that begins at `start` ends. */
  endOf(bytes: Buffer, start: number): number
  /** Whether that piece is parsed even if the turn has no time left. */
  isUrgent(start: number): boolean
  /** Called after that piece was parsed, with its length. */
  passed(bytes: number): void
}

/** Pieces of a fixed length, for a protocol whose boundaries are not looked at. */
export const piecesOfLength = (length: number): Pieces => ({
  endOf: (bytes, start) => Math.min(start + length, bytes.length),
  isUrgent: () => false,
  passed() {},
})

/** Parsing time of one slice. A shorter slice would spend more time on reading and putting back than on parsing. */
const sliceMs = 0.5

const { pause, resume, push, removeListener } = Socket.prototype
type DataListener = (this: Socket, bytes: Buffer) => void

/** Replaces the parser's `data` listener of the socket, until the parser removes it. */
export function paceReading(socket: Socket, pieces: Pieces): void {
  new PacedReading(socket, pieces)
}

class PacedReading {
  readonly #socket: Socket
  readonly #pieces: Pieces
  readonly #parse: DataListener
  readonly #listener = (bytes: Buffer) => this.#received(bytes)
  #isPausedByParser = false
  #isInSlices = false
  #hasEnded = false

  constructor(socket: Socket, pieces: Pieces) {
    this.#socket = socket
    this.#pieces = pieces
    this.#parse = socket.listeners('data')[0] as DataListener
    socket.removeListener('data', this.#parse)
    socket.on('data', this.#listener)
    socket.removeListener = (event, listener) => {
      if (listener === this.#parse) this.#end()
      return removeListener.call(socket, event, listener)
    }
    socket.pause = () => {
      this.#isPausedByParser = true
      return pause.call(socket)
    }
    socket.resume = () => {
      this.#isPausedByParser = false
      return this.#isInSlices ? socket : resume.call(socket)
    }
    // While the stream is flowing and empty, skip its buffering, which takes a microsecond per packet.
    socket.push = (bytes, encoding) => {
      if (bytes === null || !socket.readableFlowing || socket.readableLength > 0)
        return push.call(socket, bytes, encoding)
      this.#received(bytes)
      return true
    }
  }

  #end(): void {
    this.#hasEnded = true
    removeListener.call(this.#socket, 'data', this.#listener)
    for (const name of ['removeListener', 'pause', 'resume', 'push'])
      Reflect.deleteProperty(this.#socket, name)
  }

  #received(bytes: Buffer): void {
    const sliceEndsAt = this.#isInSlices ? performance.now() + sliceMs : 0
    let at = 0
    // Once our side of the connection has ended, the rest is not parsed.
    while (this.#socket.writable) {
      const end = this.#pieces.endOf(bytes, at)
      if (!this.#isInSlices && !this.#pieces.isUrgent(at) && isTurnSpent()) break
      this.#parse.call(this.#socket, at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end))
      this.#pieces.passed(end - at)
      at = end
      if (at === bytes.length) return
      if (this.#isPausedByParser || this.#hasEnded) break
      if (this.#isInSlices && performance.now() > sliceEndsAt) break
    }
    if (this.#socket.writable) this.#putBack(bytes.subarray(at))
  }

  #putBack(rest: Buffer): void {
    const startsSlices = !this.#isPausedByParser && !this.#isInSlices && !this.#hasEnded
    if (startsSlices) pause.call(this.#socket)
    this.#socket.unshift(rest)
    if (startsSlices) void inSlices(this.#readInSlices())
  }

  *#readInSlices(): Sliced<void> {
    this.#isInSlices = true
    // The first slice waits too, because thousands of connections may receive data in the same turn.
    yield
    // `read` emits what it returns as a `data` event.
    while (!this.#isPausedByParser && !this.#hasEnded && this.#socket.read() !== null) yield
    this.#isInSlices = false
    if (!this.#isPausedByParser && !this.#hasEnded) this.#socket.resume()
  }
}
