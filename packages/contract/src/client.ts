// Builds a typed client from a route table.
import { type Input, prefix, type Reply, type Route, type Routes } from './route.ts'

type Given<T> = { [K in keyof T as T[K] extends undefined ? never : K]: T[K] }
type Call<R extends Route> = keyof Given<Input<R>> extends never
  ? (input?: Record<string, never>, signal?: AbortSignal) => Promise<Reply<R>>
  : (input: Given<Input<R>>, signal?: AbortSignal) => Promise<Reply<R>>
export type Client<T extends Routes> = { [K in keyof T]: Call<T[K]> }

export interface ClientOptions {
  baseUrl: string
  /** Sent as `Authorization: Bearer` if present. */
  token?: string | undefined
  headers?: Record<string, string>
  /** Called with every response before its body is read. The CLI compares versions there. */
  onReply?: (reply: Response) => void
}

/** A non-2xx response with its body. */
export class ReplyError extends Error {
  readonly status: number
  readonly code: string
  readonly body: unknown
  readonly requestId: string | null
  constructor(status: number, body: unknown, requestId: string | null) {
    const { message, code } = errorFields(body)
    super(message ?? `the server answered ${status}`)
    this.name = 'ReplyError'
    this.status = status
    this.code = code ?? 'unknown'
    this.body = body
    this.requestId = requestId
  }
}

export function client<T extends Routes>(routes: T, options: ClientOptions): Client<T> {
  const calls = Object.entries(routes).map(([name, route]) => [
    name,
    (input: LooseInput = {}, signal?: AbortSignal) => call(route, input, options, signal),
  ])
  return Object.fromEntries(calls)
}

interface LooseInput {
  params?: Record<string, unknown>
  query?: Record<string, unknown>
  body?: unknown
}

async function call(
  route: Route,
  input: LooseInput,
  options: ClientOptions,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const headers: Record<string, string> = { ...options.headers }
  if (options.token) headers['authorization'] = `Bearer ${options.token}`
  const init: RequestInit = { method: route.method, headers, ...(signal && { signal }) }
  if (input.body !== undefined) {
    headers['content-type'] = 'application/json'
    init.body = JSON.stringify(input.body)
  }
  const reply = await fetch(url(route, input, options.baseUrl), init)
  options.onReply?.(reply)
  const text = await reply.text()
  const isJson = reply.headers.get('content-type')?.includes('json') ?? false
  const body = isJson && text !== '' ? JSON.parse(text) : text === '' ? undefined : text
  if (!reply.ok) throw new ReplyError(reply.status, body, reply.headers.get('x-request-id'))
  return body
}

function url(route: Route, input: LooseInput, baseUrl: string): string {
  const path = route.path.replace(/\{(\w+)\}/g, (_, key: string) =>
    encodeURIComponent(String(input.params?.[key])),
  )
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(input.query ?? {}))
    if (value !== undefined && value !== null) query.set(key, String(value))
  return `${baseUrl.replace(/\/$/, '')}${prefix(route)}${path}${query.size > 0 ? `?${query}` : ''}`
}

function errorFields(body: unknown): { message?: string; code?: string } {
  if (typeof body !== 'object' || body === null) return {}
  const error = 'error' in body && typeof body.error === 'object' && body.error !== null ? body.error : body
  return {
    ...('message' in error && typeof error.message === 'string' && { message: error.message }),
    ...('code' in error && typeof error.code === 'string' && { code: error.code }),
  }
}
