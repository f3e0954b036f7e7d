// The address and the headers of a call on its way to a local function and back.
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http'

export interface Address {
  name: string
  /** What the function sees: `/<name>/<rest>?<query>`. */
  target: string
  query: URLSearchParams
}

/** `/functions/v1/<name>/<rest>` or `/<name>/<rest>`. */
export function addressIn(url: string): Address {
  const [path = '', ...search] = url.split('?')
  const own = path.replace(/^\/functions\/v1(?=\/|$)/, '') || '/'
  const query = search.join('?')
  return {
    name: own.split('/')[1] ?? '',
    target: `${own}${search.length > 0 ? `?${query}` : ''}`,
    query: new URLSearchParams(query),
  }
}

/** Of one connection. */
const notForwarded = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
])
/** Of an answer, whose connection is another one. */
const notReturned = new Set(['content-length', 'date'])
const ownPrefix = 'x-platform-'

export function forwarded(
  { headers }: Pick<IncomingMessage, 'headers'>,
  own: Record<string, string>,
): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(
    (entry): entry is [string, string | string[]] =>
      entry[1] !== undefined && !notForwarded.has(entry[0]) && !entry[0].startsWith(ownPrefix),
  )
  return { ...Object.fromEntries(kept), 'x-forwarded-for': own['x-platform-client-address'] ?? '', ...own }
}

/** Names and values, alternating, as a worker gets and sends them. */
export const listed = (headers: Record<string, string | string[]>): string[] =>
  Object.entries(headers).flatMap(([name, value]) => [value].flat().flatMap(each => [name, each]))

/** `outcome` is set if the host program answers instead of the function. */
export function returned(alternating: readonly string[]): {
  outcome: string | undefined
  headers: OutgoingHttpHeaders
} {
  const headers: Record<string, string[]> = Object.create(null)
  let outcome: string | undefined
  for (let at = 0; at < alternating.length; at += 2) {
    const [name, value] = [alternating[at]!, alternating[at + 1]!]
    if (name === 'x-platform-outcome') outcome = value
    if (notForwarded.has(name) || notReturned.has(name) || name.startsWith(ownPrefix)) continue
    const values = headers[name] ?? []
    headers[name] = values
    values.push(value)
  }
  return { outcome, headers }
}

/** As on the platform, any origin may call. */
export const corsHeaders = { 'access-control-allow-origin': '*' }

export const preflightHeaders = (headers: IncomingHttpHeaders): OutgoingHttpHeaders => ({
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  'access-control-allow-headers':
    headers['access-control-request-headers'] ?? 'authorization, apikey, content-type, x-client-info',
  vary: 'Access-Control-Request-Headers',
})
