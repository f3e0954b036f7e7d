// Statements that change rows: insert, upsert, update and delete.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import { answerSql, type Form, isCurrentSql, textSql } from './answer-sql.ts'
import type { Catalog, Column, FunctionName, Relation } from './catalog.ts'
import type { Level, Output, Value } from './level.ts'
import { isAggregated, levelSql, outputNames } from './level-sql.ts'
import { conditionsOf } from './where-sql.ts'
import { qualified, Writer } from './writer.ts'

export interface WrittenColumn {
  readonly column: Column
  /** Some object of the payload lacks the column, which then gets its default. */
  readonly isSparse: boolean
  /** The payload has the value as a string, which is then converted: that of a JSON column or of a domain. */
  readonly isText: boolean
  /** Reads the value of a domain from JSON, or from text. */
  readonly readBy?: FunctionName | undefined
}

export interface WrittenPayload {
  readonly columns: readonly WrittenColumn[]
  readonly isArray: boolean
  /** The index of the payload's JSON text in the values. */
  readonly slot: number
}

export type Write =
  | {
      readonly kind: 'insert'
      readonly payload: WrittenPayload
      readonly conflict?: { readonly merges: boolean; readonly target: readonly string[] } | undefined
    }
  | { readonly kind: 'update'; readonly payload: WrittenPayload }
  | { readonly kind: 'delete' }
  | { readonly kind: 'nothing' }

export interface WriteAnswer {
  /** How the written rows are shown, or `none`. */
  readonly form: Form
  readonly maxRows?: number | undefined
  readonly settings: readonly string[]
  /** Fails, and changes nothing, unless it affects one row. */
  readonly isOneRow: boolean
}

const target = 't0'

export function writeSql(
  catalog: Catalog,
  relation: Relation,
  level: Level,
  write: Write,
  { form, maxRows, settings, isOneRow }: WriteAnswer,
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  writer.alias()
  const shown: Level | undefined = form.kind === 'none' ? undefined : { ...level, where: [] }
  const wholeRow = nameOutside(relation.columns)
  const row = `(${target}.*)::${qualified(relation)} as ${identifier(wholeRow)}`
  const returning = form.kind === 'handled' && form.takesRow ? row : returningSql(shown, row)
  const change =
    write.kind === 'nothing'
      ? `select ${returning} from ${qualified(relation)} as ${target} where false`
      : `${changeSql(writer, relation, level, write)} returning ${returning}`
  const total =
    write.kind === 'insert' && write.conflict?.merges
      ? `pg_catalog.current_setting('plinth.merged', true)`
      : 'null'
  const common = { total, settings, maxRows, isOneRow }
  const isCurrent = isCurrentSql(catalog)
  if (!shown || (form.kind === 'handled' && form.takesRow)) {
    const text = shown ? textSql(form, '', [], catalog, `changed.${identifier(wholeRow)}`) : 'null'
    const answer = answerSql({ text, count: 'pg_catalog.count(*)', ...common })
    return { sql: `with changed as (${change}) select ${answer} from changed where ${isCurrent}`, writer }
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
  const text = textSql(form, 'r', outputNames(shown), catalog)
  const answer = answerSql({ text, count, ...common })
  return { sql: `with changed as (${change}) select ${answer} from (${rows}) r where ${isCurrent}`, writer }
}

/** The name of the column with the whole row. No column of the relation has it. */
export function nameOutside(columns: ReadonlyMap<string, Column>): string {
  let name = 'row'
  while (columns.has(name)) name += '_'
  return name
}

/** A written row is shown even if it has no embedded rows. */
const lenient = <E extends { isInner: boolean }>(embed: E): E => ({ ...embed, isInner: false })

export function changeSql(
  writer: Writer,
  relation: Relation,
  level: Level,
  write: Exclude<Write, { kind: 'nothing' }>,
): string {
  const name = qualified(relation)
  if (write.kind === 'insert') return insertSql(writer, name, write)
  const conditions = conditionsOf(writer, level, target)
  const where = conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''
  if (write.kind === 'delete') return `delete from ${name} as ${target}${where}`
  const sets = write.payload.columns.map(each => `${identifier(each.column.name)} = ${givenSql(each)}`)
  return `update ${name} as ${target} set ${sets.join(', ')} from ${payloadRows(writer, write.payload)}${where}`
}

function insertSql(writer: Writer, name: string, { payload, conflict }: Write & { kind: 'insert' }): string {
  const { columns } = payload
  if (columns.length === 0) return `insert into ${name} as ${target} ${defaultsSql(writer, payload)}`
  const names = columns.map(({ column }) => identifier(column.name)).join(', ')
  const values = columns.map(givenSql).join(', ')
  return `insert into ${name} as ${target} (${names}) select ${values} from ${payloadRows(writer, payload)}${
    conflict ? conflictSql(columns, conflict) : ''
  }`
}

/** A row of defaults for each object of the payload. */
const defaultsSql = (writer: Writer, { isArray, slot }: WrittenPayload): string =>
  isArray ? `select from pg_catalog.json_array_elements(${writer.parameter(slot)}::json)` : 'default values'

/** The payload as rows `s`, and if a column may need its default, each object as `e`. */
function payloadRows(writer: Writer, { columns, isArray, slot }: WrittenPayload): string {
  const payload = `${writer.parameter(slot)}::json`
  const record = `s(${columns.map(payloadColumn).join(', ')})`
  if (!columns.some(({ isSparse }) => isSparse))
    return `pg_catalog.${isArray ? 'json_to_recordset' : 'json_to_record'}(${payload}) as ${record}`
  const elements = isArray
    ? `pg_catalog.json_array_elements(${payload}) as j(e)`
    : `(select ${payload}) as j(e)`
  return `${elements}, lateral pg_catalog.json_to_record(j.e) as ${record}`
}

const payloadColumn = ({ column, isText, readBy }: WrittenColumn): string =>
  `${identifier(column.name)} ${isText ? 'text' : readBy ? 'json' : column.type}`

const givenSql = ({ column, isSparse, isText, readBy }: WrittenColumn): string => {
  const value = `s.${identifier(column.name)}`
  const given = readBy ? `${qualified(readBy)}(${value})` : isText ? `${value}::${column.type}` : value
  if (!isSparse || column.byDefault === null) return given
  return `case when (j.e -> ${literal(column.name)}) is null then ${column.byDefault} else ${given} end`
}

/** Counts the rows that existed already, without the privilege to read them. */
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

/** Returns only the columns that are shown: the caller may lack the privilege to read the others. */
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
