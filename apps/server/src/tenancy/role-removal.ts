// Drops the logins of a deleted project. Their names are visible, so another project can grant them rights in its own database
// or name them in a policy. Postgres drops no role that a database names, so that is removed there first. These sessions
// are superusers in databases of tenants: event triggers are off, and DROP OWNED and REVOKE run no other code. Before Postgres
// 17 event triggers stay on, but only a superuser can create one.
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { DatabaseError, sqlState } from '#src/kernel/postgres/database-error.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { tenantLogin } from './logins.ts'

interface RoleRemoval {
  address: ServerAddress
  /** Ends sessions of tenants that block the session. */
  insist<T>(session: Session, work: () => Promise<T>): Promise<T>
  signal: AbortSignal | undefined
}

const stillNamed = '2BP01'
const maxAttempts = 3
const eventTriggersCanBeOff = 170000

/** False if another database still names the roles, for example because a tenant grants them rights again and again. */
export async function dropRoles(
  session: Session,
  roles: readonly string[],
  removal: RoleRemoval,
): Promise<boolean> {
  for (let attempt = 1; ; attempt++)
    try {
      await removal.insist(session, () => session.script(`drop role if exists ${listed(roles)}`))
      return true
    } catch (error) {
      if (sqlState(error) !== stillNamed) throw error
      if (attempt > maxAttempts) return false
      const existing = await listExisting(session, roles)
      for (const database of await listNaming(session, existing))
        await removeNames(database, existing, removal, attempt > 1).catch(ignoreDatabaseError)
    }
}

const listed = (roles: readonly string[]) => roles.map(identifier).join(', ')

/** What happens in the database of another project must not keep this one from being deleted. */
function ignoreDatabaseError(error: unknown): void {
  if (!(error instanceof DatabaseError)) throw error
}

/** A project that was not upgraded yet may lack one. */
async function listExisting(session: Session, roles: readonly string[]): Promise<string[]> {
  const found = await session.rows<{ rolname: string }>(
    sql`select rolname from pg_roles where rolname = any(${roles})`,
  )
  return found.map(({ rolname }) => rolname)
}

const ofRoles = (roles: readonly string[]) => sql`
  from pg_shdepend s join pg_roles r on s.refclassid = 'pg_authid'::regclass and r.oid = s.refobjid
 where r.rolname = any(${roles})`

/** Those of objects that belong to no database, such as databases, can be removed in any. */
async function listNaming(session: Session, roles: readonly string[]): Promise<string[]> {
  const found = await session.rows<{ name: string }>(sql`
    select d.datname as name from pg_database d
     where d.oid in (select case s.dbid when 0 then (select oid from pg_database where datname = current_database()) else s.dbid end
                     ${ofRoles(roles)})
       and d.datallowconn`)
  return found.map(({ name }) => name)
}

function removeNames(
  database: string,
  roles: readonly string[],
  { address, insist, signal }: RoleRemoval,
  endsSessions: boolean,
): Promise<void> {
  const work = async (session: Session) => {
    await disableEventTriggers(session)
    await session.script('begin')
    if (await ownAnything(session, roles)) return
    if (endsSessions) await session.run(endTenants)
    await session.script(`drop owned by ${listed(roles)}`)
    // DROP OWNED revokes as the owner of the object, which leaves rights that other roles have granted.
    for (const { subject, columns, role, grantor } of await listRights(session, roles))
      await session.script(
        `set local role ${identifier(grantor)}; revoke all ${columns} on ${subject} from ${identifier(role)} cascade; reset role`,
      )
    await session.script('commit')
  }
  return withClient(address, database, guardedSettings, session => insist(session, () => work(session)), {
    signal,
  })
}

async function disableEventTriggers(session: Session): Promise<void> {
  const server = await session.row<{ version: number }>(
    sql`select current_setting('server_version_num')::int as version`,
  )
  if (server!.version >= eventTriggersCanBeOff) await session.script('set event_triggers = off')
}

/**
 * DROP OWNED drops objects, too. No login owns any in the database of another project, except while that is a copy that is
 * being given to the other project. A tenant can only make a user mapping, which belongs to the user that it is for.
 */
async function ownAnything(session: Session, roles: readonly string[]): Promise<boolean> {
  const owned = await session.row(sql`
    select ${ofRoles(roles)} and s.deptype = 'o' and s.classid <> 'pg_user_mapping'::regclass
       and s.dbid = (select oid from pg_database where datname = current_database())
     limit 1`)
  return owned !== undefined
}

interface Right {
  /** As REVOKE names the object, such as `table public.things`. */
  subject: string
  /** Such as `(a)`, or empty. */
  columns: string
  role: string
  grantor: string
}

/** Of the kinds of objects that a tenant can make. */
const listRights = (session: Session, roles: readonly string[]) =>
  session.rows<Right>(sql`
    with objects as (
      select case relkind when 'S' then 'sequence ' else 'table ' end || oid::regclass as subject, '' as columns, relacl as acl
        from pg_class where relacl is not null
      union all
      select 'table ' || attrelid::regclass, '(' || quote_ident(attname) || ')', attacl from pg_attribute where attacl is not null
      union all select 'routine ' || oid::regprocedure, '', proacl from pg_proc where proacl is not null
      union all select 'schema ' || quote_ident(nspname), '', nspacl from pg_namespace where nspacl is not null
      union all select 'type ' || oid::regtype, '', typacl from pg_type where typacl is not null
      union all select 'large object ' || oid, '', lomacl from pg_largeobject_metadata where lomacl is not null)
    select distinct o.subject, o.columns, r.rolname as role, grantor.rolname as grantor
      from objects o cross join lateral aclexplode(o.acl) a
      join pg_roles r on r.oid = a.grantee join pg_roles grantor on grantor.oid = a.grantor
     where r.rolname = any(${roles})`)

const endTenants = sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where datname = current_database() and usename ~ ${tenantLogin}`
