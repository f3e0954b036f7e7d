// Passes the chunks of COPY TO STDOUT to their sink, one after the other. While the sink is busy, the socket is paused, so
// that the server waits.
import type { Socket } from 'node:net'

/** `giveBack` may be called once the chunk is not needed any more. Then its memory is used again. */
export type ChunkSink = (chunk: Buffer, giveBack: () => void) => Promise<void> | void

export class CopyOutput {
  readonly #socket: Socket
  readonly #sink: ChunkSink
  readonly #onError: (error: unknown) => void
  readonly #giveBack: (chunk: Buffer) => void
  /** At most the content of one read from the socket. */
  readonly #queue: Buffer[] = []
  #isBusy = false
  #onEnd: (() => void) | undefined

  constructor(
    socket: Socket,
    sink: ChunkSink,
    onError: (error: unknown) => void,
    giveBack: (chunk: Buffer) => void,
  ) {
    this.#socket = socket
    this.#sink = sink
    this.#onError = onError
    this.#giveBack = giveBack
  }

  take(chunk: Buffer): void {
    this.#queue.push(chunk)
    if (!this.#isBusy) this.#drain()
  }

  /** Calls back when the sink has taken all chunks. */
  end(onEnd: () => void): void {
    this.#onEnd = onEnd
    if (!this.#isBusy) this.#drain()
  }

  #drain(): void {
    for (let chunk = this.#queue.shift(); chunk; chunk = this.#queue.shift()) {
      const taken = this.#pass(chunk)
      if (!taken) continue
      this.#isBusy = true
      this.#socket.pause()
      taken.then(() => {
        this.#isBusy = false
        this.#socket.resume()
        this.#drain()
      }, this.#onError)
      return
    }
    this.#onEnd?.()
  }

  /** An exception would otherwise be thrown in the socket's listener and end the process. */
  #pass(chunk: Buffer): Promise<void> | void {
    try {
      return this.#sink(chunk, () => this.#giveBack(chunk))
    } catch (error) {
      return Promise.reject(error)
    }
  }
}
