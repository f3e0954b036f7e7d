// WebSockets on the HTTP server: admission, upgrade, idle timeout and shutdown. All sockets share one timer, so that idle
// ones take almost no CPU time.

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { startChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { Client, type ClientSocket, type SocketHandlers } from './client-socket.ts'
import { failureFrom } from './failure.ts'
import { type Identity, nobody, type Observe, roundMs } from './observation.ts'
import type { Failure } from './plane.ts'
import type { RequestHead } from './request.ts'
import { traceIdOf } from './trace-context.ts'

export interface SocketRequest extends Pick<RequestHead, 'id' | 'path' | 'params' | 'headers'> {
  readonly query: URLSearchParams
  /** The query as sent, without the question mark. */
  readonly search: string
  /** The client's address. Headers of proxies are used only if the proxy is trusted. */
  readonly ip: string
}

/** A tunnel gets the connection itself, and the platform does not speak WebSocket on it. */
export interface TunnelMount<Who> {
  /** Paths, in which `{name}` matches a segment and a final `{path}` the rest. */
  readonly addresses: readonly string[]
  /** Throws a Refusal if the connection is not allowed. */
  admit(request: SocketRequest): Who | Promise<Who>
  identify(who: Who): Identity
  /** The body of a refusal. */
  refuse(failure: Failure): unknown
  /** Returns the status of the answer that it has sent, or throws a Refusal before it has sent any. */
  open(who: Who, request: SocketRequest, socket: Socket, head: Buffer): Promise<number>
}

export interface SocketMount<Who> {
  /** Paths, in which `{name}` matches a segment. */
  readonly addresses: readonly string[]
  /** Called before the upgrade. Returns the caller, or throws a Refusal. */
  admit(request: SocketRequest): Who | Promise<Who>
  /** Called in the same turn in which the socket opens, to check limits. May throw a Refusal. */
  enter?(who: Who): void
  /** Who was admitted, for the record of the answer. */
  identify(who: Who): Identity
  accept(who: Who, socket: ClientSocket, request: SocketRequest): SocketHandlers
  refuse(failure: Failure): unknown
}

export interface Sockets {
  mount<Who>(service: string, mount: SocketMount<Who>): void
  mountTunnel<Who>(service: string, mount: TunnelMount<Who>): void
  /** Whether an upgrade request is for a mounted address. Others are handled as ordinary requests. */
  shouldUpgrade(request: IncomingMessage): boolean
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Open sockets, and connections that were passed on. */
  count(): { sockets: number; tunnels: number }
  /** Sends close frames, and terminates clients that do not answer in time. */
  close(graceMs: number): Promise<void>
}

/** A larger message closes the socket with 1009. */
export const maxMessageBytes = 4_000_000
/** A frame received in more pieces closes the socket with 1008. Joining 8,000 takes 10 ms, but 16,000 take 500 ms. */
const maxBufferedChunks = 8192
/** Clients send a heartbeat every 25 seconds. */
const defaultTimes = { idleMs: 75_000, sweepMs: 1000 }
/** How long a client may take to answer a close frame. */
const closeTimeoutMs = 2000

interface MountedTunnel {
  service: string
  address: string
  pattern: RegExp
  mount: TunnelMount<unknown>
}

interface Mounted {
  service: string
  address: string
  pattern: RegExp
  mount: SocketMount<unknown>
}

export function createSockets(
  log: Log,
  observe: Observe,
  requestId: (request: IncomingMessage) => string,
  addressOf: (request: IncomingMessage) => string,
  { idleMs, sweepMs } = defaultTimes,
): Sockets {
  const mounts: Mounted[] = []
  const tunnels: MountedTunnel[] = []
  const tunnelled = new Set<Duplex>()
  const clients = new Set<Client>()
  let isClosing = false
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    autoPong: false,
    // These options are missing in the types of `ws`.
    ...{ closeTimeout: closeTimeoutMs, maxBufferedChunks },
  })
  server.on('wsClientError', (error, socket, request) =>
    refuse(new Refusal('invalid_request', error.message), request, socket, findMount(request)),
  )

  function findTunnel(request: IncomingMessage) {
    const path = pathOf(request)
    return tunnels.find(({ pattern }) => pattern.test(path))
  }

  function findMount(request: IncomingMessage) {
    const path = pathOf(request)
    return mounts.find(({ pattern }) => pattern.test(path))
  }

  function refuse(
    error: unknown,
    request: IncomingMessage,
    socket: Duplex,
    at: Mounted | undefined,
    id = requestId(request),
  ): void {
    const failure = failureFrom(error, log, id)
    observe({ ...answerAt(at, id, request), ...nobody, status: failure.status, ms: 0 })
    answerOnSocket(socket, failure, id, at?.mount.refuse(failure))
  }

  async function openTunnel(at: MountedTunnel, request: IncomingMessage, socket: Socket, head: Buffer) {
    const { mount } = at
    const id = requestId(request)
    const startedAt = performance.now()
    const socketRequest = toSocketRequest(request, id, at.pattern, addressOf(request))
    const record = (status: number, identity: Identity) =>
      observe({
        ...answerAt(at, id, request),
        ...identity,
        status,
        ms: roundMs(performance.now() - startedAt),
      })
    tunnelled.add(socket)
    socket.once('close', () => tunnelled.delete(socket))
    let identity = nobody
    try {
      const who = await mount.admit(socketRequest)
      identity = mount.identify(who)
      record(await mount.open(who, socketRequest, socket, head), identity)
    } catch (error) {
      const failure = failureFrom(error, log, id)
      record(failure.status, identity)
      answerOnSocket(socket, failure, id, mount.refuse(failure))
    }
  }

  async function admitAndUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const at = findMount(request)!
    const id = requestId(request)
    const socketRequest = toSocketRequest(request, id, at.pattern, addressOf(request))
    const startedAt = performance.now()
    try {
      const admitted = at.mount.admit(socketRequest)
      const who = admitted instanceof Promise ? await admitted : admitted
      // `close` has run already and would not close this socket.
      if (isClosing) throw new Refusal('database_unavailable', 'The platform is stopping')
      at.mount.enter?.(who)
      server.handleUpgrade(request, socket, head, connection => {
        const identity = at.mount.identify(who)
        const ms = roundMs(performance.now() - startedAt)
        observe({ ...answerAt(at, id, request), ...identity, status: 101, ms })
        const client = new Client(connection, socket as Socket, clients)
        client.handlers = at.mount.accept(who, client, socketRequest)
      })
    } catch (error) {
      refuse(error, request, socket, at, id)
    }
  }

  const sweeping = startChore({
    name: 'close idle sockets',
    everyMs: sweepMs,
    run() {
      const now = performance.now()
      for (const client of clients) client.closeIfIdle(now, idleMs)
    },
  })

  return {
    mount(service, mount) {
      for (const address of mount.addresses)
        mounts.push({ service, address, pattern: patternOf(address), mount: mount as SocketMount<unknown> })
    },
    mountTunnel(service, mount) {
      for (const address of mount.addresses)
        tunnels.push({ service, address, pattern: patternOf(address), mount: mount as TunnelMount<unknown> })
    },
    shouldUpgrade: request =>
      request.headers.upgrade?.toLowerCase() === 'websocket' &&
      (findMount(request) ?? findTunnel(request)) !== undefined,
    upgrade(request, socket, head) {
      socket.on('error', () => {})
      const tunnel = findMount(request) ? undefined : findTunnel(request)
      if (tunnel) return void openTunnel(tunnel, request, socket as Socket, head)
      void admitAndUpgrade(request, socket, head).catch(error => {
        log.error({ err: error }, 'a socket could not be opened')
        socket.destroy()
      })
    },
    count: () => ({ sockets: clients.size, tunnels: tunnelled.size }),
    async close(graceMs) {
      isClosing = true
      void sweeping.stop()
      for (const client of clients) client.close(1001, 'the platform is stopping')
      const endAt = performance.now() + Math.min(graceMs, closeTimeoutMs)
      while (clients.size > 0 && performance.now() < endAt)
        await new Promise(resolve => setTimeout(resolve, 10))
      for (const client of clients) client.terminate()
      for (const socket of tunnelled) socket.destroy()
    },
  }
}

/** Messages after the upgrade are not part of the answer, so no bytes are counted. */
const answerAt = (
  at: Mounted | MountedTunnel | undefined,
  id: string,
  { headers }: Pick<IncomingMessage, 'headers'>,
) => ({
  id,
  traceId: traceIdOf(headers['traceparent']),
  at: Date.now(),
  method: 'GET',
  service: at?.service ?? 'none',
  route: at?.address ?? 'none',
  bytesIn: 0,
  bytesOut: 0,
})

const pathOf = ({ url = '' }: IncomingMessage): string => {
  const end = url.indexOf('?')
  return end < 0 ? url : url.slice(0, end)
}

const patternOf = (address: string) =>
  new RegExp(
    `^${address.replace(/\{(\w+)\}/g, (_whole, name) => (name === 'path' ? `(?<path>.*)` : `(?<${name}>[^/]+)`))}/?$`,
  )

function toSocketRequest(request: IncomingMessage, id: string, pattern: RegExp, ip: string): SocketRequest {
  const { url = '', headers } = request
  const path = pathOf(request)
  return {
    id,
    path,
    params: { ...pattern.exec(path)?.groups },
    headers,
    query: new URLSearchParams(url.slice(path.length + 1)),
    search: url.slice(path.length + 1),
    ip,
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
  if ('setTimeout' in socket) (socket as Socket).setTimeout(closeTimeoutMs, () => socket.destroy())
}
