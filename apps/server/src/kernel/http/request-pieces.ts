// Divides the bytes of an HTTP connection into heads and bodies of requests. A body with a content-length is one piece,
// because parsing it takes the same time for any length. The rest (chunked bodies, long heads) is divided by length.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Pieces } from '#src/kernel/paced-reading.ts'

const endOfHead = Buffer.from('\r\n\r\n')
/** The length of `GET / HTTP/1.1`. Empty lines before a request must not count as the end of its head. */
const shortestLine = 14
/** Length of a piece without known boundaries: at most 340 chunks of one byte. */
const unknownBytes = 2048

const latest = Symbol('latest request')
type RequestSocket = Socket & { [latest]?: IncomingMessage | undefined }

/** Called when Node creates a request, right after its head was parsed. */
export function setLatestRequest(socket: RequestSocket, request: IncomingMessage): void {
  socket[latest] = request
}

export class RequestPieces implements Pieces {
  readonly #socket: RequestSocket
  /** Bytes of the current request's body that are not received yet. */
  #bodyBytes = 0
  #isWholeHead = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  endOf(bytes: Buffer, start: number): number {
    if (this.#bodyBytes > 0) return Math.min(start + this.#bodyBytes, bytes.length)
    const most = Math.min(start + unknownBytes, bytes.length)
    const ahead = start === 0 && most === bytes.length ? bytes : bytes.subarray(start, most)
    const head = ahead.indexOf(endOfHead, shortestLine)
    this.#isWholeHead = head >= 0
    return head < 0 ? most : start + head + endOfHead.length
  }

  /** True for a body, and for a whole head at the start of a packet, because most packets are one request. */
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
