// The headers of a call on the way to the worker, and those of the answer on the way back.

import type { AnswerHead } from '@plinth/runtime/client/linked-call.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import { traceIdOf } from '#src/kernel/http/trace-context.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { FunctionRow } from './store.ts'

/** Of one connection, or set by the platform. */
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
  'x-forwarded-for',
])
/** Forwarded only if the trace is valid. */
const traceHeaders = new Set(['traceparent', 'tracestate'])
/** The platform knows them better. */
const notReturned = new Set(['content-length', 'date'])
const ownPrefix = 'x-platform-'

interface Call {
  request: Pick<RawRequest, 'headers' | 'path' | 'search' | 'id' | 'ip'>
  caller: Caller
  row: FunctionRow
  /** The URL of the module. */
  entry: string
  baseUrl: string
  /** For an upgrade: these are of the connection, but part of the handshake. */
  keep?: readonly string[]
}

/** The path that a function sees is `/<name>/<rest>`, whatever address was called. */
export function requestHeaders({ request, caller, row, entry, baseUrl, keep = [] }: Call): {
  target: string
  headers: string[]
} {
  const { ip } = request
  const target = `/${row.name}${restOf(request.path)}${request.search === '' ? '' : `?${request.search}`}`
  const headers: string[] = []
  const given = request.headers
  const hasTrace = traceIdOf(given['traceparent']) !== null
  for (const name in given) {
    const value = given[name]
    if (value === undefined || name.startsWith(ownPrefix)) continue
    if (notForwarded.has(name) && !keep.includes(name)) continue
    if (!hasTrace && traceHeaders.has(name)) continue
    if (typeof value === 'string') headers.push(name, value)
    else for (const each of value) headers.push(name, each)
  }
  if (given.host === undefined) headers.push('host', 'platform')
  headers.push('x-forwarded-for', ip)
  headers.push('x-platform-project-id', caller.tenant.id)
  headers.push('x-platform-function', row.name)
  headers.push('x-platform-function-version', String(row.version))
  headers.push('x-platform-request-id', request.id)
  headers.push('x-platform-role', caller.role)
  if (caller.userId !== '') headers.push('x-platform-user-id', caller.userId)
  headers.push('x-platform-entry', entry)
  headers.push('x-platform-url', `${originOf(baseUrl)}${target}`)
  headers.push('x-platform-client-address', ip)
  if (row.uses_node) headers.push('x-platform-uses-node', '1')
  return { target, headers }
}

let latestOrigin = { baseUrl: '', origin: '' }

/** Parsed once, because the URL of the platform does not change. */
function originOf(baseUrl: string): string {
  if (latestOrigin.baseUrl !== baseUrl) latestOrigin = { baseUrl, origin: new URL(baseUrl).origin }
  return latestOrigin.origin
}

/** What follows the name of the function: `/v1/functions/<project>/<name>/…` or `/v1/<project>/functions/v1/<name>/…` */
function restOf(path: string): string {
  const parts = path.split('/')
  const at = parts[2] === 'functions' ? 5 : 6
  return parts.length > at ? `/${parts.slice(at).join('/')}` : ''
}

/** `outcome` is set if the worker itself has failed. */
export function answerHeaders({ status, headers }: AnswerHead): {
  status: number
  headers: Record<string, string | string[]>
  outcome: string | undefined
} {
  const result: Record<string, string | string[]> = Object.create(null)
  const cookies: string[] = []
  let outcome: string | undefined
  for (let at = 0; at < headers.length; at += 2) {
    const [name, value] = [headers[at]!, headers[at + 1]!]
    if (name === 'x-platform-outcome') outcome = value
    if (notForwarded.has(name) || notReturned.has(name) || name.startsWith(ownPrefix)) continue
    const before = result[name]
    if (name === 'set-cookie') cookies.push(value)
    else result[name] = before === undefined ? value : `${before}, ${value}`
  }
  if (cookies.length > 0) result['set-cookie'] = cookies
  return { status, headers: result, outcome }
}
