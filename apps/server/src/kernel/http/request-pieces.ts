// What a connection receives, divided into heads and bodies of requests. A body of known length costs the same however
// long it is. What is neither a whole head nor such a body (chunks, long heads) is divided by length.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Pieces } from '#src/kernel/paced-reading.ts'

const endOfHead = Buffer.from('\r\n\r\n')
/** At most 340 chunks of one byte. */
const unknownBytes = 2048

const latest = Symbol('latest request')
type RequestSocket = Socket & { [latest]?: IncomingMessage | undefined }

/** To be called for each request when it is made, which is when its head has been read. */
export function requestBegins(socket: RequestSocket, request: IncomingMessage): void {
  socket[latest] = request
}

export class RequestPieces implements Pieces {
  readonly #socket: RequestSocket
  /** Of the request that is being read. */
  #bodyBytes = 0
  #isWholeHead = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  endOf(bytes: Buffer, start: number): number {
    if (this.#bodyBytes > 0) return Math.min(start + this.#bodyBytes, bytes.length)
    const most = Math.min(start + unknownBytes, bytes.length)
    const ahead = start === 0 && most === bytes.length ? bytes : bytes.subarray(start, most)
    const head = ahead.indexOf(endOfHead)
    this.#isWholeHead = head >= 0
    return head < 0 ? most : start + head + endOfHead.length
  }

  /** Of the piece whose end was asked for: any body, and the first request of a packet, as most packets have one. */
  isUrgent(start: number): boolean {
    return this.#bodyBytes > 0 || (start === 0 && this.#isWholeHead)
  }

  passed(bytes: number): void {
    if (this.#bodyBytes > 0) {
      this.#bodyBytes -= bytes
      return
    }
    const request = this.#socket[latest]
    if (!request) return
    this.#socket[latest] = undefined
    this.#bodyBytes = Number(request.headers['content-length'] ?? 0)
  }
}
