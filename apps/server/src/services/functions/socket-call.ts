// A WebSocket to a function: after the handshake, bytes are passed on in both directions.
import { type IncomingMessage, request as requestOf, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AnswerTimeout, ConnectionLost } from '@plinth/runtime/client/linked-call.ts'
import { failureOf, reasonOf, tooLong } from './failures.ts'
import { answerHeaders } from './headers.ts'
import type { Lease } from './runtime.ts'
import type { CallContext } from './worker-call.ts'

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
  const call = worker.begin(context.name, context.isFromOutside)
  const over = (status: number) => {
    call.done()
    end(status)
    void release()
  }
  try {
    const { answer, upgraded } = await handshake(worker.socketPath, context, timeoutMs)
    const { status, headers, outcome } = answerHeaders({
      status: answer.statusCode!,
      headers: lowerCaseNames(answer.rawHeaders),
    })
    if (outcome !== undefined) {
      answer.destroy()
      throw failureOf(outcome)
    }
    const lines = Object.entries({ ...headers, 'x-request-id': requestId }).flatMap(([name, value]) =>
      [value].flat().map(each => `${name}: ${each}\r\n`),
    )
    const start = (more: string) =>
      socket.write(
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${more}${lines.join('')}\r\n`,
        'latin1',
      )
    if (!upgraded) {
      // The function has answered like to any other request.
      start('connection: close\r\n')
      answer.socket.setTimeout(timeoutMs, () => answer.destroy())
      await pipeline(answer, limited(context.maxBytes), socket).catch(() => {})
      over(status)
      return status
    }
    start('connection: Upgrade\r\nupgrade: websocket\r\n')
    const { inner, rest } = upgraded
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
    // The client has left before the listeners were there.
    if (socket.destroyed) inner.destroy()
    return status
  } catch (error) {
    call.done()
    if (error instanceof AnswerTimeout) void worker.checkAlive()
    const reason = await reasonOf(error, worker, timeoutMs)
    await release()
    throw reason
  }
}

interface Handshake {
  answer: IncomingMessage
  /** If the function has accepted it: the connection to the worker, and bytes that were received after the answer. */
  upgraded?: { inner: Socket; rest: Buffer }
}

const handshake = (path: string, { target, headers }: CallContext, timeoutMs: number) =>
  new Promise<Handshake>((resolve, reject) => {
    const request = requestOf({ socketPath: path, path: target, headers, agent: false })
    const timer = setTimeout(() => request.destroy(new AnswerTimeout()), timeoutMs)
    request.once('close', () => clearTimeout(timer))
    request.on('error', error => reject(error instanceof AnswerTimeout ? error : new ConnectionLost(error)))
    request.once('upgrade', (answer: IncomingMessage, inner: Socket, rest: Buffer) => {
      clearTimeout(timer)
      resolve({ answer, upgraded: { inner, rest } })
    })
    request.once('response', answer => {
      clearTimeout(timer)
      resolve({ answer })
    })
    request.end()
  })

/** Fails if more bytes are to pass. */
function limited(maxBytes: number): Transform {
  let passed = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      passed += chunk.length
      if (passed > maxBytes) done(tooLong(maxBytes))
      else done(null, chunk)
    },
  })
}

const lowerCaseNames = (alternating: readonly string[]) =>
  alternating.map((each, at) => (at % 2 === 0 ? each.toLowerCase() : each))
