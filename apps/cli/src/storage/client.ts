// HTTP client for the storage API of one project. It does not use `fetch`, because bodies are streams of a known length.
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { ReplyError } from '@plinth/contract/client.ts'
import type { Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { openProject } from '../project.ts'

export interface Request {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'HEAD' | 'DELETE'
  /** Below `/v1/storage/<project>/`, encoded. */
  path: string
  headers?: Record<string, string | number>
  body?: string | AsyncIterable<Uint8Array>
  /** After this long without a byte the connection counts as cut. */
  idleMilliseconds?: number
  /** Replaces the signal of the client, for requests after an interruption. */
  signal?: AbortSignal
}

export interface StorageClient {
  /** Aborts every request. */
  signal: AbortSignal
  /** Rejects unless the status is 2xx. The caller reads the body. */
  send(request: Request): Promise<IncomingMessage>
  json<T>(request: Omit<Request, 'body'> & { body?: unknown }): Promise<T>
}

/** An error response of the data plane. */
export class Refused extends ReplyError {
  readonly retryAfterSeconds: number
  constructor(status: number, body: unknown, headers: IncomingHttpHeaders) {
    super(status, body, textOf(headers['x-request-id']))
    this.retryAfterSeconds = Number(headers['retry-after'] ?? 0) || 0
  }
}

const textOf = (header: string | string[] | undefined): string | null => header?.toString() ?? null

/** Uses the service_role key of the project. Reading it needs a token with admin scope, and the server audits it. */
export async function openStorage(context: Context): Promise<StorageClient> {
  const { platform, id } = await openProject(context)
  const { service_role_key } = await platform.projects.revealServiceRoleKey({ params: { id } })
  return clientFor(`${platform.target.connectUrl}/v1/storage/${id}/`, service_role_key, context)
}

async function clientFor(
  base: string,
  key: string,
  { screen, interruption, connections }: Context,
): Promise<StorageClient> {
  const { request: open, Agent } = base.startsWith('https:')
    ? await import('node:https')
    : await import('node:http')
  const agent = new Agent({ keepAlive: true })
  connections.add(agent)
  const signal = interruption()
  const send = async (request: Request): Promise<IncomingMessage> => {
    const { reply, abort } = await exchange(open, base + request.path, request, {
      agent,
      headers: { apikey: key, authorization: `Bearer ${key}`, ...request.headers },
      signal: request.signal ?? signal,
    })
    const status = reply.statusCode ?? 0
    screen.debug(
      `${status} ${request.method} ${base}${request.path} request id ${textOf(reply.headers['x-request-id']) ?? '-'}`,
    )
    if (status >= 200 && status < 300) return reply
    const error = errorIn(await text(reply).catch(() => ''))
    abort()
    throw new Refused(status, error, reply.headers)
  }
  return {
    signal,
    send,
    async json<T>({ body, ...request }: Omit<Request, 'body'> & { body?: unknown }) {
      const sent = body === undefined ? null : JSON.stringify(body)
      const reply = await send({
        ...request,
        ...(sent !== null && {
          body: sent,
          headers: {
            ...request.headers,
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(sent),
          },
        }),
      })
      return parse<T>(await text(reply), base)
    },
  }
}

type Open = (url: string, options: RequestOptions, onReply: (reply: IncomingMessage) => void) => ClientRequest

interface Exchange {
  reply: IncomingMessage
  /** Stops sending the body. */
  abort: () => void
}

function exchange(open: Open, url: string, sent: Request, options: RequestOptions): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    const request = open(url, { ...options, method: sent.method }, reply =>
      resolve({ reply, abort: () => !request.writableFinished && request.destroy() }),
    )
    request.on('error', reject)
    request.setTimeout(sent.idleMilliseconds ?? 300_000, () =>
      request.destroy(Object.assign(new Error('no data received before the timeout'), { code: 'ETIMEDOUT' })),
    )
    if (sent.body === undefined || typeof sent.body === 'string') request.end(sent.body)
    // An error of the body after the response has no effect, because the promise is settled by then.
    else pipeline(sent.body, request).catch(reject)
  })
}

/** Discards the body of a response. */
export function discardBody(reply: IncomingMessage): void {
  reply.on('error', () => {}).resume()
}

/** The body of an error response: JSON, or one line of text from TUS. */
function errorIn(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text)
    if (typeof body !== 'object' || body === null || 'code' in body) return body
    // Quota errors have their code in `error`.
    return 'error' in body && typeof body.error === 'string' ? { ...body, code: body.error } : body
  } catch {
    const line = text.trim()
    return line !== '' && line.length <= 300 && !line.startsWith('<') ? { message: line } : undefined
  }
}

function parse<T>(body: string, base: string): T {
  try {
    return JSON.parse(body) as T
  } catch (cause) {
    throw new Failure(
      'not_a_platform',
      `${base} answered, but it is not a Plinth platform.`,
      'Check the URL: plinth config show --origin shows where it comes from.',
      cause,
    )
  }
}
