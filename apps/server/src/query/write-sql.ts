// Statements that change rows: insert, upsert, update, delete, each with what it answers. Columns of the answer
// are body, rows affected, rows merged, guard, response headers, response status.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import { atMostSql, bodySql, type Form, guardSql, onlyOneSql, responseSql } from './answer-sql.ts'
import type { Catalog, Column, Relation } from './catalog.ts'
import { isAggregated, levelSql, outputNames } from './level-sql.ts'
import type { Level, Output, Value } from './plan.ts'
import { conditionsOf } from './where-sql.ts'
import { qualified, Writer } from './writer.ts'

export interface WrittenColumn {
  readonly column: Column
  /** Some row of the body lacks it, and takes the column's default. */
  readonly isSparse: boolean
  /** The body holds its JSON as a text. */
  readonly isJsonText: boolean
}

export type Write =
  | {
      readonly kind: 'insert'
      readonly columns: readonly WrittenColumn[]
      readonly isArray: boolean
      readonly conflict?: { readonly merges: boolean; readonly target: readonly string[] } | undefined
    }
  | { readonly kind: 'update'; readonly columns: readonly WrittenColumn[] }
  | { readonly kind: 'delete' }

export interface WriteAnswer {
  /** What the client gets to see; 'none' without a representation. */
  readonly form: Form
  readonly mostRows?: number | undefined
  /** The body holds nothing to write: no row is touched, and the answer is that of no rows. */
  readonly isNothing: boolean
}

const target = 't0'

export function writeSql(
  catalog: Catalog,
  relation: Relation,
  level: Level,
  write: Write,
  { form, mostRows, isNothing }: WriteAnswer,
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  writer.alias()
  const shown: Level | undefined = form.kind === 'none' ? undefined : { ...level, where: [] }
  const wholeRow = nameOutside(relation.columns)
  const returning = returningSql(shown, `(${target}.*)::${qualified(relation)} as ${identifier(wholeRow)}`)
  const change = isNothing
    ? `select ${returning} from ${qualified(relation)} as ${target} where false`
    : `${changeSql(writer, relation, level, write)} returning ${returning}`
  const merged =
    write.kind === 'insert' && write.conflict?.merges
      ? `pg_catalog.current_setting('plinth.merged', true)`
      : 'null'
  const tail = `${merged}, ${guardSql(catalog)}, ${responseSql}`
  const most = (count: string) => (mostRows === undefined ? '' : `, ${atMostSql(count, mostRows)}`)
  if (!shown)
    return {
      sql: `with changed as (${change}) select null, pg_catalog.count(*), ${tail}${most('pg_catalog.count(*)')} from changed`,
      writer,
    }
  writer.rows.set(target, `${target}.${identifier(wholeRow)}`)
  const rows = levelSql(
    writer,
    { ...shown, embeds: shown.embeds.map(lenient) },
    `changed ${target}`,
    target,
    [],
    false,
  )
  const count = isAggregated(shown) ? '(select pg_catalog.count(*) from changed)' : 'pg_catalog.count(*)'
  const plain = bodySql(form, 'r', outputNames(shown), catalog)
  const body = form.kind === 'object' ? onlyOneSql(count, plain) : plain
  return {
    sql: `with changed as (${change}) select ${body}, ${count}, ${tail}${most(count)} from (${rows}) r`,
    writer,
  }
}

/** A name no column has, for the row as a whole. */
function nameOutside(columns: ReadonlyMap<string, Column>): string {
  let name = 'row'
  while (columns.has(name)) name += '_'
  return name
}

/** What was written is shown, whatever its embedded rows are. */
const lenient = <E extends { isInner: boolean }>(embed: E): E => ({ ...embed, isInner: false })

function changeSql(writer: Writer, relation: Relation, level: Level, write: Write): string {
  const name = qualified(relation)
  if (write.kind === 'insert') return insertSql(writer, name, write)
  const conditions = conditionsOf(writer, level, target)
  const where = conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''
  if (write.kind === 'delete') return `delete from ${name} as ${target}${where}`
  const sets = write.columns.map(each => `${identifier(each.column.name)} = ${givenSql(each)}`)
  return `update ${name} as ${target} set ${sets.join(', ')} from ${bodyRows(writer, write.columns, false)}${where}`
}

function insertSql(
  writer: Writer,
  name: string,
  { columns, isArray, conflict }: Write & { kind: 'insert' },
): string {
  if (columns.length === 0) return `insert into ${name} as ${target} default values`
  const names = columns.map(({ column }) => identifier(column.name)).join(', ')
  const values = columns.map(givenSql).join(', ')
  return `insert into ${name} as ${target} (${names}) select ${values} from ${bodyRows(writer, columns, isArray)}${
    conflict ? conflictSql(columns, conflict) : ''
  }`
}

/** The body as rows `s`; where a default may be needed, beside the JSON `e` they were made from. */
function bodyRows(writer: Writer, columns: readonly WrittenColumn[], isArray: boolean): string {
  const body = `${writer.parameter('body')}::json`
  const record = `s(${columns.map(bodyColumn).join(', ')})`
  if (!columns.some(({ isSparse }) => isSparse))
    return `pg_catalog.${isArray ? 'json_to_recordset' : 'json_to_record'}(${body}) as ${record}`
  const elements = isArray ? `pg_catalog.json_array_elements(${body}) as j(e)` : `(select ${body}) as j(e)`
  return `${elements}, lateral pg_catalog.json_to_record(j.e) as ${record}`
}

const bodyColumn = ({ column, isJsonText }: WrittenColumn): string =>
  `${identifier(column.name)} ${isJsonText ? 'text' : column.type}`

const givenSql = ({ column, isSparse, isJsonText }: WrittenColumn): string => {
  const given = `s.${identifier(column.name)}${isJsonText ? `::${column.type}` : ''}`
  if (!isSparse || column.byDefault === null) return given
  return `case when (j.e -> ${literal(column.name)}) is null then ${column.byDefault} else ${given} end`
}

/** Counts the rows that were there already: nobody needs a right to read for that. */
const countMerged = `pg_catalog.set_config('plinth.merged', (coalesce(nullif(pg_catalog.current_setting('plinth.merged', true), ''), '0')::bigint + 1)::text, true) is not null`

function conflictSql(
  columns: readonly WrittenColumn[],
  { merges, target: key }: NonNullable<(Write & { kind: 'insert' })['conflict']>,
): string {
  const on = key.length > 0 ? ` (${key.map(identifier).join(', ')})` : ''
  if (!merges) return ` on conflict${on} do nothing`
  const others = columns.filter(({ column }) => !key.includes(column.name))
  const sets = (others.length > 0 ? others : columns).map(
    ({ column: { name } }) => `${identifier(name)} = excluded.${identifier(name)}`,
  )
  return ` on conflict${on} do update set ${sets.join(', ')} where ${countMerged}`
}

/** No more than what is shown: a caller may not be allowed to read the rest. */
function returningSql(shown: Level | undefined, wholeRow: string): string {
  if (!shown) return '1'
  const names = new Set<string>()
  let needsRow = false
  const need = ({ column, computed }: Value) => {
    if (column) names.add(column.name)
    if (computed) needsRow = true
  }
  for (const output of shown.outputs) valuesOf(output).forEach(need)
  for (const { value, embed } of shown.order) if (!embed) need(value)
  for (const { link } of shown.embeds) {
    if (link.kind === 'function') needsRow = true
    else for (const [own] of link.relationship.columns) names.add(own)
  }
  const returned = [...names].map(name => `${target}.${identifier(name)}`)
  if (needsRow) returned.push(wholeRow)
  return returned.length > 0 ? returned.join(', ') : '1'
}

const valuesOf = (output: Output): Value[] =>
  (output.kind === 'value' || output.kind === 'aggregate') && output.value ? [output.value] : []
