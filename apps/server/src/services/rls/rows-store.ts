// Reads rows as the table owner, who bypasses policies. Rows are JSON text, because JavaScript numbers cannot represent all
// values.
import type { Session } from '#src/kernel/postgres/database.ts'
import { qualified } from '#src/kernel/postgres/name.ts'
import { identifier, literal, raw, sql } from '#src/kernel/postgres/sql.ts'
import { refused } from '#src/planes/management/owner-work.ts'

export interface TableShape {
  schema: string
  table: string
  columns: readonly string[]
}

export interface StoredRow {
  /** The ctid; empty for a row that does not exist yet. */
  tableoid: string
  ctid: string
  text: string
}

export const listColumns = async (session: Session, relation: number) =>
  (
    await session.rows<{ name: string }>(sql`
      select attname as name from pg_catalog.pg_attribute
       where attrelid = ${relation} and attnum > 0 and not attisdropped order by attnum`)
  ).map(({ name }) => name)

/** Sets the claims, because defaults and triggers may read them. */
export const pretend = (session: Session, claims: string, userId: string) =>
  session.run(sql`
    select pg_catalog.set_config('request.jwt.claims', ${claims}, true),
           pg_catalog.set_config('request.user_id', ${userId}, true),
           pg_catalog.set_config('search_path', 'pg_catalog, public, extensions, pg_temp', true)`)

/** The ctid of every row, and the values of the first `limit` rows. */
export function selectRows(shape: TableShape, limit: number): string {
  const whole = wholeRow(shape)
  return `select ${whole}.tableoid::text as tableoid, ${whole}.ctid::text as ctid, pg_catalog.to_jsonb(${whole})::text as text
    from ${qualified(shape.schema, shape.table)} as ${whole} limit ${limit}`
}

/** `value` is SQL for a jsonb object with these names. */
export function insertRow(shape: TableShape, names: readonly string[], value: string): string {
  const table = qualified(shape.schema, shape.table)
  const into = `insert into ${table} as ${wholeRow(shape)}`
  if (names.length === 0) return `${into} default values`
  const list = (prefix: string) => names.map(name => prefix + identifier(name)).join(', ')
  return `${into} (${list('')}) select ${list('given.')} from ${populated(table, value)} as given`
}

/** Converts a jsonb object to a row of the table's type. */
export const populated = (table: string, value: string) =>
  `pg_catalog.jsonb_populate_record(null::${table}, ${value})`

export const sample = (session: Session, shape: TableShape, limit: number): Promise<StoredRow[]> =>
  session.rows<StoredRow>(raw(selectRows(shape, limit))).catch(error => refused(error))

/** The row with its defaults. If the owner cannot insert it, the row as given. */
export async function asInserted(
  session: Session,
  shape: TableShape,
  given: Record<string, unknown>,
): Promise<StoredRow> {
  const text = JSON.stringify(given)
  const insert = insertRow(shape, Object.keys(given), `${literal(text)}::jsonb`)
  const inserted = await session
    .row<{ text: string }>(raw(`${insert} returning pg_catalog.to_jsonb(${wholeRow(shape)})::text as text`))
    .catch(() => undefined)
  return { tableoid: '', ctid: '', text: inserted?.text ?? text }
}

/** An alias for the whole row that no column has, because a column of the same name takes precedence. */
function wholeRow({ columns }: TableShape): string {
  let name = 'whole'
  while (columns.includes(name)) name += '_'
  return name
}
