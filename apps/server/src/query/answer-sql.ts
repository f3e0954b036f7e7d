// How rows become an answer inside Postgres: one row of one text, a count, and the check that the schema the
// statement was made for is still the one there is.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import type { Catalog } from './catalog.ts'

/** What the client wants to see of the rows. */
export type Form =
  | { readonly kind: 'array' | 'object'; readonly stripsNulls: boolean }
  | { readonly kind: 'csv' | 'geojson' | 'none' }

/** SQLSTATEs a statement raises to refuse its own result; the message is the number of rows. */
export const refusals = { catalogMoved: 'PLV01', notOneRow: 'PLS01', tooManyRows: 'PLM01' } as const

/** `rows` is the alias of the rows; `names` are their columns. */
export function bodySql(form: Form, rows: string, names: readonly string[], catalog: Catalog): string {
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
    case 'none':
      return 'null'
  }
}

const stripped = ({ stripsNulls }: { stripsNulls: boolean }, sql: string) =>
  stripsNulls ? `pg_catalog.json_strip_nulls(${sql})` : sql

const csvRow = (rows: string, names: readonly string[]): string =>
  names.length === 0
    ? `''`
    : names.map(name => csvCell(`${rows}.${identifier(name)}::text`)).join(` || ',' || `)

/** Null is nothing, an empty text is a pair of quotes. */
const csvCell = (text: string): string =>
  `case when ${text} is null then '' when ${text} ~ '[",\\n\\r]' or ${text} = '' then '"' || pg_catalog.replace(${text}, '"', '""') || '"' else ${text} end`

/** The line of names, then those of the rows: put together there, since a large answer is not copied here. */
export const csvSql = (names: readonly string[], row: string): string =>
  `${literal(csvHeader(names))} || coalesce(E'\\n' || nullif(pg_catalog.string_agg(${row}, E'\\n'), ''), '')`

const csvHeader = (names: readonly string[]): string =>
  names.map(name => (/[",\n\r]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(',')

/** Ends the statement, and undoes what it did, when the schema is no longer the one it was made for. */
export const guardSql = ({ version }: Catalog): string =>
  `case when exists (select from platform.catalog_version where version > ${version}) then platform.refuse('${refusals.catalogMoved}', '') end`

/** The body, or the end of the statement, when there must be exactly one row. */
export const onlyOneSql = (count: string, body: string): string =>
  `case when ${count} = 1 then ${body} else platform.refuse('${refusals.notOneRow}', (${count})::text)::json end`

export const atMostSql = (count: string, most: number): string =>
  `case when ${count} > ${most} then platform.refuse('${refusals.tooManyRows}', (${count})::text) end`

/** What functions and triggers may have set for the answer. */
export const responseSql = `pg_catalog.current_setting('response.headers', true), pg_catalog.current_setting('response.status', true)`
