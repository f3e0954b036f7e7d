// POST, PUT, PATCH and DELETE on a table or view.
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { answerFrom, type Form } from '#src/query/answer-sql.ts'
import type { Catalog, Relation } from '#src/query/catalog.ts'
import type { Change, PayloadColumn, RowsQuery } from '#src/query/items.ts'
import { type Level, sourceOf } from '#src/query/level.ts'
import { findRelation, planRows } from '#src/query/plan.ts'
import { type PlannedStatement, plannedStatement } from '#src/query/planned-statement.ts'
import type { Run } from '#src/query/run.ts'
import { planColumn, planWrite } from '#src/query/write-plan.ts'
import { type Write, writeSql } from '#src/query/write-sql.ts'
import type { Media } from './accept.ts'
import { type Admission, admitWrite, quickBytes } from './admission.ts'
import { badBody } from './bad-body.ts'
import { namesIn, rowsQuery } from './grammar/rows-query.ts'
import { type Scanned, scan } from './grammar/scan.ts'
import { mediaOfRows } from './media.ts'
import { maxBodyBytes, type Payload, rowsFormatOf, rowsFrom } from './payload.ts'
import { needGeometry } from './read.ts'
import { bodyOf, contentRange, planReply, reply, responseIn, responseSettings } from './reply.ts'
import type { RestRequest } from './request.ts'

type Kind = 'insert' | 'put' | 'update' | 'delete'

interface PlannedWrite extends PlannedStatement {
  readonly media: Media
}

const appliedPreferences: Record<Kind, readonly string[]> = {
  insert: ['resolution', 'missing', 'return', 'count', 'tx', 'handling', 'timezone', 'max-affected'],
  put: ['return', 'count', 'tx', 'handling', 'timezone'],
  update: ['missing', 'return', 'count', 'tx', 'handling', 'timezone', 'max-affected'],
  delete: ['return', 'count', 'tx', 'handling', 'timezone', 'max-affected'],
}

export async function write(request: RestRequest, table: string, kind: Kind, run: Run): Promise<RawReply> {
  const { schema, accepted, preferences } = request
  const scanned = scan(request.pairs)
  if (kind === 'update' || kind === 'delete') needFilter(scanned, kind)
  const payload = kind === 'delete' ? undefined : await readRows(request, table, kind, scanned, run)
  if (kind === 'put' && payload!.count !== 1) throw badBody('PUT takes one JSON object')
  if (kind === 'update' && payload!.count > 1) throw badBody('PATCH takes one JSON object')
  const columns = payload ? columnsIn(payload, scanned, preferences.isDefaultForMissing) : []
  const isSameKey = kind === 'put' && hasFilteredValues(scanned, payload!)
  const values = payload ? [...scanned.values, payload.json] : scanned.values
  const slot = scanned.values.length

  const shape = [
    kind,
    schema,
    table,
    preferences.representation,
    accepted.key,
    preferences.resolution ?? '',
    preferences.maxAffected ?? '',
    payload?.isArray,
    payload?.isText,
    payload?.count === 0,
    isSameKey,
    ...columns.map(({ name, isSparse }) => `${isSparse ? '?' : '='}${name}`),
  ].join('\0')
  const { plan, rows } = await run(
    request,
    shape + scanned.shape,
    catalog => {
      const relation = findRelation(catalog, schema, table)
      if (kind === 'put') checkPutFilters(relation, scanned.parameters)
      const change = planWrite(relation, changeOf(kind, columns, payload, slot, scanned, request))
      if (kind === 'put' && !isSameKey)
        throw new Refusal('PGRST115', 'Payload values do not match URL in primary key column(s)')
      return planStatement(catalog, relation, change, scanned, request)
    },
    values,
  )
  const { media } = plan
  if (accepted.explain) return planReply(media, rows)

  const { text, count, total: merged = 0, settings } = answerFrom(rows[0]!)
  const response = responseIn(settings)
  const isShown = preferences.representation === 'representation'
  return reply(request, {
    status: response.status ?? statusOf(request, kind, count - merged, isShown),
    range: contentRange(0, 0, preferences.count === undefined ? undefined : count),
    appliedPreferences: appliedPreferences[kind],
    media,
    body: isShown ? await bodyOf(text ?? empty, media) : null,
    headers: {
      ...response.headers,
      ...(preferences.representation === 'headers-only' && location(request, count, text)),
    },
  })
}

/** Reads the rows of the body. Checks first what needs no rows. */
async function readRows(
  request: RestRequest,
  table: string,
  kind: 'insert' | 'put' | 'update',
  scanned: Scanned,
  run: Run,
): Promise<Payload> {
  const { raw, preferences } = request
  const { parameters } = scanned
  const format = rowsFormatOf(raw.headers['content-type'])
  if (kind === 'put' && parameters.some(({ kind }) => kind === 'limit' || kind === 'offset'))
    throw new Refusal('PGRST114', 'limit/offset querystring parameters are not allowed for PUT')
  const body = await readBody(raw, maxBodyBytes)
  if (body.length > quickBytes) {
    const merges = kind === 'put' || preferences.resolution === 'merge-duplicates'
    const admission: Admission = {
      table,
      privileges: kind === 'update' ? ['UPDATE'] : merges ? ['INSERT', 'UPDATE'] : ['INSERT'],
      shape: kind + scanned.shape,
      check(catalog, relation) {
        planRows(catalog, sourceOf(relation), rowsQuery(parameters))
        if (kind === 'put') checkPutFilters(relation, parameters)
        for (const name of namesIn(parameters, 'columns') ?? [])
          planColumn(relation, { name, isSparse: false }, false)
      },
    }
    await admitWrite(request, admission, run)
  }
  return inSlices(rowsFrom(body, format))
}

/** The value of an aggregate without rows may be null. */
const empty = Buffer.alloc(0)

function formOf({ preferences: { representation } }: RestRequest, { form }: Media): Form {
  if (representation === 'minimal') return { kind: 'none' }
  return representation === 'headers-only' ? { kind: 'array', stripsNulls: false } : form
}

/** Requires a flat filter, so that no request changes a whole table by mistake. */
function needFilter({ parameters }: Scanned, kind: 'update' | 'delete'): void {
  if (parameters.some(each => each.kind === 'condition' && each.isFlat)) return
  throw filterNeeded(kind === 'update' ? 'PATCH' : 'DELETE')
}

const filterNeeded = (what: string) =>
  new Refusal('PGRST100', `${what} needs at least one filter on a column`, {
    hint: 'Add one such as id=eq.5; groups (or, and), limits and filters on embedded relations do not count.',
  })

/** A filter on the existence of embedded rows is not a filter on a column. */
function needColumnFilter({ parameters }: Scanned, level: Level): void {
  const onColumns = new Set(level.where.map(where => where.kind === 'test' && where.test))
  const isOnColumn = parameters.some(
    each =>
      each.kind === 'condition' &&
      each.isFlat &&
      each.condition.kind === 'test' &&
      onColumns.has(each.condition),
  )
  if (!isOnColumn) throw filterNeeded('This write')
}

/** The columns to write: those that `columns` names, or the keys of the body. */
function columnsIn(payload: Payload, { parameters }: Scanned, usesDefaults: boolean): PayloadColumn[] {
  const named = namesIn(parameters, 'columns')
  if (named) return named.map(name => ({ name, isSparse: usesDefaults && payload.lacks(name) }))
  if (!payload.isUniform) throw badBody('All object keys must match', 'Name the columns with ?columns=a,b,c.')
  return payload.keys.map(name => ({ name, isSparse: false }))
}

function changeOf(
  kind: Kind,
  columns: readonly PayloadColumn[],
  payload: Payload | undefined,
  slot: number,
  { parameters }: Scanned,
  { preferences: { resolution } }: RestRequest,
): Change {
  if (!payload) return { kind: 'delete' }
  const { isArray, isText } = payload
  const written = { columns, isArray, isText, slot }
  if (payload.count === 0 || (kind === 'update' && columns.length === 0)) return { kind: 'nothing' }
  if (kind === 'update') return { kind, payload: written }
  if (kind === 'put') return { kind: 'insert', payload: written, conflict: { merges: true } }
  if (!resolution) return { kind: 'insert', payload: written }
  const conflict = {
    merges: resolution === 'merge-duplicates',
    columns: namesIn(parameters, 'on_conflict'),
  }
  return { kind: 'insert', payload: written, conflict }
}

function planStatement(
  catalog: Catalog,
  relation: Relation,
  change: Write,
  scanned: Scanned,
  request: RestRequest,
): PlannedWrite {
  const { accepted, preferences } = request
  const selected = rowsQuery(scanned.parameters)
  const media = mediaOfRows(catalog, relation, selected, accepted)
  const form = formOf(request, media)
  if (form.kind === 'geojson') needGeometry(catalog)
  const query = preferences.representation === 'headers-only' ? queryForKey(relation, scanned) : selected
  const level = planRows(catalog, sourceOf(relation), query, form.kind === 'csv' ? 'text' : 'json')
  if (change.kind === 'update' || change.kind === 'delete') needColumnFilter(scanned, level)
  const sql = writeSql(catalog, relation, level, change, {
    form,
    maxRows: preferences.maxAffected,
    settings: responseSettings,
    isOneRow: media.form.kind === 'object',
  })
  return { ...plannedStatement(sql, form.kind !== 'handled', accepted.explain), media }
}

/** The primary key of the written rows, as text: JavaScript would round large numbers. */
const queryForKey = ({ primaryKey }: Relation, { parameters }: Scanned): RowsQuery => ({
  ...rowsQuery(parameters.filter(({ kind }) => kind !== 'select')),
  select: primaryKey.map(column => ({ kind: 'field', field: { column, path: [] }, cast: 'text' })),
})

function statusOf({ preferences }: RestRequest, kind: Kind, inserted: number, isShown: boolean): number {
  if (kind === 'insert') return preferences.resolution === 'merge-duplicates' && inserted === 0 ? 200 : 201
  if (kind === 'put' && inserted > 0) return 201
  return isShown ? 200 : 204
}

/** Clients refuse longer headers. */
const longestKey = 8192

/** The Location header: the URL of the inserted row. */
function location(
  { facts }: RestRequest,
  count: number,
  body: Buffer | null | undefined,
): Record<string, string> {
  if (count !== 1 || !body || body.length > longestKey) return {}
  const [row] = JSON.parse(body.toString()) as Record<string, unknown>[]
  if (!row || Object.keys(row).length === 0) return {}
  const filters = Object.entries(row).map(
    ([name, value]) =>
      `${encodeURIComponent(name)}=${value === null ? 'is.null' : `eq.${encodeURIComponent(String(value))}`}`,
  )
  return { location: `${facts.path}?${filters.join('&')}` }
}

/** Whether the row in the body has the values of the filters. */
const hasFilteredValues = ({ parameters, values }: Scanned, payload: Payload): boolean =>
  parameters.every(
    each =>
      each.kind !== 'condition' ||
      each.condition.kind !== 'test' ||
      payload.firstText(each.condition.field.column) === values[each.condition.slot],
  )

/** PUT takes exactly one `column=eq.value` for each column of the primary key. */
function checkPutFilters({ primaryKey }: Relation, parameters: Scanned['parameters']): void {
  const filtered = new Set<string>()
  let isPlain = primaryKey.length > 0
  for (const each of parameters) {
    if (each.kind !== 'condition') continue
    const { condition } = each
    if (each.path.length > 0 || condition.kind !== 'test' || condition.operator !== 'eq') isPlain = false
    else if (condition.isNegated || condition.quantifier || condition.field.path.length > 0) isPlain = false
    else filtered.add(condition.field.column)
  }
  if (!isPlain || filtered.size !== primaryKey.length || !primaryKey.every(name => filtered.has(name)))
    throw new Refusal('PGRST105', "Filters must include all and only primary key columns with 'eq' operators")
}
