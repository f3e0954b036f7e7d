// A column, a path into JSON, or a function of the row, as SQL.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import type { Column } from './catalog.ts'
import type { Value } from './level.ts'
import { qualified, type Writer } from './writer.ts'

/** Oids of built-in types. */
export const json = 114
export const jsonb = 3802
export const text = 25
export const varchar = 1043
export const tsvector = 3614

/** Not null in every row, so that counting its values counts the rows. */
export const oneColumn: Column = { name: '', type: 'integer', base: 23, isArray: false, byDefault: null }

export function valueSql(writer: Writer, value: Value, alias: string): string {
  const sql = storedSql(writer, value, alias)
  return value.shownBy ? `${qualified(value.shownBy)}(${sql})` : sql
}

function storedSql(writer: Writer, { column, computed, path }: Value, alias: string): string {
  if (column === oneColumn) return '1'
  const base = computed
    ? `${qualified(computed)}(${writer.wholeRow(alias)})`
    : `${alias}.${identifier(column!.name)}`
  if (path.length === 0) return base
  const isJson = column?.base === json || column?.base === jsonb
  const steps = path.map(
    ({ isText, key }) => `${isText ? '->>' : '->'} ${typeof key === 'number' ? key : literal(key)}`,
  )
  return `(${isJson ? base : `pg_catalog.to_jsonb(${base})`} ${steps.join(' ')})`
}

/** Postgres neither compares nor groups values of the type `json`. */
export const isPlainJson = ({ column, path, shownBy }: Value): boolean =>
  shownBy ? shownBy === column?.representation?.toJson : column?.base === json && !path.at(-1)?.isText

export const comparable = (writer: Writer, value: Value, alias: string): string =>
  isPlainJson(value) ? `(${valueSql(writer, value, alias)})::jsonb` : valueSql(writer, value, alias)
