// Sends one request of the contract. The compiler checks method, path, input and reply against the declaration of the route,
// so the contract is not needed at run time.
import type { DataRoute, Input, Reply } from '@plinth/contract/route.ts'
import { PlinthError } from './error.ts'
import type { CallOptions, Result } from './result.ts'

type Given<T> = { [K in keyof T as T[K] extends undefined ? never : K]: T[K] }
/** The project is part of the client's URL. */
type WithoutProject<T> = T extends { params: infer P }
  ? Omit<T, 'params'> & (Exclude<keyof P, 'project'> extends never ? unknown : { params: Omit<P, 'project'> })
  : T
type RequestInput<R extends DataRoute> = WithoutProject<Given<Input<R>>> &
  CallOptions & {
    /** Parses the text of the answer if JSON.parse would lose precision. */
    parse?: (text: string) => Reply<R>
  }

/** @internal */
export type Send = <R extends DataRoute>(
  method: R['method'],
  path: R['path'],
  input: RequestInput<R>,
) => Promise<Result<Reply<R>>>

interface LooseInput extends CallOptions {
  params?: Record<string, unknown>
  query?: object
  body?: unknown
  parse?: (text: string) => unknown
}

interface GlobalOptions {
  fetch?: typeof fetch
  headers?: Record<string, string>
}

/** Node rejects request headers over 16 KiB, and proxies may have a lower limit. */
const maxEncodedLength = 6000

/**
 * Whether the text can be a path segment of a URL. URL parsers remove `.` and `..`, even if encoded.
 * @internal
 */
export function fitsPath(segment: string): boolean {
  if (segment === '' || segment === '.' || segment === '..') return false
  return segment.isWellFormed() && encodeURIComponent(segment).length <= maxEncodedLength
}

/** @internal */
export function createTransport(projectUrl: string, key: string, global: GlobalOptions = {}): Send {
  const base = projectUrl.trim().replace(/\/+$/, '')

  async function send(method: string, path: string, input: LooseInput): Promise<Result<unknown>> {
    const request = buildRequest(base, method, path, input)
    if (request instanceof PlinthError) return { data: null, error: request }
    try {
      const doFetch = global.fetch ?? fetch
      const reply = await doFetch(request.url, {
        ...request.init,
        headers: buildHeaders(global.headers, key, request.init.body),
      })
      return readAnswer(reply, await reply.text(), input.parse ?? JSON.parse)
    } catch (error) {
      return { data: null, error: connectionError(error, base, input.signal) }
    }
  }
  return send as Send
}

function buildRequest(
  base: string,
  method: string,
  path: string,
  { params = {}, query = {}, body, signal }: LooseInput,
): { url: string; init: RequestInit } | PlinthError {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value))
  const invalid =
    Object.values(params).find(value => !fitsPath(String(value))) ??
    Object.values(query).find(value => !String(value).isWellFormed())
  if (invalid !== undefined)
    return new PlinthError(`Not possible in a URL: ${JSON.stringify(invalid).slice(0, 100)}`, {
      code: 'invalid_argument',
      hint: 'A name in a URL must be well-formed Unicode, not empty, not . or .., and at most 6000 characters when encoded.',
    })
  const init: RequestInit = { method }
  if (signal) init.signal = signal
  if (body !== undefined)
    try {
      init.body = JSON.stringify(body)
    } catch (cause) {
      return new PlinthError(`The arguments cannot be encoded as JSON: ${messageOf(cause)}`, {
        code: 'invalid_argument',
        cause,
      })
    }
  const address = path
    .replace(/^\/(\w+)\/\{project\}/, '/$1/v1')
    .replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  return { url: `${base}${address}?${search}`.replace(/\?$/, ''), init }
}

/** Uses the key and not the session of a signed-in user, because these services are for the project's servers. */
function buildHeaders(given: Record<string, string> | undefined, key: string, body: unknown) {
  const headers = new Headers(given)
  headers.set('apikey', key)
  headers.set('authorization', `Bearer ${key}`)
  if (body !== undefined) headers.set('content-type', 'application/json')
  return Object.fromEntries(headers)
}

function readAnswer(reply: Response, text: string, parse: (text: string) => unknown): Result<unknown> {
  if (!reply.ok) return { data: null, error: platformError(reply, text) }
  if (text === '') return { data: null, error: null }
  try {
    return { data: parse(text), error: null }
  } catch {
    return { data: null, error: unexpectedAnswer(reply, text) }
  }
}

function platformError(reply: Response, text: string): PlinthError {
  const body = parseObject(text)
  const { code, message, hint, details } = body
  if (typeof code !== 'string' || typeof message !== 'string') return unexpectedAnswer(reply, text)
  return new PlinthError(message, {
    code,
    status: reply.status,
    hint: typeof hint === 'string' ? hint : '',
    details: typeof details === 'string' ? details : '',
    requestId: reply.headers.get('x-request-id'),
  })
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

const unexpectedAnswer = (reply: Response, text: string) =>
  new PlinthError(`The answer with status ${reply.status} does not come from Plinth`, {
    code: 'unexpected_answer',
    status: reply.status,
    hint: 'Check the URL of the client, and any proxy in between.',
    details: text.slice(0, 500),
    requestId: reply.headers.get('x-request-id'),
  })

function connectionError(cause: unknown, base: string, signal: AbortSignal | undefined): PlinthError {
  if (signal?.aborted)
    return new PlinthError(`The call was aborted: ${messageOf(signal.reason)}`, {
      code: 'request_aborted',
      cause,
    })
  // The message of fetch is "fetch failed"; the reason is in its cause.
  const why = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause
  return new PlinthError(`No answer from ${base}: ${messageOf(why)}`, {
    code: 'network_error',
    details: String(Object(why).code ?? ''),
    cause,
  })
}

/** An AggregateError of several connection attempts has a code but no message. */
const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message || String(Object(thrown).code ?? thrown.name) : String(thrown)
