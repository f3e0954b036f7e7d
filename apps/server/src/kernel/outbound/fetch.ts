// HTTP calls whose target somebody else has named (a provider, a webhook). The name is looked up once and the
// connection goes to the address that was judged, so a second answer of the DNS changes nothing. Redirects are
// answers, not orders; time and bytes are bounded; nothing compressed is taken; no proxy of the environment is used.
import { lookup as systemLookup } from 'node:dns/promises'
import { Agent as HttpAgent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { Agent as HttpsAgent, request as requestTls } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { mayReach } from './address.ts'

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

export type OutboundReason =
  | 'bad_url'
  | 'address_not_allowed'
  | 'name_not_found'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'compressed'
  | 'aborted'

/** Why there is no answer. The message is for the log: a tenant who could read it would have a port scanner. */
export class OutboundError extends Error {
  readonly reason: OutboundReason
  constructor(reason: OutboundReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'OutboundError'
    this.reason = reason
  }
}

export interface Address {
  address: string
  family: number
}
export interface Outbound {
  /** Whether a URL could be called now, for a form that stores it; the call judges it again. */
  check(url: string): Promise<void>
  fetch(request: OutboundRequest): Promise<OutboundAnswer>
}

interface OutboundOptions {
  /** Addresses and CIDRs that may be reached although they are not public. */
  allow: readonly string[]
  /** All addresses of a name; the system's own look-up unless given. */
  resolve?(name: string): Promise<readonly Address[]>
}

const defaultTimeoutMs = 10_000
const defaultMaxBytes = 1024 * 1024
const maxUrlLength = 8192

interface Target {
  url: URL
  /** Every one of them was judged. */
  addresses: readonly Address[]
}

export function createOutbound({ allow, resolve = systemAddresses }: OutboundOptions): Outbound {
  const isAllowed = mayReach(allow)

  async function target(given: string): Promise<Target> {
    const url = parse(given)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const family = isIP(host)
    const addresses = family === 0 ? await addressesOf(host) : [{ address: host, family }]
    const wrong = addresses.find(({ address }) => !isAllowed(address))
    if (wrong) throw new OutboundError('address_not_allowed', `${host} is at ${wrong.address}`)
    return { url, addresses }
  }

  async function addressesOf(name: string): Promise<readonly Address[]> {
    const found = await resolve(name).catch(error => {
      throw new OutboundError('name_not_found', `${name} has no address`, error)
    })
    if (found.length === 0) throw new OutboundError('name_not_found', `${name} has no address`)
    return found
  }

  return {
    check: async url => void (await within(defaultTimeoutMs, undefined, () => target(url))),
    fetch: asked =>
      within(asked.timeoutMs ?? defaultTimeoutMs, asked.signal, async signal =>
        send(asked, await target(asked.url), signal),
      ),
  }
}

function parse(given: string): URL {
  if (given.length > maxUrlLength || !URL.canParse(given))
    throw new OutboundError('bad_url', 'The target is not a URL')
  // Reading it also takes apart 127.1, 0x7f000001 and full-width dots: what follows sees the address they mean.
  const url = new URL(given)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new OutboundError('bad_url', `${url.protocol} is not called`)
  if (url.username !== '' || url.password !== '')
    throw new OutboundError('bad_url', 'The target holds a user name or password')
  return url
}

const systemAddresses = (name: string): Promise<readonly Address[]> => systemLookup(name, { all: true })

/** One clock over everything; what is still running when it ends is cut off. */
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
    // A look-up cannot be cut off: whoever waits for it can.
    const ended = new Promise<never>((_, reject) => {
      const end = () => reject(cut.signal.reason)
      if (cut.signal.aborted) end()
      else cut.signal.addEventListener('abort', end, { once: true })
    })
    return await Promise.race([ended, work(cut.signal)])
  } finally {
    clearTimeout(clock)
    signal?.removeEventListener('abort', giveUp)
  }
}

// Agents of our own: the global ones may have been told to go through a proxy, and keep connections for others.
const agents = {
  'http:': new HttpAgent({ keepAlive: false }),
  'https:': new HttpsAgent({ keepAlive: false }),
}

function send(
  asked: OutboundRequest,
  { url, addresses }: Target,
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
        hostname: url.hostname.replace(/^\[|\]$/g, ''),
        port: url.port || (isTls ? 443 : 80),
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
        agent: agents[url.protocol as keyof typeof agents],
        lookup: pinnedTo(addresses),
        signal,
      })
      call.on('error', fail)
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

/** Answers every look-up of the connection with what was judged before. */
const pinnedTo =
  (addresses: readonly Address[]): LookupFunction =>
  (_name, { all }, done) => {
    const [first] = addresses
    if (all) done(null, [...addresses])
    else done(null, first!.address, first!.family)
  }

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
  }
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) }
}
