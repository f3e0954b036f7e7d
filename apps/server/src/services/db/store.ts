// The table of applied migrations in the project database, in the layout of the Supabase CLI. The project's owner owns it, so
// all statements run in the owner's session with qualified names.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { arrayPieces } from '#src/kernel/text-list.ts'
import type { Migration } from './migration.ts'

export interface MigrationRecord {
  version: string
  name: string
  checksum: string | null
  applied_at: string | null
}

export const hasRecords = async (session: Session): Promise<boolean> =>
  (await session.row(
    sql`select from pg_catalog.pg_class where oid = pg_catalog.to_regclass('supabase_migrations.schema_migrations')`,
  )) !== undefined

/** Another tool may have created the table with fewer columns. */
export const createRecords = (session: Session) =>
  session.script(`
    create schema if not exists supabase_migrations;
    create table if not exists supabase_migrations.schema_migrations (version text primary key);
    alter table supabase_migrations.schema_migrations
      add column if not exists statements text[],
      add column if not exists name text,
      add column if not exists checksum text,
      add column if not exists applied_at timestamptz default now()`)

/** Twice the limit of one request. */
const maxRecords = 20_000

/**
 * Unordered, and without the statements, which can be large. The owner can write any values into this table.
 */
export async function findRecords(session: Session): Promise<MigrationRecord[]> {
  if (!(await hasRecords(session))) return []
  const rows = await session.rows<{ record: Partial<Record<keyof MigrationRecord, unknown>> }>(
    sql`select pg_catalog.to_jsonb(m) operator(pg_catalog.-) 'statements'::pg_catalog.text as record
          from supabase_migrations.schema_migrations m limit ${maxRecords + 1}`,
  )
  if (rows.length > maxRecords)
    throw new Refusal(
      'invalid_request',
      `supabase_migrations.schema_migrations has more than ${maxRecords} rows; delete those that are no migrations`,
    )
  return rows.flatMap(({ record: { version, name, checksum, applied_at } }) => {
    if (version === undefined || version === null) return []
    const at = new Date(String(applied_at ?? ''))
    return {
      version: String(version),
      name: String(name ?? ''),
      checksum: typeof checksum === 'string' ? checksum : null,
      applied_at: Number.isNaN(at.getTime()) ? null : at.toISOString(),
    }
  })
}

/**
 * Statements by version; null if another tool recorded none. One row per statement, because the driver would decode an array
 * of megabytes synchronously.
 */
export async function findStatements(
  session: Session,
  versions: readonly string[],
): Promise<Map<string, string[] | null>> {
  const rows = await session.rows<{ version: string; statement: string | null; is_list: boolean }>(sql`
    select version::pg_catalog.text as version, each.statement,
           coalesce(pg_catalog.jsonb_typeof(m.statements), '') operator(pg_catalog.=) 'array' as is_list
      from (select version, pg_catalog.to_jsonb(r) operator(pg_catalog.->) 'statements'::pg_catalog.text as statements
              from supabase_migrations.schema_migrations r
             where version::pg_catalog.text operator(pg_catalog.=) any(${[...versions]}::pg_catalog.text[])) m
      left join lateral pg_catalog.jsonb_array_elements_text(
        case pg_catalog.jsonb_typeof(m.statements) when 'array' then m.statements else '[]' end
      ) with ordinality as each(statement, place) on true
     order by version, each.place`)
  const found = new Map<string, string[] | null>()
  for (const { version, statement, is_list: isList } of rows) {
    if (!found.has(version)) found.set(version, isList ? [] : null)
    if (statement !== null) found.get(version)?.push(statement)
  }
  return found
}

export async function recordMigration(
  session: Session,
  { version, name, checksum, statements }: Pick<Migration, 'version' | 'name' | 'checksum' | 'statements'>,
): Promise<number> {
  const texts = await inSlices(arrayOf(statements.map(({ text }) => text)))
  return session.run(sql`
    insert into supabase_migrations.schema_migrations (version, name, checksum, statements, applied_at)
    values (${version}, ${name}, ${checksum}, ${texts}::pg_catalog.text[], pg_catalog.clock_timestamp())`)
}

/** The driver would encode an array of megabytes synchronously. */
function* arrayOf(texts: readonly string[]): Sliced<string> {
  const pieces: string[] = []
  for (const piece of arrayPieces(texts)) {
    pieces.push(piece)
    yield
  }
  return pieces.join('')
}

export const forgetMigrations = (session: Session) =>
  session.script('delete from supabase_migrations.schema_migrations')

/** Does not wait in Postgres: a waiting session holds a snapshot, which blocks CREATE INDEX CONCURRENTLY. */
export const tryLock = async (session: Session): Promise<boolean> =>
  (await session.row<{ is_ours: boolean }>(
    sql`select pg_catalog.pg_try_advisory_lock(${lockKey}::pg_catalog.int8) as is_ours`,
  ))!.is_ours

export const unlock = (session: Session) =>
  session.run(sql`select pg_catalog.pg_advisory_unlock(${lockKey}::pg_catalog.int8)`)

/** The lock key: "plinth" and a number for migrations, as eight bytes. */
const lockKey = '8100965752852971521'

/** Resets the session after a migration, but keeps the advisory lock. */
export const freshSession = (session: Session) =>
  session.script(`
    reset session authorization;
    reset all;
    set search_path = "$user", public, extensions;
    set client_connection_check_interval = '2s';
    deallocate all;
    close all;
    unlisten *;
    discard temp`)
