// Realtime settings of tables. platform.realtime_tables has rows only for tables that differ from the default: captured,
// not public. A dropped table loses its row.
import type { RealtimeTable, RealtimeTableInput } from '@plinth/contract/realtime.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { qualified } from '#src/kernel/postgres/name.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

/** Tables of extensions are never captured. */
const tables = sql`
  pg_catalog.pg_class c
  left join platform.realtime_tables t on t.relid = c.oid
  where c.relnamespace = pg_catalog.to_regnamespace('public') and c.relkind in ('r', 'p')
    and not exists (select from pg_catalog.pg_depend d
                     where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype = 'e')`

const table = sql`
  'public' as schema, c.relname as "table", coalesce(t.cdc_enabled, true) as cdc_enabled,
  c.relrowsecurity as rls_enabled, coalesce(t.realtime_public, false) as realtime_public`

export async function listTables(
  session: Session,
  { limit, offset }: Paging,
): Promise<{ tables: RealtimeTable[]; total: number }> {
  const found = await session.rows<RealtimeTable>(
    sql`select ${table} from ${tables} order by c.relname limit ${limit} offset ${offset}`,
  )
  const count = await session.row<{ total: number }>(sql`select count(*)::int as total from ${tables}`)
  return { tables: found, total: count?.total ?? 0 }
}

/** Undefined if changes of the relation cannot be captured. */
export const readTable = (session: Session, relation: number) =>
  session.row<RealtimeTable>(sql`select ${table} from ${tables} and c.oid = ${relation}`)

/** Access share mode blocks DROP TABLE until the transaction ends, but no reads or writes. */
export const lockTable = (session: Session, name: string) =>
  session.run(raw(`lock table only ${qualified('public', name)} in access share mode`))

/** Fields that are undefined keep their value. */
export async function saveTable(
  session: Session,
  relation: number,
  update: RealtimeTableInput,
): Promise<void> {
  const { cdc_enabled = null, realtime_public = null } = update
  await session.run(sql`
    insert into platform.realtime_tables as t (relid, cdc_enabled, realtime_public)
    values (${relation}, coalesce(${cdc_enabled}::boolean, true), coalesce(${realtime_public}::boolean, false))
    on conflict (relid) do update
       set cdc_enabled = coalesce(${cdc_enabled}::boolean, t.cdc_enabled),
           realtime_public = coalesce(${realtime_public}::boolean, t.realtime_public)`)
  await session.run(sql`
    delete from platform.realtime_tables where relid = ${relation} and cdc_enabled and not realtime_public`)
}
