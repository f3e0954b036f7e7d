// From the one row Postgres answers with to an HTTP reply. The body is passed on as it came.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { isHeader } from './database-refusal.ts'
import { appliedHeader } from './preferences.ts'
import type { RestRequest } from './request.ts'

export const numberIn = (cell: Cell | undefined): number | undefined =>
  cell ? Number(cell.toString('latin1')) : undefined

/** `0-9/100`, `0-9/*`, `*\/0`: the page, and how many rows there are in all if that is known. */
export function contentRange(offset: number, count: number, total: number | undefined): string {
  const page = count > 0 ? `${offset}-${offset + count - 1}` : '*'
  return `${page}/${total ?? '*'}`
}

const smallBytes = 8192

/** A small text leaves together with its headers in one write; a large one is not copied. */
export const textOf = (cell: Buffer): Buffer | string => (cell.length <= smallBytes ? cell.toString() : cell)

export interface ReplyParts {
  status: number
  range: string
  /** Preferences that mean something to this kind of request. */
  meant: readonly string[]
  body: RawReply['body']
  headers?: Record<string, string>
}

export function reply(request: RestRequest, { status, range, meant, body, headers }: ReplyParts): RawReply {
  const { accepted, preferences, schema, caller } = request
  const all: Record<string, string> = { 'content-range': range, ...headers }
  if (body !== null) all['content-type'] = accepted.contentType
  if (request.isRead) all['accept-ranges'] = 'items'
  if (caller.tenant.exposedSchemas.length > 1 && isHeader('content-profile', schema))
    all['content-profile'] = schema
  if (preferences.sent.size > 0) {
    const applied = appliedHeader(preferences, meant)
    if (applied) all['preference-applied'] = applied
  }
  return { status, headers: all, body }
}

/** A plan: the lines Postgres prints, or its JSON. */
export const planReply = (request: RestRequest, rows: readonly (readonly Cell[])[]): RawReply => ({
  status: 200,
  headers: { 'content-type': request.accepted.contentType },
  body: rows.map(([line]) => line?.toString() ?? '').join('\n'),
})

/** What functions and triggers have set: `response.headers` as a JSON list of objects, `response.status`. */
export function ownResponse(
  headersCell: Cell | undefined,
  statusCell: Cell | undefined,
): { status?: number; headers: Record<string, string> } {
  const status = statusCell?.length ? statusFrom(statusCell.toString('utf8', 0, longestStatus)) : undefined
  const headers = headersCell?.length ? headersFrom(headersCell) : {}
  return { ...(status !== undefined && { status }), headers }
}

const longestStatus = 10
/** Clients refuse answers with larger headers. */
const longestHeaders = 32 * 1024

function statusFrom(text: string): number {
  const status = Number(text)
  if (Number.isInteger(status) && status >= 200 && status < 600) return status
  throw new Refusal('PGRST112', 'response.status guc must be a valid status code')
}

function headersFrom(cell: Buffer): Record<string, string> {
  try {
    if (cell.length > longestHeaders) throw new Error('too long')
    const list = JSON.parse(cell.toString()) as unknown
    if (!Array.isArray(list)) throw new Error('not a list')
    const headers: Record<string, string> = {}
    for (const each of list as Record<string, unknown>[])
      for (const [name, value] of Object.entries(each)) {
        if (typeof value !== 'string' || !isHeader(name, value)) throw new Error('not a header')
        headers[name.toLowerCase()] = value
      }
    return headers
  } catch {
    throw new Refusal(
      'PGRST111',
      'response.headers guc must be a JSON array composed of objects with a single key and a string value',
    )
  }
}
