// HTTP to the files of one project. Not by `fetch`: bodies are streams of a known length here, both ways.
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { ReplyError } from '@plinth/contract/client.ts'
import type { Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { interruption } from '../interruption.ts'
import { connect } from '../platform.ts'
import { projectId } from '../project.ts'

export interface Request {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'HEAD' | 'DELETE'
  /** Below `/v1/storage/<project>/`, encoded. */
  path: string
  headers?: Record<string, string | number>
  body?: string | AsyncIterable<Uint8Array>
  /** After so long without a byte the connection counts as cut. */
  idleMilliseconds?: number
  /** Instead of the one of the wire, for what is sent after an interruption. */
  signal?: AbortSignal
}

export interface Wire {
  /** Ends every transfer. */
  signal: AbortSignal
  /** Rejects unless the answer is a 2xx; its body is the caller's to read. */
  send(request: Request): Promise<IncomingMessage>
  json<T>(request: Omit<Request, 'body'> & { body?: unknown }): Promise<T>
}

/** A refusal of the data plane. */
export class Refused extends ReplyError {
  readonly retryAfterSeconds: number
  constructor(status: number, body: unknown, headers: IncomingHttpHeaders) {
    super(status, body, textOf(headers['x-request-id']))
    this.retryAfterSeconds = Number(headers['retry-after'] ?? 0) || 0
  }
}

const textOf = (header: string | string[] | undefined): string | null => header?.toString() ?? null

/** With the project's service_role key, which the server lets a token with admin scope read, and audits. */
export async function openWire(context: Context): Promise<Wire> {
  const platform = connect(context)
  const id = await projectId(context, platform)
  const { service_role_key } = await platform.projects.revealServiceRoleKey({ params: { id } })
  return wireTo(`${platform.target.dial}/v1/storage/${id}/`, service_role_key, context)
}

async function wireTo(base: string, key: string, { screen }: Context): Promise<Wire> {
  const { request: open, Agent } = base.startsWith('https:')
    ? await import('node:https')
    : await import('node:http')
  const agent = new Agent({ keepAlive: true })
  const signal = interruption()
  const send = async (request: Request): Promise<IncomingMessage> => {
    const { reply, abandon } = await exchange(open, base + request.path, request, {
      agent,
      headers: { apikey: key, authorization: `Bearer ${key}`, ...request.headers },
      signal: request.signal ?? signal,
    })
    const status = reply.statusCode ?? 0
    screen.debug(
      `${status} ${request.method} ${base}${request.path} request id ${textOf(reply.headers['x-request-id']) ?? '-'}`,
    )
    if (status >= 200 && status < 300) return reply
    const said = wording(await text(reply).catch(() => ''))
    abandon()
    throw new Refused(status, said, reply.headers)
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
      return parsed<T>(await text(reply), base)
    },
  }
}

type Open = (
  url: string,
  options: RequestOptions,
  answered: (reply: IncomingMessage) => void,
) => ClientRequest

interface Exchange {
  reply: IncomingMessage
  /** What is left of a refused body is not sent. */
  abandon: () => void
}

function exchange(open: Open, url: string, sent: Request, options: RequestOptions): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    const request = open(url, { ...options, method: sent.method }, reply =>
      resolve({ reply, abandon: () => !request.writableFinished && request.destroy() }),
    )
    request.on('error', reject)
    request.setTimeout(sent.idleMilliseconds ?? 300_000, () =>
      request.destroy(Object.assign(new Error('no byte came for a while'), { code: 'ETIMEDOUT' })),
    )
    if (sent.body === undefined || typeof sent.body === 'string') request.end(sent.body)
    // Once there is an answer, what becomes of the body no longer matters: the promise is settled then.
    else pipeline(sent.body, request).catch(reject)
  })
}

/** Of an answer that only its head counts. */
export function dismiss(reply: IncomingMessage): void {
  reply.on('error', () => {}).resume()
}

/** As a refusal's body is read: JSON, or a line of text from TUS. */
function wording(said: string): unknown {
  try {
    const body: unknown = JSON.parse(said)
    if (typeof body !== 'object' || body === null || 'code' in body) return body
    // Of the quota only `error` is promised.
    return 'error' in body && typeof body.error === 'string' ? { ...body, code: body.error } : body
  } catch {
    const line = said.trim()
    return line !== '' && line.length <= 300 && !line.startsWith('<') ? { message: line } : undefined
  }
}

function parsed<T>(answer: string, base: string): T {
  try {
    return JSON.parse(answer) as T
  } catch (cause) {
    throw new Failure(
      'not_a_platform',
      `${base} answered, but not as a Plinth platform does.`,
      'Check the URL: plinth config show --origin says where it comes from.',
      cause,
    )
  }
}
