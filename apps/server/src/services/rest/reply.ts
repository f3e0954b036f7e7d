// HTTP replies. The text that Postgres made becomes the body unchanged.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { Media } from './accept.ts'
import type { Pair } from './grammar/scan.ts'
import { bytesFrom, isBinary } from './media.ts'
import { appliedHeader } from './preferences.ts'
import { isHeader } from './refusal.ts'
import type { RestRequest } from './request.ts'

/** Settings with which functions and triggers set headers and the status of the reply. */
export const responseSettings = ['response.headers', 'response.status']

/** The page and the total number of rows, if it is known: `0-9/100`, `0-9/*`, `*\/0`. */
export function contentRange(offset: number, count: number, total: number | undefined): string {
  const page = count > 0 ? `${offset}-${offset + count - 1}` : '*'
  return `${page}/${total ?? '*'}`
}

/** Not a promise unless bytes must be decoded. */
export const bodyOf = (cell: Buffer, media: Media): Buffer | Promise<Buffer> =>
  isBinary(media) ? inSlices(bytesFrom(cell)) : cell

export interface ReplyParts {
  status: number
  range: string
  /** Preferences that apply to this kind of request. */
  appliedPreferences: readonly string[]
  media: Media
  body: RawReply['body']
  headers?: Record<string, string>
}

export function reply(request: RestRequest, parts: ReplyParts): RawReply {
  const { status, range, appliedPreferences, media, body, headers } = parts
  const { preferences, schema, caller } = request
  const all: Record<string, string> = { 'content-range': range, ...headers }
  if (body !== null || (request.isHead && status !== 204)) all['content-type'] ??= media.contentType
  if (media.form.kind === 'handled' || media.form.kind === 'value') keepInert(all)
  if (request.isRead) all['accept-ranges'] = 'items'
  if (caller.tenant.exposedSchemas.length > 1 && isHeader('content-profile', schema))
    all['content-profile'] = schema
  if (preferences.sent.size > 0) {
    const applied = appliedHeader(preferences, appliedPreferences)
    if (applied) all['preference-applied'] = applied
  }
  return { status, headers: all, body }
}

/** What a project's SQL writes may be HTML. A function can replace these headers with its own. */
function keepInert(headers: Record<string, string>): void {
  headers['x-content-type-options'] ??= 'nosniff'
  headers['content-security-policy'] ??= 'sandbox'
}

/** Longer queries have no Content-Location: clients refuse answers with large headers. */
const longestLocation = 2048

/** The address of what was read, with its parameters sorted, as PostgREST writes it. */
export function locationHeaders({ raw, pairs, facts }: RestRequest): Record<string, string> {
  if (raw.search.length > longestLocation) return {}
  let location = facts.path
  let separator = '?'
  for (const { key, value } of pairs.length > 1 ? pairs.toSorted(byKey) : pairs) {
    location += `${separator}${encoded(key)}=${encoded(value)}`
    separator = '&'
  }
  return { 'content-location': location }
}

const byKey = (a: Pair, b: Pair): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)

const maxEncoded = 1000
const longestEncoded = 200
const alreadyEncoded = new Map<string, string>()

/** Cached, since the same parameter names and selects come with every request. */
function encoded(text: string): string {
  if (!/[^\w.~-]/.test(text)) return text
  const known = alreadyEncoded.get(text)
  if (known !== undefined) return known
  const made = encodeURIComponent(text).replace(
    /[!'()*]/g,
    each => `%${each.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  if (text.length > longestEncoded) return made
  if (alreadyEncoded.size >= maxEncoded) alreadyEncoded.clear()
  alreadyEncoded.set(text, made)
  return made
}

/** The result of EXPLAIN: lines of text, or JSON. */
export const planReply = ({ contentType }: Media, rows: readonly (readonly Cell[])[]): RawReply => ({
  status: 200,
  headers: { 'content-type': contentType },
  body: rows.map(([line]) => line?.toString() ?? '').join('\n'),
})

/** Reads `responseSettings`: headers as a JSON list of objects, and the status. */
export function responseIn([headersCell, statusCell]: readonly Cell[]): {
  status?: number
  headers: Record<string, string>
} {
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
