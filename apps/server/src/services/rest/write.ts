// POST, PUT, PATCH and DELETE on a table or view.
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { Form } from '#src/query/answer-sql.ts'
import type { Catalog, Column, Relation } from '#src/query/catalog.ts'
import { type Level, planLevel } from '#src/query/plan.ts'
import { Reader } from '#src/query/reader.ts'
import { type Scanned, scan } from '#src/query/scan.ts'
import { unknownColumn, unknownKey } from '#src/query/unknown-names.ts'
import { type Write, type WrittenColumn, writeSql } from '#src/query/write-sql.ts'
import { type Admission, admitWrite, quickBytes } from './admission.ts'
import { badBody } from './bad-body.ts'
import { type Execute, type Prepared, preparedFrom } from './execute.ts'
import { maxBodyBytes, type Payload, rowsFormatOf, rowsFrom } from './payload.ts'
import { columnsIn, needGeometry, relationOf, sourceOf } from './read.ts'
import { contentRange, numberIn, ownResponse, planReply, reply, textOf } from './reply.ts'
import type { RestRequest } from './request.ts'

type Kind = 'insert' | 'put' | 'update' | 'delete'

const meant: Record<Kind, readonly string[]> = {
  insert: ['resolution', 'missing', 'return', 'count', 'tx', 'handling', 'timezone', 'max-affected'],
  put: ['return', 'count', 'tx', 'handling', 'timezone'],
  update: ['missing', 'return', 'count', 'tx', 'handling', 'timezone', 'max-affected'],
  delete: ['return', 'count', 'tx', 'handling', 'timezone', 'max-affected'],
}

export async function write(
  request: RestRequest,
  table: string,
  kind: Kind,
  execute: Execute,
): Promise<RawReply> {
  const { schema, accepted, preferences } = request
  const scanned = scan(request.pairs)
  if (kind === 'update' || kind === 'delete') needFilter(scanned, kind)
  const payload = kind === 'delete' ? undefined : await readRows(request, table, kind, scanned, execute)
  if (kind === 'put' && payload!.count !== 1) throw badBody('PUT takes one JSON object')
  if (kind === 'update' && payload!.isArray && payload!.count > 0)
    throw badBody('PATCH takes one JSON object')
  const written = payload && columnsWritten(payload, scanned, kind, preferences.isDefaultForMissing)
  const isNothing =
    kind !== 'delete' && (payload!.count === 0 || (kind === 'update' && written!.length === 0))
  const form: Form = preferences.representation === 'minimal' ? { kind: 'none' } : formOf(request)
  const isSameKey = kind === 'put' && hasFilteredValues(scanned, payload!)

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
    isNothing,
    isSameKey,
    ...(written ?? []).map(({ name, isSparse }) => `${isSparse ? '?' : '='}${name}`),
  ].join('\0')
  const { row, rows } = await execute(
    request,
    shape + scanned.shape,
    catalog => {
      const relation = relationOf(catalog, schema, table)
      const columns = (written ?? []).map(each => columnOf(relation, each, payload!.isText))
      const change = changeOf(kind, relation, columns, payload, scanned, request)
      if (kind === 'put' && !isSameKey)
        throw new Refusal('PGRST115', 'Payload values do not match URL in primary key column(s)')
      return prepareWrite(
        catalog,
        relation,
        isNothing ? { kind: 'delete' } : change,
        scanned,
        request,
        form,
        isNothing,
      )
    },
    { values: scanned.values, body: payload?.json ?? null },
  )
  if (accepted.explain) return planReply(request, rows)

  const own = ownResponse(row[4], row[5])
  const count = numberIn(row[1])!
  const merged = numberIn(row[2]) ?? 0
  const isShown = preferences.representation === 'representation'
  return reply(request, {
    status: own.status ?? statusOf(request, kind, count - merged, isShown),
    range: contentRange(0, 0, preferences.count === undefined ? undefined : count),
    meant: meant[kind],
    body: isShown ? textOf(row[0]!) : null,
    headers: {
      ...own.headers,
      ...(preferences.representation === 'headers-only' && location(request, count, row[0])),
    },
  })
}

/** The rows of the body. What can be refused without them is refused first. */
async function readRows(
  request: RestRequest,
  table: string,
  kind: 'insert' | 'put' | 'update',
  scanned: Scanned,
  execute: Execute,
): Promise<Payload> {
  const { raw, preferences } = request
  const { parts } = scanned
  const format = rowsFormatOf(raw.headers['content-type'])
  if (kind === 'put' && parts.some(part => part.kind === 'limit' || part.kind === 'offset'))
    throw new Refusal('PGRST114', 'limit/offset querystring parameters are not allowed for PUT')
  const body = await readBody(raw, maxBodyBytes)
  if (body.length > quickBytes) {
    const merges = kind === 'put' || preferences.resolution === 'merge-duplicates'
    const admission: Admission = {
      table,
      privileges: kind === 'update' ? ['UPDATE'] : merges ? ['INSERT', 'UPDATE'] : ['INSERT'],
      shape: kind + scanned.shape,
      check(catalog, relation) {
        planLevel(catalog, sourceOf(relation), parts)
        if (kind === 'put') checkPutFilters(relation, parts)
        for (const name of namesIn(columnsIn(parts, 'columns') ?? '', 'columns'))
          columnOf(relation, { name, isSparse: false }, false)
      },
    }
    await admitWrite(request, admission, execute)
  }
  return inSlices(rowsFrom(body, format))
}

function formOf({ accepted, preferences }: RestRequest): Form {
  return preferences.representation === 'headers-only' ? { kind: 'array', stripsNulls: false } : accepted.form
}

/** Whole tables are never changed by accident: some flat filter must be there, before anything else is looked at. */
function needFilter({ parts }: Scanned, kind: 'update' | 'delete'): void {
  if (parts.some(part => part.kind === 'condition' && part.isFlat)) return
  throw filterNeeded(kind === 'update' ? 'PATCH' : 'DELETE')
}

const filterNeeded = (what: string) =>
  new Refusal('PGRST100', `${what} needs at least one filter on a column`, {
    hint: 'Add one such as id=eq.5; groups (or, and), limits and filters on embedded relations do not count.',
  })

/** A filter on whether an embedded relation is there is none on a column. */
function needColumnFilter(parts: Scanned['parts'], level: Level): void {
  const onColumns = new Set(level.where.map(where => where.kind === 'test' && where.test))
  const isOnColumn = parts.some(
    part =>
      part.kind === 'condition' &&
      part.isFlat &&
      part.condition.kind === 'test' &&
      onColumns.has(part.condition),
  )
  if (!isOnColumn) throw filterNeeded('This write')
}

/** Names of the columns written, and whether some row leaves them to their default. */
interface Written {
  readonly name: string
  readonly isSparse: boolean
}

function columnsWritten(payload: Payload, { parts }: Scanned, kind: Kind, usesDefaults: boolean): Written[] {
  const pinned = columnsIn(parts, 'columns') || undefined
  if (pinned !== undefined)
    return namesIn(pinned, 'columns').map(name => ({ name, isSparse: usesDefaults && payload.lacks(name) }))
  if (!payload.isUniform) throw badBody('All object keys must match', 'Name the columns with ?columns=a,b,c.')
  if (payload.keys.length === 0 && payload.count > 1 && kind === 'insert')
    throw badBody('The objects of the array have no keys')
  return payload.keys.map(name => ({ name, isSparse: false }))
}

function namesIn(text: string, what: string): string[] {
  const reader = new Reader(text, what)
  const names: string[] = []
  if (text.trim() === '') return names
  do names.push(reader.name())
  while (reader.take(','))
  if (!reader.isAtEnd) reader.fail('expecting "," or the end')
  return [...new Set(names)]
}

const jsonTypes = new Set([114, 3802])

function columnOf(relation: Relation, { name, isSparse }: Written, isText: boolean): WrittenColumn {
  const column = relation.columns.get(name)
  if (!column) throw unknownKey(relation.name, name, relation.columns.keys())
  return { column, isSparse, isJsonText: isText && jsonTypes.has(column.base) }
}

function changeOf(
  kind: Kind,
  relation: Relation,
  columns: readonly WrittenColumn[],
  payload: Payload | undefined,
  { parts }: Scanned,
  { preferences }: RestRequest,
): Write {
  if (kind === 'delete') return { kind }
  if (kind === 'update') return { kind, columns }
  const isArray = payload!.isArray && columns.length > 0
  if (kind === 'put') {
    checkPutFilters(relation, parts)
    return { kind: 'insert', columns, isArray, conflict: { merges: true, target: relation.primaryKey } }
  }
  const onConflict = columnsIn(parts, 'on_conflict')
  const { resolution } = preferences
  if (!resolution) return { kind, columns, isArray }
  const target = onConflict === undefined ? relation.primaryKey : namesIn(onConflict, 'on_conflict')
  for (const name of target)
    if (!relation.columns.has(name)) throw unknownColumn(relation.name, name, relation.columns.keys())
  const merges = resolution === 'merge-duplicates'
  if (merges && target.length === 0)
    throw new Refusal('invalid_request', `"${relation.name}" has no primary key to find duplicates by`, {
      hint: 'Name the columns of a unique constraint with ?on_conflict=a,b.',
    })
  return {
    kind,
    columns,
    isArray,
    conflict: { merges, target },
  }
}

function prepareWrite(
  catalog: Catalog,
  relation: Relation,
  change: Write,
  { parts }: Scanned,
  { accepted, preferences }: RestRequest,
  form: Form,
  isNothing: boolean,
): Prepared {
  if (form.kind === 'geojson') needGeometry(catalog)
  const isHeadersOnly = preferences.representation === 'headers-only'
  const level = planLevel(
    catalog,
    sourceOf(relation),
    isHeadersOnly ? parts.filter(part => part.kind !== 'select') : parts,
  )
  if (isHeadersOnly)
    level.outputs.splice(
      0,
      Number.POSITIVE_INFINITY,
      ...relation.primaryKey.map(name => keyOutput(relation.columns.get(name)!)),
    )
  if (change.kind !== 'insert' && !isNothing) needColumnFilter(parts, level)
  const sql = writeSql(catalog, relation, level, change, {
    form,
    mostRows: preferences.maxAffected,
    isNothing,
  })
  return preparedFrom(sql, true, accepted.explain)
}

/** As a text: a number of JSON has fewer digits than one of Postgres. */
const keyOutput = (column: Column) => ({
  kind: 'value' as const,
  name: column.name,
  value: { column, path: [] },
  cast: 'text',
})

function statusOf({ preferences }: RestRequest, kind: Kind, inserted: number, isShown: boolean): number {
  if (kind === 'insert') return preferences.resolution === 'merge-duplicates' && inserted === 0 ? 200 : 201
  if (kind === 'put' && inserted > 0) return 201
  return isShown ? 200 : 204
}

/** A longer one would be of no use as a header. */
const longestKey = 8192

/** Where the row that was inserted is found. */
function location(
  { raw }: RestRequest,
  count: number,
  body: Buffer | null | undefined,
): Record<string, string> {
  if (count !== 1 || !body || body.length > longestKey) return {}
  const [row] = JSON.parse(body.toString()) as Record<string, unknown>[]
  if (!row || Object.keys(row).length === 0) return {}
  const filters = Object.entries(row).map(
    ([name, value]) => `${encodeURIComponent(name)}=eq.${encodeURIComponent(String(value))}`,
  )
  return { location: `${raw.path}?${filters.join('&')}` }
}

/** Whether the body's row has the values that the filters name. */
const hasFilteredValues = ({ parts, values }: Scanned, payload: Payload): boolean =>
  parts.every(
    part =>
      part.kind !== 'condition' ||
      part.condition.kind !== 'test' ||
      payload.firstText(part.condition.field.column) === values[part.condition.slot],
  )

/** Exactly one `column=eq.value` for each column of the primary key. */
function checkPutFilters({ primaryKey }: Relation, parts: Scanned['parts']): void {
  const filtered = new Set<string>()
  let isPlain = primaryKey.length > 0
  for (const part of parts) {
    if (part.kind !== 'condition') continue
    const { condition } = part
    if (part.path.length > 0 || condition.kind !== 'test' || condition.operator !== 'eq') isPlain = false
    else if (condition.isNegated || condition.quantifier || condition.field.path.length > 0) isPlain = false
    else filtered.add(condition.field.column)
  }
  if (!isPlain || filtered.size !== primaryKey.length || !primaryKey.every(name => filtered.has(name)))
    throw new Refusal('PGRST105', "Filters must include all and only primary key columns with 'eq' operators")
}
