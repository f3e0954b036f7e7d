// A packet can hold thousands of requests, frames or chunks, and its parser reads all it is given at once. So what a
// connection receives is handed to the parser in pieces: as many as this turn of the event loop has time for, the rest
// in slices. The rest waits in the stream itself, which keeps the order and comes before the end of the stream.
import { Socket } from 'node:net'
import { inSlices, isTurnSpent, type Sliced } from '#src/kernel/slices.ts'

/** How what one connection receives is divided. */
export interface Pieces {
  /** Where the piece that begins at `start` ends. */
  endOf(bytes: Buffer, start: number): number
  /** Whether that piece is handed on even if the turn has no time left. */
  isUrgent(start: number): boolean
  passed(bytes: number): void
}

/** Where nothing is known of what comes. */
export const piecesOf = (length: number): Pieces => ({
  endOf: (bytes, start) => Math.min(start + length, bytes.length),
  isUrgent: () => false,
  passed() {},
})

const { pause, resume, push, removeListener } = Socket.prototype
type DataListener = (this: Socket, bytes: Buffer) => void

/** Takes the place of the parser that listens to the data of a socket, for as long as that would listen. */
export function paceReading(socket: Socket, pieces: Pieces): void {
  new PacedReading(socket, pieces)
}

class PacedReading {
  readonly #socket: Socket
  readonly #pieces: Pieces
  readonly #parse: DataListener
  readonly #listener = (bytes: Buffer) => this.#received(bytes)
  /** The parser has not asked for a pause. */
  #isWanted = true
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
      this.#isWanted = false
      return pause.call(socket)
    }
    socket.resume = () => {
      this.#isWanted = true
      return this.#isInSlices ? socket : resume.call(socket)
    }
    // Past the machinery of streams, while nothing waits.
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
    let at = 0
    while (this.#isListening()) {
      const end = this.#pieces.endOf(bytes, at)
      if (!this.#isInSlices && !this.#pieces.isUrgent(at) && isTurnSpent()) break
      this.#parse.call(this.#socket, at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end))
      this.#pieces.passed(end - at)
      at = end
      if (at === bytes.length) return
      if (!this.#isWanted || this.#isInSlices || this.#hasEnded) break
    }
    if (this.#isListening()) this.#putBack(bytes.subarray(at))
  }

  /** Whoever was told goodbye is listened to no more. */
  #isListening(): boolean {
    return this.#socket.writable
  }

  #putBack(rest: Buffer): void {
    const isNext = this.#isWanted && !this.#isInSlices && !this.#hasEnded
    if (isNext) pause.call(this.#socket)
    this.#socket.unshift(rest)
    if (isNext) void inSlices(this.#readInSlices())
  }

  *#readInSlices(): Sliced<void> {
    this.#isInSlices = true
    // Also the first slice waits for its turn: as many connections as there are may have something to read.
    yield
    // Reading it emits it as data.
    while (this.#isWanted && !this.#hasEnded && this.#socket.read() !== null) yield
    this.#isInSlices = false
    if (this.#isWanted && !this.#hasEnded) this.#socket.resume()
  }
}
