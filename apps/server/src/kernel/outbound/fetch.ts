// HTTP requests to a URL that a tenant has named (a provider, a webhook). connect.ts opens the connection, to public
// addresses only. Redirects are not followed. Time and bytes are limited. Compressed answers are rejected. Proxies in the
// environment are not used.
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { request as requestTls } from 'node:https'
import type { Socket } from 'node:net'
import { paceReading, piecesOfLength } from '#src/kernel/paced-reading.ts'
import { type Connector, OutboundError, startTls, untilAborted } from './connect.ts'
import { type HttpTarget, readTarget } from './target.ts'

export interface OutboundRequest {
  url: string
  method?: string
  headers?: Readonly<Record<string, string>>
  body?: string | Buffer
  /** From the DNS lookup to the last byte of the answer. */
  timeoutMs?: number
  /** Maximum size of the answer's body. */
  maxBytes?: number
  signal?: AbortSignal
}

export interface OutboundAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

export interface Outbound {
  /** Rejects if the URL may not be called. For a request that stores the URL; `fetch` checks it again. */
  check(url: string): Promise<void>
  fetch(request: OutboundRequest): Promise<OutboundAnswer>
}

const defaultTimeoutMs = 10_000
const defaultMaxBytes = 1024 * 1024

/** Chunks are concatenated when there are this many: many small buffers would take much more memory than their bytes. */
const maxChunks = 1024

/** A piece has at most 340 chunks of one byte. */
const pieces = piecesOfLength(2048)

export function createOutbound(connector: Connector): Outbound {
  return {
    check: async given =>
      void (await within(defaultTimeoutMs, undefined, signal =>
        untilAborted(connector.addressesOf(readTarget(given).host), signal),
      )),
    fetch: options =>
      within(options.timeoutMs ?? defaultTimeoutMs, options.signal, async signal => {
        const target = readTarget(options.url)
        const socket = await connector.connect({ host: target.host, port: target.port, signal })
        try {
          return await send(options, target, socket, signal)
        } finally {
          socket.destroy()
        }
      }),
  }
}

/** Applies one timeout to all steps, and aborts them when it expires. */
async function within<T>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const timer = setTimeout(
    () => controller.abort(new OutboundError('timeout', `No answer in ${timeoutMs} ms`)),
    timeoutMs,
  )
  const onAbort = () => controller.abort(new OutboundError('aborted', 'Aborted by the caller'))
  signal?.addEventListener('abort', onAbort, { once: true })
  if (signal?.aborted) onAbort()
  try {
    return await untilAborted(work(controller.signal), controller.signal)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
  }
}

function send(
  options: OutboundRequest,
  { url, isTls, host, path }: HttpTarget,
  socket: Socket,
  signal: AbortSignal,
): Promise<OutboundAnswer> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) =>
      reject(
        error instanceof OutboundError
          ? error
          : signal.aborted
            ? signal.reason
            : new OutboundError('unreachable', `The request to ${url.host} failed`, error),
      )
    try {
      signal.throwIfAborted()
      const call = (isTls ? requestTls : request)({
        protocol: url.protocol,
        path,
        method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
        headers: {
          'user-agent': 'Plinth',
          ...options.headers,
          host: url.host,
          'accept-encoding': 'identity',
          connection: 'close',
          ...(options.body !== undefined && { 'content-length': Buffer.byteLength(options.body) }),
        },
        // Without an agent: the global one may use a proxy, and would reuse the connection for other requests.
        createConnection: () => (isTls ? startTls(socket, host) : socket),
        signal,
      })
      call.on('error', fail)
      call.on('socket', used => paceReading(used, pieces))
      call.on('response', answer =>
        readAnswer(answer, options.maxBytes ?? defaultMaxBytes)
          .then(resolve, fail)
          .finally(() => call.destroy()),
      )
      call.end(options.body)
    } catch (error) {
      fail(error)
    }
  })
}

async function readAnswer(answer: IncomingMessage, maxBytes: number): Promise<OutboundAnswer> {
  const encoding = answer.headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity')
    throw new OutboundError('compressed', `The answer is compressed with ${encoding.slice(0, 40)}`)
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxBytes) throw new OutboundError('too_large', `The answer has more than ${maxBytes} bytes`)
    chunks.push(chunk)
    if (chunks.length === maxChunks) chunks.splice(0, maxChunks, Buffer.concat(chunks))
  }
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) }
}
