// Gives a copy of a project database to another project. In the copy everything belongs to the logins of the first one:
// owners, grants, default privileges and policies. DROP OWNED is not used, because it also takes the rights of those logins on
// their own database and their memberships in roles. Nothing here runs code of a tenant.
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { loginRole, logins } from './logins.ts'

/** The copy has something that cannot be given to the other project as it is. */
export class NotAdoptable extends Error {}

/** In one transaction. Throws NotAdoptable if something would still belong to the first project. */
export function adoptDatabase(
  address: ServerAddress,
  database: string,
  refs: { from: string; to: string },
): Promise<void> {
  const roles = new Map(logins.map(login => [loginRole(refs.from, login), loginRole(refs.to, login)]))
  return withClient(address, database, guardedSettings, async session => {
    await session.script('begin')
    for (const [from, to] of roles)
      await session.script(`reassign owned by ${identifier(from)} to ${identifier(to)}`)
    await checkNumber(session, roles)
    const statements = [
      ...(await rightsStatements(session, roles)),
      ...(await defaultRightsStatements(session, roles)),
      ...(await policyStatements(session, roles)),
    ]
    for (const statement of statements) await session.script(statement)
    await checkAdopted(session, [...roles.keys()])
    await session.script('commit')
  })
}

type Roles = ReadonlyMap<string, string>

const namesOf = (roles: Roles) => [...roles.keys()]
/** A role as a statement names it. Null is PUBLIC. */
const quoted = (role: string | null) => (role === null ? 'public' : identifier(role))

interface Right {
  /** Of the object as GRANT names it, such as `table public.things`. */
  subject: string
  column: string | null
  role: string
  privilege: string
  is_grantable: boolean
  /** Granted by the owner of the object, as all grants of a superuser are. */
  is_of_owner: boolean
}

/** Their statements run one by one, and are built at once. */
const maxRights = 5000
const maxSubjectCharacters = 4 * 1024 * 1024

/** Those of owners were given away with the objects. */
const rightsOf = (roles: Roles): SqlFragment => sql`
  with objects as (
    select case relkind when 'S' then 'sequence ' else 'table ' end || oid::regclass as subject,
           null::text as column, relowner as owner, relacl as acl from pg_class
    union all
    select 'table ' || c.oid::regclass, quote_ident(a.attname), c.relowner, a.attacl
      from pg_attribute a join pg_class c on c.oid = a.attrelid where a.attacl is not null
    union all select 'routine ' || oid::regprocedure, null, proowner, proacl from pg_proc
    union all select 'schema ' || quote_ident(nspname), null, nspowner, nspacl from pg_namespace
    union all select 'type ' || oid::regtype, null, typowner, typacl from pg_type
    union all select 'language ' || quote_ident(lanname), null, lanowner, lanacl from pg_language
    union all select 'large object ' || oid, null, lomowner, lomacl from pg_largeobject_metadata)
  select o.subject, o.column, grantee.rolname as role, a.privilege_type as privilege, a.is_grantable,
         a.grantor = o.owner as is_of_owner
    from objects o cross join lateral aclexplode(o.acl) a join pg_roles grantee on grantee.oid = a.grantee
   where grantee.rolname = any(${namesOf(roles)})`

/** Before anything is read, because a project can have any number of them. */
async function checkNumber(session: Session, roles: Roles): Promise<void> {
  const names = namesOf(roles)
  const found = await session.row<{ rights: number; characters: number }>(sql`
    with default_right as (
      select from pg_default_acl d cross join lateral aclexplode(d.defaclacl) a
       where d.defaclrole = any(select oid from pg_roles where rolname = any(${names}))
          or exists (select from aclexplode(d.defaclacl) other join pg_roles r on r.oid = other.grantee where r.rolname = any(${names}))
    ), policy_role as (
      select from pg_policy p cross join lateral unnest(p.polroles)
       where exists (select from pg_roles r where r.oid = any(p.polroles) and r.rolname = any(${names})))
    select (count(*) + (select count(*) from default_right) + (select count(*) from policy_role))::float as rights,
           coalesce(sum(length(granted.subject)), 0)::float as characters
      from (${rightsOf(roles)}) granted`)
  if (found!.rights > maxRights || found!.characters > maxSubjectCharacters)
    throw new NotAdoptable(`its logins have ${found!.rights} rights, which is too many to change one by one`)
}

async function rightsStatements(session: Session, roles: Roles): Promise<string[]> {
  const rights = await session.rows<Right>(rightsOf(roles))
  if (rights.some(each => !each.is_of_owner))
    throw new NotAdoptable('rights were granted by another role than the owner of the object')
  const on = ({ subject, column }: Right, privilege: string) =>
    `${privilege}${column === null ? '' : ` (${column})`} on ${subject}`
  const revoked = new Set(rights.map(each => `revoke ${on(each, 'all')} from ${quoted(each.role)}`))
  const granted = rights.map(
    each =>
      `grant ${on(each, each.privilege)} to ${quoted(roles.get(each.role)!)}${each.is_grantable ? ' with grant option' : ''}`,
  )
  // All are revoked first, because revoking a right on a table also revokes it on the columns.
  return [...revoked, ...granted]
}

interface DefaultRight {
  role: string
  schema: string | null
  kind: string
  /** As the row has them, and as they are without a row. */
  rights: { role: string | null; privilege: string; is_grantable: boolean }[]
  usual: { role: string | null; privilege: string; is_grantable: boolean }[]
}

/** A row that has the usual rights again is deleted by Postgres. */
async function defaultRightsStatements(session: Session, roles: Roles): Promise<string[]> {
  const listed = (acl: 'd.defaclacl' | 'usual.acl') => sql`
    (select coalesce(json_agg(json_build_object('role', r.rolname, 'privilege', a.privilege_type, 'is_grantable', a.is_grantable)), '[]')
       from aclexplode(${acl === 'd.defaclacl' ? sql`d.defaclacl` : sql`usual.acl`}) a left join pg_roles r on r.oid = a.grantee)`
  const found = await session.rows<DefaultRight>(sql`
    select owner.rolname as role, n.nspname as schema,
           case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions'
             when 'T' then 'types' when 'n' then 'schemas' else 'large objects' end as kind,
           ${listed('d.defaclacl')} as rights, ${listed('usual.acl')} as usual
      from pg_default_acl d join pg_roles owner on owner.oid = d.defaclrole
      left join pg_namespace n on n.oid = d.defaclnamespace
      cross join lateral (
        select case when d.defaclnamespace = 0
                 then acldefault(case d.defaclobjtype when 'S' then 's' else d.defaclobjtype end::"char", d.defaclrole) end as acl) usual
     where owner.rolname = any(${namesOf(roles)})
        or exists (select from aclexplode(d.defaclacl) a join pg_roles r on r.oid = a.grantee
                    where r.rolname = any(${namesOf(roles)}))`)
  return found.flatMap(({ role, schema, kind, rights, usual }) => {
    const owner = roles.get(role) ?? role
    const into = schema === null ? '' : ` in schema ${identifier(schema)}`
    const all = (of: string) => `alter default privileges for role ${identifier(of)}${into}`
    const renamed = (grantee: string | null) =>
      grantee === null ? null : (roles.get(grantee) ?? (grantee === role ? owner : grantee))
    const revoke = (of: string, grantees: Iterable<string | null>) =>
      [...new Set(grantees)].map(grantee => `${all(of)} revoke all on ${kind} from ${quoted(grantee)}`)
    const grant = (of: string, some: DefaultRight['rights'], name: (role: string | null) => string | null) =>
      some.map(
        each =>
          `${all(of)} grant ${each.privilege} on ${kind} to ${quoted(name(each.role))}${each.is_grantable ? ' with grant option' : ''}`,
      )
    const before = rights.map(each => each.role)
    return [
      ...revoke(role, before),
      ...(owner === role ? [] : grant(role, usual, same => same)),
      ...revoke(
        owner,
        usual.map(each => renamed(each.role)),
      ),
      ...grant(owner, rights, renamed),
    ]
  })
}

async function policyStatements(session: Session, roles: Roles): Promise<string[]> {
  const policies = await session.rows<{ name: string; table: string; roles: (string | null)[] }>(sql`
    select p.polname as name, p.polrelid::regclass::text as table,
           (select json_agg(r.rolname order by each.place)
              from unnest(p.polroles) with ordinality as each (role, place) left join pg_roles r on r.oid = each.role) as roles
      from pg_policy p
     where exists (select from pg_roles r where r.oid = any(p.polroles) and r.rolname = any(${namesOf(roles)}))`)
  return policies.map(
    ({ name, table, roles: before }) =>
      `alter policy ${identifier(name)} on ${table} to ${before.map(role => quoted(role === null ? null : (roles.get(role) ?? role))).join(', ')}`,
  )
}

/** Otherwise the first project could never be deleted, and the other one could be changed by it. */
async function checkAdopted(session: Session, roles: readonly string[]): Promise<void> {
  const left = await session.row<{ what: string }>(sql`
    select pg_describe_object(s.classid, s.objid, s.objsubid) as what
      from pg_shdepend s join pg_roles r on s.refclassid = 'pg_authid'::regclass and r.oid = s.refobjid
     where s.dbid = (select oid from pg_database where datname = current_database()) and r.rolname = any(${roles})
     limit 1`)
  if (left) throw new NotAdoptable(`${left.what} still belongs to the other project`)
}
