// Reads row-level security from the catalogue, as the project's owner.
import type { Policy, RlsStatus } from '@plinth/contract/rls.ts'
import type { Role } from '@plinth/contract/route.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const status = sql`
  n.nspname as schema, c.relname as "table", c.relrowsecurity as enabled, c.relforcerowsecurity as forced,
  (select count(*)::int from pg_catalog.pg_policy p where p.polrelid = c.oid) as policy_count`

const tablesOf = (schema: string) => sql`
  pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = ${schema}::text
   and c.relkind in ('r', 'p')`

export async function listStatus(
  session: Session,
  schema: string,
  { limit, offset }: Paging,
): Promise<{ tables: RlsStatus[]; total: number }> {
  const tables = await session.rows<RlsStatus>(
    sql`select ${status} from ${tablesOf(schema)} order by c.relname limit ${limit} offset ${offset}`,
  )
  const count = await session.row<{ total: number }>(
    sql`select count(*)::int as total from ${tablesOf(schema)}`,
  )
  return { tables, total: count?.total ?? 0 }
}

export interface OpenTables {
  schema: string
  /** The first ones by name. */
  tables: string[]
  total: number
}

/** Tables without row-level security. Tables of extensions belong to the superuser, who grants nothing on them. */
export const listOpenTables = (session: Session, schemas: readonly string[], limit: number) =>
  session.rows<OpenTables>(sql`
    select n.nspname as schema, (array_agg(c.relname::text order by c.relname))[1:${limit}::int] as tables,
           count(*)::int as total
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any(${schemas}::text[]) and c.relkind in ('r', 'p') and not c.relrowsecurity
       and not exists (select from pg_catalog.pg_depend d
             where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype = 'e')
     group by n.nspname order by n.nspname`)

export const readStatus = (session: Session, schema: string, table: string) =>
  session.row<RlsStatus>(sql`select ${status} from ${tablesOf(schema)} where c.relname = ${table}::text`)

const policy = sql`
  n.nspname as schema, c.relname as "table", p.polname as name, p.polpermissive as permissive,
  case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE'
    else 'ALL' end as command,
  (select json_agg(case r when 0 then 'public' else pg_get_userbyid(r) end order by r) from unnest(p.polroles) r) as roles,
  pg_get_expr(p.polqual, p.polrelid) as "using", pg_get_expr(p.polwithcheck, p.polrelid) as with_check`

const policiesOf = (relation: number) => sql`
  pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace where p.polrelid = ${relation}`

export async function listPolicies(
  session: Session,
  relation: number,
  { limit, offset }: Paging,
): Promise<{ policies: Policy[]; total: number }> {
  const policies = await session.rows<Policy>(
    sql`select ${policy} from ${policiesOf(relation)} order by p.polname limit ${limit} offset ${offset}`,
  )
  const count = await session.row<{ total: number }>(
    sql`select count(*)::int as total from ${policiesOf(relation)}`,
  )
  return { policies, total: count?.total ?? 0 }
}

export const readPolicy = (session: Session, relation: number, name: string) =>
  session.row<Policy>(sql`select ${policy} from ${policiesOf(relation)} and p.polname = ${name}::text`)

export const listPolicyNames = async (session: Session, relation: number) =>
  (
    await session.rows<{ name: string }>(
      sql`select polname as name from pg_catalog.pg_policy where polrelid = ${relation}`,
    )
  ).map(({ name }) => name)

/** The policies that apply to this role, with qualified names, so that the search path has no effect. */
export async function listApplicable(session: Session, relation: number, role: Role): Promise<Policy[]> {
  await session.run(sql`select pg_catalog.set_config('search_path', 'pg_catalog', true)`)
  return session.rows<Policy>(sql`
    select ${policy} from ${policiesOf(relation)}
       and exists (select from unnest(p.polroles) r where r = 0 or pg_has_role(${role}, r, 'USAGE'))
     order by p.polname`)
}
