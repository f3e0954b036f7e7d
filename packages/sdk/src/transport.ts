// One request of the contract and its answer. Method, path, input and reply are checked against the route's
// declaration by the compiler, so nothing of the contract is needed when this runs.
import type { DataRoute, Input, Reply } from '@plinth/contract/route.ts'
import { PlinthError } from './error.ts'
import type { CallOptions, Result } from './result.ts'

type Given<T> = { [K in keyof T as T[K] extends undefined ? never : K]: T[K] }
/** The project is part of the client's URL. */
type WithoutProject<T> = T extends { params: infer P }
  ? Omit<T, 'params'> & (Exclude<keyof P, 'project'> extends never ? unknown : { params: Omit<P, 'project'> })
  : T
type Wanted<R extends DataRoute> = WithoutProject<Given<Input<R>>> &
  CallOptions & {
    /** How to read the text of the answer, where JSON.parse would lose something. */
    parse?: (text: string) => Reply<R>
  }

/** @internal */
export type Send = <R extends DataRoute>(
  method: R['method'],
  path: R['path'],
  input: Wanted<R>,
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

/** Node refuses request heads of more than 16 KiB, and proxies may take less. */
const maxEncodedLength = 6000

/**
 * Whether a URL path can carry this as one of its segments: URLs lose `.` and `..`, whatever their encoding.
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
    const made = requestOf(base, method, path, input)
    if (made instanceof PlinthError) return { data: null, error: made }
    try {
      const doFetch = global.fetch ?? fetch
      const reply = await doFetch(made.url, {
        ...made.init,
        headers: headersOf(global.headers, key, made.init.body),
      })
      return readAnswer(reply, await reply.text(), input.parse ?? JSON.parse)
    } catch (error) {
      return { data: null, error: noAnswer(error, base, input.signal) }
    }
  }
  return send as Send
}

function requestOf(
  base: string,
  method: string,
  path: string,
  { params = {}, query = {}, body, signal }: LooseInput,
): { url: string; init: RequestInit } | PlinthError {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value))
  const lost =
    Object.values(params).find(value => !fitsPath(String(value))) ??
    Object.values(query).find(value => !String(value).isWellFormed())
  if (lost !== undefined)
    return new PlinthError(`A URL cannot carry ${JSON.stringify(lost).slice(0, 100)}`, {
      code: 'invalid_argument',
      hint: 'A name in a URL is not empty, not . or .., well-formed Unicode, and not thousands of characters long.',
    })
  const init: RequestInit = { method }
  if (signal) init.signal = signal
  if (body !== undefined)
    try {
      init.body = JSON.stringify(body)
    } catch (cause) {
      return new PlinthError(`What is to be sent is not JSON: ${messageOf(cause)}`, {
        code: 'invalid_argument',
        cause,
      })
    }
  const address = path
    .replace(/^\/(\w+)\/\{project\}/, '/$1/v1')
    .replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  return { url: `${base}${address}?${search}`.replace(/\?$/, ''), init }
}

/** The key decides, not the session of a signed-in user: these services are for the project's own servers. */
function headersOf(given: Record<string, string> | undefined, key: string, body: unknown) {
  const headers = new Headers(given)
  headers.set('apikey', key)
  headers.set('authorization', `Bearer ${key}`)
  if (body !== undefined) headers.set('content-type', 'application/json')
  return Object.fromEntries(headers)
}

function readAnswer(reply: Response, text: string, parse: (text: string) => unknown): Result<unknown> {
  if (!reply.ok) return { data: null, error: refusal(reply, text) }
  if (text === '') return { data: null, error: null }
  try {
    return { data: parse(text), error: null }
  } catch {
    return { data: null, error: strangeAnswer(reply, text) }
  }
}

function refusal(reply: Response, text: string): PlinthError {
  const body = objectIn(text)
  const { code, message, hint, details } = body
  if (typeof code !== 'string' || typeof message !== 'string') return strangeAnswer(reply, text)
  return new PlinthError(message, {
    code,
    status: reply.status,
    hint: typeof hint === 'string' ? hint : '',
    details: typeof details === 'string' ? details : '',
    requestId: reply.headers.get('x-request-id'),
  })
}

function objectIn(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

const strangeAnswer = (reply: Response, text: string) =>
  new PlinthError(`The answer, with status ${reply.status}, is not one of Plinth`, {
    code: 'unexpected_answer',
    status: reply.status,
    hint: 'Check the URL of the client, and any proxy in between.',
    details: text.slice(0, 500),
    requestId: reply.headers.get('x-request-id'),
  })

function noAnswer(cause: unknown, base: string, signal: AbortSignal | undefined): PlinthError {
  if (signal?.aborted)
    return new PlinthError(`The call was aborted: ${messageOf(signal.reason)}`, {
      code: 'request_aborted',
      cause,
    })
  // fetch says "fetch failed", and why only in its cause.
  const why = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause
  return new PlinthError(`No answer from ${base}: ${messageOf(why)}`, {
    code: 'network_error',
    details: String(Object(why).code ?? ''),
    cause,
  })
}

/** Several failed attempts at once have a code, but no message of their own. */
const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message || String(Object(thrown).code ?? thrown.name) : String(thrown)
