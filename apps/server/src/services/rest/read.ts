// GET and HEAD on a table or view.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Catalog, Relation } from '#src/query/catalog.ts'
import { type Level, planLevel, type Source, type Where } from '#src/query/plan.ts'
import { readSql, type Total } from '#src/query/read-sql.ts'
import { type Pair, type Part, type Scanned, scan } from '#src/query/scan.ts'
import { unknownRelation } from '#src/query/unknown-names.ts'
import { notOneRow } from './database-refusal.ts'
import { type Execute, type Prepared, preparedFrom } from './execute.ts'
import { contentRange, numberIn, planReply, reply, textOf } from './reply.ts'
import type { RestRequest } from './request.ts'

interface PreparedRead extends Prepared {
  readonly limit: number | undefined
  /** Place of the offset among the values. */
  readonly offset: number | undefined
}

const meant = ['count', 'tx', 'handling', 'timezone']

export async function read(
  request: RestRequest,
  table: string,
  execute: Execute,
  maxRows: number,
): Promise<RawReply> {
  const { accepted, preferences, isHead, schema } = request
  const scanned = scan(windowed(request.pairs, request.raw))
  const isCounted = isHead || preferences.count !== undefined
  const hasRange = request.raw.headers.range !== undefined
  const kind = `${isHead}\0${accepted.key}\0${isCounted}\0${hasRange}`
  const shape = `read\0${schema}\0${table}\0${kind}${scanned.shape}`
  const { prepared, row, rows } = await execute(
    request,
    shape,
    catalog => prepareRead(catalog, request, relationOf(catalog, schema, table), scanned, isCounted, maxRows),
    scanned,
  )
  if (accepted.explain) return planReply(request, rows)

  const total = numberIn(row[2])
  const offset = prepared.offset === undefined ? 0 : Number(scanned.values[prepared.offset])
  const count = isHead ? windowSize(total!, offset, prepared.limit) : numberIn(row[1])!
  if (accepted.form.kind === 'object' && count !== 1) throw notOneRow(count)
  const rest = { status: 200, range: contentRange(offset, count, total), meant }
  if (isHead)
    return reply(request, { ...rest, body: null, headers: { 'content-type': accepted.contentType } })
  return reply(request, { ...rest, body: textOf(row[0]!) })
}

/** The Range header asks for a page when nothing else does; one that cannot be read is ignored. */
export function windowed(pairs: readonly Pair[], { headers }: RawRequest): readonly Pair[] {
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

export function relationOf(catalog: Catalog, schema: string, name: string): Relation {
  const relation = catalog.relation(schema, name)
  if (!relation) throw unknownRelation(catalog, schema, name)
  return relation
}

export const sourceOf = (relation: Relation): Source => ({
  name: relation.name,
  columns: relation.columns,
  relation,
})

function prepareRead(
  catalog: Catalog,
  { accepted, isHead, raw }: RestRequest,
  relation: Relation,
  { parts }: Scanned,
  isCounted: boolean,
  maxRows: number,
): PreparedRead {
  if (accepted.form.kind === 'geojson') needGeometry(catalog)
  const level = planLevel(catalog, sourceOf(relation), parts)
  const isCapped = cap(level, maxRows) && !isByKey(relation, level)
  const total: Total = isCounted
    ? 'always'
    : isCapped && raw.headers.range === undefined
      ? 'when capped'
      : 'never'
  const form = isHead ? ({ kind: 'none' } as const) : accepted.form
  return {
    ...preparedFrom(readSql(catalog, level, form, total), true, accepted.explain),
    limit: level.limit,
    offset: level.offset,
  }
}

/** At most one row: no cap can cut it short. */
function isByKey({ keys, isView }: Relation, { where }: Level): boolean {
  // A view may show a row more than once.
  if (isView) return false
  const equal = new Set(where.map(each => (each.kind === 'test' ? equalColumn(each) : undefined)))
  return keys.some(key => key.every(name => equal.has(name)))
}

const equalColumn = ({ value, test }: Where & { kind: 'test' }): string | undefined =>
  test.operator === 'eq' && !test.isNegated && !test.quantifier && value.path.length === 0
    ? value.column?.name
    : undefined

/** Whether the page's size is the platform's choice and not the client's. */
export function cap(level: Level, maxRows: number): boolean {
  if (maxRows === 0 || (level.limit !== undefined && level.limit <= maxRows)) return false
  level.limit = maxRows
  return true
}

export function needGeometry(catalog: Catalog): void {
  if (catalog.extension('postgis') !== undefined) return
  throw new Refusal(
    'PGRST107',
    'application/geo+json needs the extension "postgis", which this project does not have',
  )
}

const windowSize = (total: number, offset: number, limit: number | undefined): number =>
  Math.max(0, Math.min(total - offset, limit ?? Number.POSITIVE_INFINITY))

export const columnsIn = (parts: readonly Part[], kind: 'columns' | 'on_conflict'): string | undefined => {
  const part = parts.find(each => each.kind === kind && each.path.length === 0)
  return part && 'text' in part ? part.text : undefined
}
