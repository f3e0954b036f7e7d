// A WebSocket to a function: after the handshake, bytes are passed on in both directions.
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { failureOf, isTimeout, reasonOf } from './failures.ts'
import { answerHeaders } from './headers.ts'
import type { Lease } from './runtime.ts'
import type { Connection } from './worker/connection.ts'
import { ConnectionLost } from './worker/received-bytes.ts'
import { type CallContext, within } from './worker-call.ts'

interface ClientSide {
  socket: Socket
  /** Bytes that the client has sent after the handshake. */
  head: Buffer
  timeoutMs: number
  requestId: string
}

export async function openTunnel(
  { worker, release }: Lease,
  context: CallContext,
  { socket, head, timeoutMs, requestId }: ClientSide,
  end: (status: number) => void,
): Promise<number> {
  const call = worker.begin(context.name)
  const over = (status: number) => {
    call.done()
    end(status)
    void release()
  }
  let connection: Connection | undefined
  try {
    connection = await call.connect()
    const { target, headers } = context
    const opened = await within(connection.upgrade({ method: 'GET', target, headers }), timeoutMs, () =>
      connection!.close(),
    )
    const { status, headers: answered, outcome } = answerHeaders('answer' in opened ? opened.answer : opened)
    if (outcome !== undefined) throw failureOf(outcome)
    const lines = Object.entries({ ...answered, 'x-request-id': requestId }).flatMap(([name, value]) =>
      [value].flat().map(each => `${name}: ${each}\r\n`),
    )
    const start = (more: string) =>
      socket.write(
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${more}${lines.join('')}\r\n`,
        'latin1',
      )
    if (!('answer' in opened)) {
      // The function has answered like to any other request.
      start('connection: close\r\n')
      for (let chunks = await opened.read(); chunks.length > 0; chunks = await opened.read())
        for (const chunk of chunks) socket.write(chunk)
      socket.end()
      over(status)
      return status
    }
    start('connection: Upgrade\r\nupgrade: websocket\r\n')
    const { socket: inner, rest } = opened
    socket.setTimeout(0)
    if (rest.length > 0) socket.write(rest)
    if (head.length > 0) inner.write(head)
    inner.on('error', () => {})
    inner.once('close', () => {
      socket.destroy()
      over(status)
    })
    socket.once('close', () => inner.destroy())
    socket.pipe(inner)
    inner.pipe(socket)
    return status
  } catch (error) {
    connection?.close()
    call.done()
    if (isTimeout(error)) void worker.checkAlive()
    const reason = error instanceof ConnectionLost ? await reasonOf(worker) : error
    await release()
    throw reason
  }
}
