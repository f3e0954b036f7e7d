// A second way into the HTTP server: a Unix socket, for programs on this machine that the platform has started.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { paceReading } from '#src/kernel/paced-reading.ts'
import { DirectBodyRequest } from './body.ts'
import { maxHeaderSize, refuseMalformed } from './malformed.ts'
import { RequestPieces } from './request-pieces.ts'

export interface SocketGuard {
  /** Whether a path may be requested here. */
  allows(path: string): boolean
  /** Takes the place of the client's address, which a Unix socket does not have. */
  readonly address: string
}

interface Handlers {
  onRequest(request: IncomingMessage, answer: ServerResponse): void
  shouldUpgrade(request: IncomingMessage): boolean
  onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

const requestTimeout = 300_000

export async function listenOnSocket(
  path: string,
  guard: SocketGuard,
  { onRequest, shouldUpgrade, onUpgrade }: Handlers,
): Promise<() => Promise<void>> {
  /** A client that uses the socket as a proxy sends the whole URL. */
  const isAllowed = (request: IncomingMessage) => {
    request.url = (request.url ?? '').replace(/^https?:\/\/[^/?]*/, '') || '/'
    return guard.allows(request.url.split('?', 1)[0]!)
  }
  const server = createServer(
    {
      requireHostHeader: false,
      maxHeaderSize,
      requestTimeout,
      IncomingMessage: DirectBodyRequest,
      shouldUpgradeCallback: request => isAllowed(request) && shouldUpgrade(request),
    },
    (request, answer) => {
      if (isAllowed(request)) return onRequest(request, answer)
      answer.writeHead(403, { 'content-type': 'application/json; charset=utf-8' })
      answer.end(JSON.stringify({ code: 'forbidden', message: 'Only the own project can be reached here' }))
    },
  )
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    Object.defineProperty(socket, 'remoteAddress', { value: guard.address })
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    paceReading(socket, new RequestPieces(socket))
  })
  server.on('clientError', refuseMalformed)
  server.on('upgrade', onUpgrade)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  return () =>
    new Promise(resolve => {
      server.close(() => resolve())
      for (const socket of open) socket.destroy()
    })
}
