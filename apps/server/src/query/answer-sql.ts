// The one row that a statement answers with: a text with all rows, and counts.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Catalog, Handler } from './catalog.ts'
import { qualified } from './writer.ts'

/** How the rows become one text. */
export type Form =
  | { readonly kind: 'array' | 'object'; readonly stripsNulls: boolean }
  | { readonly kind: 'csv' | 'geojson' | 'none' }
  /** An aggregate of the project makes the text. `takesRow`: of whole rows of the relation. */
  | { readonly kind: 'handled'; readonly by: Handler; readonly takesRow: boolean }
  /** The value of a function as it is. */
  | { readonly kind: 'value'; readonly isBinary: boolean }

export interface Answer {
  readonly text: Cell
  /** Rows in the text. For a write, affected rows. */
  readonly count: number
  /** Rows before paging, if they were counted. For an upsert, rows that existed already. */
  readonly total: number | undefined
  /** Values after the statement of the settings that the plan named. */
  readonly settings: readonly Cell[]
}

interface AnswerSql {
  readonly text: string
  readonly count: string
  readonly total: string
  /** Names of settings that functions and triggers may set. Their values are part of the answer. */
  readonly settings?: readonly string[]
  /** More rows than this fail the statement. */
  readonly maxRows?: number | undefined
  /** Any other number of rows than one fails the statement. */
  readonly isOneRow?: boolean
  /** A further column, which is null or fails the statement. */
  readonly check?: string | undefined
}

/** The select list of a statement, which `answerFrom` reads. */
export function answerSql({
  text,
  count,
  total,
  settings = [],
  maxRows,
  isOneRow,
  check,
}: AnswerSql): string {
  const columns = [text, count, total]
  for (const name of settings) columns.push(`pg_catalog.current_setting(${literal(name)}, true)`)
  if (maxRows !== undefined) columns.push(atMostSql(count, maxRows))
  if (isOneRow) columns.push(oneRowSql(count))
  if (check) columns.push(check)
  return columns.join(', ')
}

export function answerFrom(row: readonly Cell[]): Answer {
  const [text = null, count, total, ...settings] = row
  return { text, count: numberIn(count) ?? 0, total: numberIn(total), settings }
}

const numberIn = (cell: Cell | undefined): number | undefined =>
  cell ? Number(cell.toString('latin1')) : undefined

/** SQLSTATEs with which a statement rejects its own result. The message is the number of rows. */
export const raisedCodes = { schemaChanged: 'PLV01', notOneRow: 'PLS01', tooManyRows: 'PLM01' } as const

/** `rows` is the alias of the rows; `names` are their columns; `row` is a whole row, for an aggregate that takes one. */
export function textSql(
  form: Form,
  rows: string,
  names: readonly string[],
  catalog: Catalog,
  row = `${rows}.*`,
): string {
  switch (form.kind) {
    case 'array':
      return stripped(form, `coalesce(pg_catalog.json_agg(${rows}.*), '[]')`)
    case 'object':
      return stripped(form, `pg_catalog.json_agg(${rows}.*) -> 0`)
    case 'csv':
      return csvSql(names, csvRow(rows, names))
    case 'geojson': {
      const feature = `${identifier(catalog.extension('postgis')!)}.st_asgeojson(${rows}.*)::json`
      return `pg_catalog.json_build_object('type', 'FeatureCollection', 'features', coalesce(pg_catalog.json_agg(${feature}), '[]'))`
    }
    case 'handled':
      return rawTextSql(`${qualified(form.by)}(${row})`, form.by.isBinary)
    case 'none':
    case 'value':
      return 'null'
  }
}

/** The values of a function one after the other. */
export const valueTextSql = ({ isBinary }: Form & { kind: 'value' }, value: string): string =>
  `pg_catalog.string_agg(${rawTextSql(value, isBinary)}, '')`

/** Bytes are sent in hexadecimal digits. */
const rawTextSql = (value: string, isBinary: boolean): string =>
  isBinary ? `pg_catalog.encode((${value})::bytea, 'hex')` : `(${value})::text`

const stripped = ({ stripsNulls }: { stripsNulls: boolean }, sql: string) =>
  stripsNulls ? `pg_catalog.json_strip_nulls(${sql})` : sql

const csvRow = (rows: string, names: readonly string[]): string =>
  names.length === 0
    ? `''`
    : names.map(name => csvCell(`${rows}.${identifier(name)}::text`)).join(` || ',' || `)

/** Null is an empty cell, and an empty text is a pair of quotes. */
const csvCell = (text: string): string =>
  `case when ${text} is null then '' when ${text} ~ '[",\\n\\r]' or ${text} = '' then '"' || pg_catalog.replace(${text}, '"', '""') || '"' else ${text} end`

/** The line of names, then the rows. Postgres concatenates them, so that a large answer is not copied here. */
export const csvSql = (names: readonly string[], row: string): string =>
  `${literal(csvNames(names))} || coalesce(E'\\n' || nullif(pg_catalog.string_agg(${row}, E'\\n'), ''), '')`

const csvNames = (names: readonly string[]): string =>
  names.map(name => (/[",\n\r]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(',')

/**
 * Fails the statement when the schema has changed since it was planned. Every change takes a number of the sequence before
 * its commit, so the last number tells that there was none. Otherwise the function looks at the committed version, because
 * the change may not be committed yet.
 */
const checkedSql = ({ version }: Catalog, current: string, required: (value: string) => string): string =>
  `case when pg_catalog.pg_sequence_last_value('platform.catalog_versions'::pg_catalog.regclass) = ${version} then ${current} else ${required(`platform.require_current(${version})`)} end`

/**
 * A condition for the outermost query of a statement. It refers to no column, so Postgres evaluates it once and before it
 * reads the first row: until then no function is called and nothing is written.
 */
export const isCurrentSql = (catalog: Catalog): string =>
  `(select ${checkedSql(catalog, 'true', value => `${value} is null`)})`

/**
 * A column that is null, or fails the statement after its rows were read. Cheaper than the condition, for statements without
 * effects.
 */
export const nullIfCurrentSql = (catalog: Catalog): string => checkedSql(catalog, 'null', value => value)

const oneRowSql = (count: string): string =>
  `case when ${count} <> 1 then platform.refuse('${raisedCodes.notOneRow}', (${count})::text) end`

export const atMostSql = (count: string, max: number | string): string =>
  `case when ${count} > ${max} then platform.refuse('${raisedCodes.tooManyRows}', (${count})::text) end`
