// WebSockets beside the routes of the same server: who may open one, and when all of them end. One timer serves all
// sockets, so that idle ones cost next to nothing.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { Client, type ClientSocket, type SocketHandlers } from './client-socket.ts'
import { failureFrom } from './failure.ts'
import type { Failure } from './plane.ts'
import type { RequestHead } from './request.ts'

export interface SocketRequest extends Pick<RequestHead, 'id' | 'path' | 'params' | 'headers'> {
  readonly query: URLSearchParams
}

export interface SocketMount<Who> {
  /** Paths with `{name}` for a segment. */
  readonly addresses: readonly string[]
  /** Before the upgrade: throws a Refusal, or says who is calling. */
  admit(request: SocketRequest): Who | Promise<Who>
  /** The last moment to refuse; the socket opens in the same turn. */
  enter?(who: Who): void
  accept(who: Who, socket: ClientSocket, request: SocketRequest): SocketHandlers
  refuse(failure: Failure): unknown
}

export interface Sockets {
  mount<Who>(mount: SocketMount<Who>): void
  /** Whether a request that wants to become a socket is one of ours; others are answered as the requests they are. */
  takes(request: IncomingMessage): boolean
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Says goodbye to all, and does not wait for long. */
  close(graceMs: number): Promise<void>
}

/** A message larger than this ends the socket (1009). */
export const maxMessageBytes = 4_000_000
/** More pieces of one frame than this end the socket (1008): joining 16,000 takes half a second, 8,000 a hundredth. */
const maxBufferedChunks = 8192
/** Clients send a heartbeat every 25 seconds. */
const usualPace = { idleMs: 75_000, sweepMs: 1000 }
/** For the other side to answer a goodbye. */
const closingMs = 2000

export function createSockets(
  log: Log,
  requestId: (request: IncomingMessage) => string,
  { idleMs, sweepMs } = usualPace,
): Sockets {
  const mounts: { pattern: RegExp; address: string; mount: SocketMount<unknown> }[] = []
  const clients = new Set<Client>()
  let isClosing = false
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    autoPong: false,
    // Not in the types yet.
    ...{ closeTimeout: closingMs, maxBufferedChunks },
  })
  server.on('wsClientError', (error, socket, request) =>
    refuse(new Refusal('invalid_request', error.message), request, socket, found(request)),
  )

  function found(request: IncomingMessage) {
    const path = pathOf(request)
    return mounts.find(({ pattern }) => pattern.test(path))
  }

  function refuse(
    error: unknown,
    request: IncomingMessage,
    socket: Duplex,
    at: { address: string; mount: SocketMount<unknown> } | undefined,
    id = requestId(request),
  ): void {
    const failure = failureFrom(error, log, id)
    log.answered(at?.address ?? 'none', id, 'GET', failure.status, 0)
    answerOnSocket(socket, failure, id, at?.mount.refuse(failure))
  }

  async function meet(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const at = found(request)!
    const id = requestId(request)
    const asked = socketRequest(request, id, at.pattern)
    const startedAt = performance.now()
    try {
      const admitted = at.mount.admit(asked)
      const who = admitted instanceof Promise ? await admitted : admitted
      // Nobody would end it any more.
      if (isClosing) throw new Refusal('database_unavailable', 'The platform is stopping')
      at.mount.enter?.(who)
      server.handleUpgrade(request, socket, head, connection => {
        log.answered(at.address, id, 'GET', 101, Math.round((performance.now() - startedAt) * 10) / 10)
        const client = new Client(connection, socket as Socket, clients)
        client.handlers = at.mount.accept(who, client, asked)
      })
    } catch (error) {
      refuse(error, request, socket, at, id)
    }
  }

  const sweep = setInterval(() => {
    const now = performance.now()
    for (const client of clients) client.closeIfIdle(now, idleMs)
  }, sweepMs).unref()

  return {
    mount(mount) {
      for (const address of mount.addresses)
        mounts.push({ address, pattern: patternOf(address), mount: mount as SocketMount<unknown> })
    },
    takes: request => request.headers.upgrade?.toLowerCase() === 'websocket' && found(request) !== undefined,
    upgrade(request, socket, head) {
      socket.on('error', () => {})
      // One that is not a socket in the end must not be held for ever.
      void meet(request, socket, head).catch(error => {
        log.error({ err: error }, 'a socket could not be opened')
        socket.destroy()
      })
    },
    async close(graceMs) {
      isClosing = true
      clearInterval(sweep)
      for (const client of clients) client.close(1001, 'the platform is stopping')
      const endAt = performance.now() + Math.min(graceMs, closingMs)
      while (clients.size > 0 && performance.now() < endAt)
        await new Promise(resolve => setTimeout(resolve, 10))
      for (const client of clients) client.cut()
    },
  }
}

const pathOf = ({ url = '' }: IncomingMessage): string => {
  const end = url.indexOf('?')
  return end < 0 ? url : url.slice(0, end)
}

const patternOf = (address: string) =>
  new RegExp(`^${address.replace(/\{(\w+)\}/g, (_whole, name) => `(?<${name}>[^/]+)`)}/?$`)

function socketRequest(request: IncomingMessage, id: string, pattern: RegExp): SocketRequest {
  const { url = '', headers } = request
  const path = pathOf(request)
  return {
    id,
    path,
    params: { ...pattern.exec(path)?.groups },
    headers,
    query: new URLSearchParams(url.slice(path.length + 1)),
  }
}

const statusTexts: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

function answerOnSocket(socket: Duplex, { status, headers }: Failure, id: string, body: unknown): void {
  if (!socket.writable) return void socket.destroy()
  const text = JSON.stringify(body ?? {})
  const lines = Object.entries({
    'x-request-id': id,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${statusTexts[status] ?? 'Refused'}\r\n${lines.join('')}\r\n${text}`)
  socket.resume()
  if ('setTimeout' in socket) (socket as Socket).setTimeout(closingMs, () => socket.destroy())
}
