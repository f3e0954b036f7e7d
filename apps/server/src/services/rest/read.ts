// GET and HEAD on a table or view.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { answerFrom } from '#src/query/answer-sql.ts'
import type { Catalog } from '#src/query/catalog.ts'
import { sourceOf } from '#src/query/level.ts'
import { findRelation, planRows } from '#src/query/plan.ts'
import { type PlannedStatement, plannedStatement } from '#src/query/planned-statement.ts'
import { readSql, type Total } from '#src/query/read-sql.ts'
import { capRows, isByKey } from '#src/query/row-cap.ts'
import type { Run } from '#src/query/run.ts'
import type { Media } from './accept.ts'
import { rowsQuery } from './grammar/rows-query.ts'
import { type Pair, type Scanned, scan } from './grammar/scan.ts'
import { mediaOfRows } from './media.ts'
import { notOneRow } from './problem-refusal.ts'
import {
  bodyOf,
  contentRange,
  locationHeaders,
  planReply,
  reply,
  responseIn,
  responseSettings,
} from './reply.ts'
import type { RestRequest } from './request.ts'

interface PlannedRead extends PlannedStatement {
  readonly media: Media
  readonly limit: number | undefined
  /** The index of the offset in the values. */
  readonly offset: number | undefined
}

const appliedPreferences = ['count', 'tx', 'handling', 'timezone']

export async function read(
  request: RestRequest,
  table: string,
  run: Run,
  maxRows: number,
): Promise<RawReply> {
  const { accepted, preferences, isHead, schema } = request
  const scanned = scan(withRange(request.pairs, request.raw))
  const { values } = scanned
  const isCounted = isHead || preferences.count !== undefined
  const hasRange = request.raw.headers.range !== undefined
  const kind = `${isHead}\0${accepted.key}\0${isCounted}\0${hasRange}`
  const key = `read\0${schema}\0${table}\0${kind}${scanned.shape}`
  const { plan, rows } = await run(
    request,
    key,
    catalog => planRead(catalog, request, table, scanned, isCounted, maxRows),
    values,
  )
  const { media } = plan
  if (accepted.explain) return planReply(media, rows)

  const answer = answerFrom(rows[0]!)
  const offset = plan.offset === undefined ? 0 : Number(values[plan.offset])
  const count = isHead ? pageSize(answer.total!, offset, plan.limit) : answer.count
  if (media.form.kind === 'object' && count !== 1) throw notOneRow(count)
  const response = media.form.kind === 'handled' && !isHead ? responseIn(answer.settings) : noResponse
  const body = isHead ? null : bodyOf(answer.text ?? empty, media)
  return reply(request, {
    status: response.status ?? 200,
    range: contentRange(offset, count, answer.total),
    appliedPreferences,
    media,
    body: body instanceof Promise ? await body : body,
    headers: { ...locationHeaders(request), ...response.headers },
  })
}

/** The value of an aggregate without rows may be null. */
const empty = Buffer.alloc(0)
/** Only functions set the headers or the status of an answer. */
const noResponse: ReturnType<typeof responseIn> = { headers: {} }

/** Without `limit` and `offset`, the Range header selects the page. A header that cannot be parsed is ignored. */
export function withRange(pairs: readonly Pair[], { headers }: RawRequest): readonly Pair[] {
  const range = headers.range
  if (range === undefined || (headers['range-unit'] ?? 'items') !== 'items') return pairs
  const [, first, last] = /^(\d{1,15})-(\d{1,15})$/.exec(range) ?? []
  if (first === undefined || Number(last) < Number(first)) return pairs
  if (pairs.some(({ key }) => key === 'limit' || key === 'offset')) return pairs
  return [
    ...pairs,
    { key: 'offset', value: String(Number(first)) },
    { key: 'limit', value: String(Number(last) - Number(first) + 1) },
  ]
}

function planRead(
  catalog: Catalog,
  { accepted, isHead, raw, schema }: RestRequest,
  table: string,
  { parameters }: Scanned,
  isCounted: boolean,
  maxRows: number,
): PlannedRead {
  const relation = findRelation(catalog, schema, table)
  const query = rowsQuery(parameters)
  const media = mediaOfRows(catalog, relation, query, accepted)
  if (media.form.kind === 'geojson') needGeometry(catalog)
  const format = media.form.kind === 'csv' ? 'text' : 'json'
  const { level, isCapped } = capRows(planRows(catalog, sourceOf(relation), query, format), maxRows)
  const mayBeCut = isCapped && !isByKey(relation, level) && raw.headers.range === undefined
  const total: Total = isCounted ? 'always' : mayBeCut ? 'when capped' : 'never'
  const form = isHead ? ({ kind: 'none' } as const) : media.form
  // A function of the project makes the answer. It may set headers, and change the session.
  const isHandled = form.kind === 'handled'
  const sql = readSql(catalog, level, form, total, isHandled ? responseSettings : [])
  return {
    ...plannedStatement(sql, !isHandled, accepted.explain),
    media,
    limit: level.limit,
    offset: level.offset,
  }
}

export function needGeometry(catalog: Catalog): void {
  if (catalog.extension('postgis') !== undefined) return
  throw new Refusal(
    'PGRST107',
    'application/geo+json needs the extension "postgis", which this project does not have',
  )
}

const pageSize = (total: number, offset: number, limit: number | undefined): number =>
  Math.max(0, Math.min(total - offset, limit ?? Number.POSITIVE_INFINITY))
