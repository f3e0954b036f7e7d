// A packet can hold thousands of requests or frames, and its parser reads all it is given at once. So what a connection
// receives is handed to the parser in pieces: as many as this turn of the event loop has time for, the rest in slices. The
// rest waits in the stream itself, which keeps the order and comes before the end of the stream.
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

const { pause, resume, push } = Socket.prototype

const pacedBy = Symbol('paced by')
type PacedSocket = Socket & { [pacedBy]?: PacedReading }
type DataListener = (this: Socket, bytes: Buffer) => void

/** Takes the place of whoever listens to the data of a socket, and hands it on to that listener. */
export function paceReading(socket: Socket, pieces: Pieces): void {
  const paced: PacedSocket = socket
  paced[pacedBy] = new PacedReading(socket, pieces)
}

/** The parser has had its last piece: what it was not given is left in the stream. */
export function endPacedReading(socket: Socket): void {
  const paced: PacedSocket = socket
  paced[pacedBy]?.end()
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
    socket.pause = () => {
      this.#isWanted = false
      return pause.call(socket)
    }
    socket.resume = () => {
      this.#isWanted = true
      return this.#isInSlices ? socket : resume.call(socket)
    }
    socket.push = (bytes, encoding) => {
      if (bytes === null || !socket.readableFlowing || socket.readableLength > 0)
        return push.call(socket, bytes, encoding)
      this.#received(bytes)
      return true
    }
  }

  end(): void {
    this.#hasEnded = true
    this.#socket.removeListener('data', this.#listener)
    Reflect.deleteProperty(this.#socket, 'pause')
    Reflect.deleteProperty(this.#socket, 'resume')
    Reflect.deleteProperty(this.#socket, 'push')
  }

  #received(bytes: Buffer): void {
    // Whoever was told goodbye is listened to no more.
    if (!this.#socket.writable) return
    let at = 0
    do {
      const end = this.#pieces.endOf(bytes, at)
      if (!this.#isInSlices && !this.#pieces.isUrgent(at) && isTurnSpent()) break
      this.#parse.call(this.#socket, at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end))
      this.#pieces.passed(end - at)
      at = end
    } while (at < bytes.length && this.#isWanted && !this.#isInSlices && !this.#hasEnded)
    if (at < bytes.length) this.#putBack(bytes.subarray(at))
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
