// HTTP calls to a target that a tenant has named (a provider, a webhook). The connection is made by connect.ts, which
// reaches public addresses only. Redirects are not followed. Time and bytes are bounded. Compressed answers are
// refused. No proxy of the environment is used.
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { request as requestTls } from 'node:https'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { paceReading, piecesOfLength } from '#src/kernel/paced-reading.ts'
import { type Connector, OutboundError, untilAborted } from './connect.ts'

export interface OutboundRequest {
  url: string
  method?: string
  headers?: Readonly<Record<string, string>>
  body?: string | Buffer
  /** From the look-up of the name to the last byte of the answer. */
  timeoutMs?: number
  /** Of the answer's body. */
  maxBytes?: number
  signal?: AbortSignal
}

export interface OutboundAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

export interface Outbound {
  /** Rejects unless the URL could be called now, for a form that stores it; the call checks it again. */
  check(url: string): Promise<void>
  fetch(request: OutboundRequest): Promise<OutboundAnswer>
}

const defaultTimeoutMs = 10_000
const defaultMaxBytes = 1024 * 1024
const maxUrlLength = 8192

/** Bodies that come in many small chunks are joined now and then. */
const maxChunks = 1024

/** At most 340 chunks of one byte in each. */
const pieces = piecesOfLength(2048)

export function createOutbound(connector: Connector): Outbound {
  return {
    check: async given =>
      void (await within(defaultTimeoutMs, undefined, signal =>
        untilAborted(connector.addressesOf(hostOf(parse(given))), signal),
      )),
    fetch: asked =>
      within(asked.timeoutMs ?? defaultTimeoutMs, asked.signal, async signal => {
        const url = parse(asked.url)
        const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
        const socket = await connector.connect({ host: hostOf(url), port, signal })
        try {
          return await send(asked, url, socket, signal)
        } finally {
          socket.destroy()
        }
      }),
  }
}

const hostOf = (url: URL) => url.hostname.replace(/^\[|\]$/g, '')

function parse(given: string): URL {
  if (given.length > maxUrlLength || !URL.canParse(given))
    throw new OutboundError('bad_url', 'The target is not a URL')
  // The parser turns 127.1, 0x7f000001 and full-width dots into the address they mean.
  const url = new URL(given)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new OutboundError('bad_url', `${url.protocol} is not called`)
  if (url.username !== '' || url.password !== '')
    throw new OutboundError('bad_url', 'The target holds a user name or password')
  return url
}

/** One timeout over everything; what still runs when it ends is aborted. */
async function within<T>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const cut = new AbortController()
  const clock = setTimeout(
    () => cut.abort(new OutboundError('timeout', `No answer in ${timeoutMs} ms`)),
    timeoutMs,
  )
  const giveUp = () => cut.abort(new OutboundError('aborted', 'Given up by whoever asked'))
  signal?.addEventListener('abort', giveUp, { once: true })
  if (signal?.aborted) giveUp()
  try {
    return await untilAborted(work(cut.signal), cut.signal)
  } finally {
    clearTimeout(clock)
    signal?.removeEventListener('abort', giveUp)
  }
}

function send(
  asked: OutboundRequest,
  url: URL,
  socket: Socket,
  signal: AbortSignal,
): Promise<OutboundAnswer> {
  const isTls = url.protocol === 'https:'
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) =>
      reject(
        error instanceof OutboundError
          ? error
          : signal.aborted
            ? signal.reason
            : new OutboundError('unreachable', `${url.host} did not answer as it should`, error),
      )
    try {
      signal.throwIfAborted()
      const call = (isTls ? requestTls : request)({
        protocol: url.protocol,
        path: url.pathname + url.search,
        method: asked.method ?? (asked.body === undefined ? 'GET' : 'POST'),
        headers: {
          'user-agent': 'Plinth',
          ...asked.headers,
          host: url.host,
          'accept-encoding': 'identity',
          connection: 'close',
          ...(asked.body !== undefined && { 'content-length': Buffer.byteLength(asked.body) }),
        },
        // Without an agent: the global one may use a proxy, and keeps connections for others.
        createConnection: () => (isTls ? encrypted(socket, hostOf(url)) : socket),
        signal,
      })
      call.on('error', fail)
      call.on('socket', used => paceReading(used, pieces))
      call.on('response', answer =>
        readWhole(answer, asked.maxBytes ?? defaultMaxBytes)
          .then(resolve, fail)
          .finally(() => call.destroy()),
      )
      call.end(asked.body)
    } catch (error) {
      fail(error)
    }
  })
}

/** The certificate must be for the host, whichever address was connected to. */
const encrypted = (socket: Socket, host: string) =>
  connectTls({ socket, host, ...(isIP(host) === 0 && { servername: host }) })

async function readWhole(answer: IncomingMessage, maxBytes: number): Promise<OutboundAnswer> {
  const encoding = answer.headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity')
    throw new OutboundError('compressed', `The answer is compressed with ${encoding.slice(0, 40)}, unasked`)
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
