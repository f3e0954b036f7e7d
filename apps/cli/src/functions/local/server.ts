// The local HTTP server: it forwards calls to the workers of functions, with the headers that the platform would add.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as open,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '@plinth/runtime/client/linked-call.ts'
import {
  type Address,
  addressIn,
  corsHeaders,
  forwarded,
  listed,
  preflightHeaders,
  returned,
} from './headers.ts'
import type { Caller } from './project.ts'
import { StartFailed, type Worker } from './worker.ts'

export interface ServerOptions {
  port: number
  projectId: string
  findWorker(name: string): Promise<Worker> | undefined
  /** The names of the functions, for the answer to an unknown one. */
  names(): string[]
  /** Null if the credentials do not suffice. */
  admit(headers: IncomingHttpHeaders, query: URLSearchParams): Promise<Caller | null>
  onAnswered(call: Answered): void
  onFailure(name: string, message: string): void
}

export interface Answered {
  name: string
  method: string
  path: string
  status: number
  milliseconds: number
  requestId: string
}

export interface LocalServer {
  /** `http://127.0.0.1:8888` */
  origin: string
  close(): Promise<void>
}

interface Call {
  address: Address
  worker: Worker
  headers: Record<string, string | string[]>
}

class Refused extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** Rejects with the error of `listen`. */
export async function startServer(options: ServerOptions): Promise<LocalServer> {
  let origin = ''

  async function prepare(request: IncomingMessage, requestId: string): Promise<Call> {
    const address = addressIn(request.url ?? '/')
    const starting = options.findWorker(address.name)
    if (!starting) {
      const known = options.names().join(', ')
      throw new Refused(404, 'NOT_FOUND', `There is no function "${address.name}" here; there are: ${known}`)
    }
    // A failure is awaited below. Without this it would be unhandled while the caller is identified.
    starting.catch(() => {})
    const isOpen = request.method === 'OPTIONS'
    const caller = isOpen ? anon : await admit(request, address)
    const worker = await starting.catch((error: Error) => {
      options.onFailure(address.name, error.message)
      throw error instanceof StartFailed ? bootFailed() : error
    })
    const headers = forwarded(request, {
      'x-platform-project-id': options.projectId,
      'x-platform-function': address.name,
      'x-platform-function-version': '0',
      'x-platform-request-id': requestId,
      'x-platform-role': caller.role,
      ...(caller.userId !== '' && { 'x-platform-user-id': caller.userId }),
      'x-platform-entry': worker.entry,
      'x-platform-url': `${origin}${address.target}`,
      'x-platform-client-address': request.socket.remoteAddress ?? '',
      // The platform knows from the deployment whether a function imports modules of Node. Here it is not known.
      'x-platform-uses-node': '1',
    })
    return { address, worker, headers }
  }

  async function admit(request: IncomingMessage, { query }: Address): Promise<Caller> {
    const caller = await options.admit(request.headers, query).catch((error: Error) => {
      throw new Refused(503, 'WORKER_ERROR', `The credentials could not be checked: ${error.message}`)
    })
    if (caller) return caller
    throw new Refused(
      401,
      'unauthorized',
      'This function needs the token of a user or the service_role key; plinth functions serve --no-verify-jwt needs none',
    )
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID()
    const startedAt = performance.now()
    response.setHeader('x-request-id', requestId)
    response.once('close', () =>
      options.onAnswered({
        name: addressIn(request.url ?? '/').name,
        method: request.method ?? '',
        // Without the query, which may have a token.
        path: request.url?.split('?')[0] ?? '',
        status: response.headersSent ? response.statusCode : clientClosed,
        milliseconds: Math.round(performance.now() - startedAt),
        requestId,
      }),
    )
    try {
      const call = await prepare(request, requestId)
      await forward(call, request, response)
    } catch (error) {
      refuse(error, request, response)
    }
  }

  const server = createServer((request, response) => void answer(request, response))
  /** The server does not close connections that it has passed on. */
  const tunnels = new Set<Duplex>()
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => {})
    tunnels.add(socket)
    socket.once('close', () => tunnels.delete(socket))
    prepare(request, randomUUID()).then(
      call => tunnel(call, socket, head),
      error => socket.end(`HTTP/1.1 ${statusOf(error)} ${STATUS_CODES[statusOf(error)]}\r\n\r\n`),
    )
  })
  server.listen(options.port, '127.0.0.1')
  await once(server, 'listening')
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      for (const socket of tunnels) socket.destroy()
      await closed
    },
  }
}

/** The caller did not wait for the answer; nginx logs such calls with this status. */
const clientClosed = 499
/** Between the end of its connections and that of a process. */
const endMilliseconds = 1000
/** Locally a function may take as long as it wants. */
const longest = 2 ** 31 - 1
const anon: Caller = { role: 'anon', userId: '' }

const isPreflight = ({ method, headers }: IncomingMessage) =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

/** Resolves when the answer has begun. */
async function forward(
  { address, worker, headers }: Call,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const done = worker.begin()
  const head = { method: request.method ?? 'GET', target: address.target, headers: listed(headers) }
  const call = worker.link.call(head, hasBody(request) ? request : undefined, longest)
  const end = () => {
    done()
    call.cancel()
    // The rest of a body that the function does not read. Otherwise the caller cannot send its next request.
    request.resume()
  }
  // The caller may have left while the worker was started.
  if (response.closed) end()
  else response.once('close', end)
  const answer = await call.answer.catch(async () => {
    // If the worker has ended, the next call must find a new one.
    await Promise.race([worker.ended, sleep(endMilliseconds, undefined, { ref: false })])
    throw failed()
  })
  const { outcome, headers: answered } = returned(answer.headers)
  if (outcome !== undefined) throw outcome === 'boot' ? bootFailed() : failed()
  const { status } = answer
  const allows = answered['access-control-allow-origin'] !== undefined
  if (isPreflight(request) && !(status < 300 && allows))
    throw new Refused(status, 'NO_CORS', 'The function does not answer preflights')
  response.writeHead(status, { ...corsHeaders, ...answered })
  // So that a caller learns of an answer whose body begins later.
  response.flushHeaders()
  // Without an end of its own, if the worker has ended in the middle of the body.
  pipeline(bodyOf(answer), response).catch(() => response.destroy())
}

async function* bodyOf(answer: Answer): AsyncGenerator<Buffer> {
  if (answer.whole) yield answer.whole
  else
    for (let chunks = await answer.read(); chunks.length > 0; chunks = await answer.read())
      for (const chunk of chunks) yield chunk
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Passes the bytes of a WebSocket on in both directions. */
function tunnel(call: Call, socket: Duplex, head: Buffer): void {
  const done = call.worker.begin()
  const { socket: socketPath } = call.worker
  const headers = { ...call.headers, connection: 'Upgrade', upgrade: 'websocket' }
  const upstream = open({ socketPath, path: call.address.target, headers, agent: false })
  socket.once('close', () => {
    done()
    upstream.destroy()
  })
  const start = ({ statusCode = 502, rawHeaders }: IncomingMessage) => {
    const lines = rawHeaders.flatMap((name, at) =>
      at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1]}\r\n`] : [],
    )
    socket.write(
      `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? ''}\r\n${lines.join('')}\r\n`,
      'latin1',
    )
  }
  upstream.on('error', () => socket.destroy())
  upstream.once('upgrade', (reply, inner, first) => {
    start(reply)
    socket.write(first)
    inner.write(head)
    inner.on('error', () => socket.destroy())
    inner.once('close', () => socket.destroy())
    socket.once('close', () => inner.destroy())
    inner.pipe(socket)
    socket.pipe(inner)
  })
  upstream.once('response', reply => {
    start(reply)
    reply.pipe(socket)
  })
  upstream.end()
}

const bootFailed = () =>
  new Refused(503, 'BOOT_ERROR', 'The function could not be loaded; plinth functions serve prints the reason')
const failed = () =>
  new Refused(
    500,
    'WORKER_ERROR',
    'The function threw an error or ended its worker; plinth functions serve prints the reason',
  )

const statusOf = (error: unknown) => (error instanceof Refused ? error.status : 500)

/** The body has the fields of the data plane. Preflights succeed, so that a browser sends the call and sees its error. */
function refuse(error: unknown, request: IncomingMessage, response: ServerResponse): void {
  if (response.headersSent) return void response.destroy()
  if (isPreflight(request)) {
    response.writeHead(204, { ...corsHeaders, ...preflightHeaders(request.headers) })
    return void response.end()
  }
  const status = statusOf(error)
  const { message } = error as Error
  const code = error instanceof Refused ? error.code : 'internal_error'
  response.writeHead(status, { ...corsHeaders, 'content-type': 'application/json' })
  response.end(JSON.stringify({ code, message, error: message, statusCode: status, details: '', hint: '' }))
}
