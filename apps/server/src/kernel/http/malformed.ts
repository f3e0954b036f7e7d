import type { Socket } from 'node:net'
import { newRequestId } from './request-id.ts'

/** Large enough for a path with a cache key of 2048 characters, each of up to twelve bytes when percent-encoded. */
export const maxHeaderSize = 32 * 1024

/** Input that is not valid HTTP never becomes a request, so the answer is written to the socket. */
export function refuseMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', `The headers are larger than ${maxHeaderSize / 1024} kB`]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request took too long to arrive']
        : ['400 Bad Request', 'This is not a valid HTTP request']
  const body = JSON.stringify({ error: { message, code: 'invalid_request' } })
  socket.end(
    `HTTP/1.1 ${status}\r\nX-Request-Id: ${newRequestId()}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}
