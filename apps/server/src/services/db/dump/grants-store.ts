// Reads the grants on the objects of the project, and those that a new object of the same kind has.
import { raw, type SqlFragment } from '#src/kernel/postgres/sql.ts'

/** Privileges by role. Names are quoted where needed, and `public` stands for everybody. */
export type Rights = Readonly<Record<string, readonly string[]>>

export interface ObjectGrants {
  /** `class:oid`, as that of a definition. */
  id: string
  /** As in GRANT: `table public.things`. */
  object: string
  /** For the sequence of an identity column: its table and name. */
  identityOf: string | null
  actual: Rights
  expected: Rights
}

export interface ColumnGrants {
  table: string
  column: string
  actual: Rights
  /** It is part of every project. */
  isOfPlatform: boolean
}

export interface DefaultGrants {
  /** `in schema x `, or empty for all schemas. */
  place: string
  kind: 'tables' | 'sequences' | 'functions'
  caller: string
  expected: string[]
  actual: string[]
}

/** Those whom requests act as. */
export const sharedCallers: readonly string[] = ['public', 'anon', 'authenticated', 'service_role']

/** With the logins of the project. */
const callers = `caller (oid, name, is_shared) as materialized (
  select 0::oid, 'public', true union all
  select r.oid, quote_ident(r.rolname), r.rolname in ('anon', 'authenticated', 'service_role') from pg_roles r
   where r.rolname in ('anon', 'authenticated', 'service_role')
      or starts_with(r.rolname, regexp_replace(current_user, '_owner$', '_')) and r.rolname <> current_user)`

const place = `place as (
  select n.oid, n.nspname, n.nspacl, n.nspowner from pg_namespace n
   where n.nspowner = (select r.oid from pg_roles r where r.rolname = current_user)
     and n.nspname <> 'supabase_migrations' and n.nspname !~ '^pg_')`

/** Tables of the project in schemas of the platform. They have no grants of a new object. */
const ofPlatform = `of_platform as (
  select c.oid, n.nspname, c.relname, c.relacl, c.relowner from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where n.nspname in ('storage', 'realtime') and c.relkind in ('r', 'p')
     and n.oid not in (select oid from place) and c.relowner = (select r.oid from pg_roles r where r.rolname = current_user))`

const notOfExtension = (catalogue: string, oid: string) =>
  `not exists (select from pg_depend e where e.classid = '${catalogue}'::regclass and e.objid = ${oid} and (e.deptype = 'e' or e.deptype = 'i' and e.classid = 'pg_proc'::regclass))`

const object = `object (id, name, acl, kind, is_public, identity_of) as (
  select 'pg_namespace:' || p.oid, format('schema %I', p.nspname), coalesce(p.nspacl, acldefault('n', p.nspowner)), 'schema', p.nspname = 'public', null
    from place p
  union all
  select 'pg_class:' || c.oid, format('%s %I.%I', case c.relkind when 'S' then 'sequence' else 'table' end, p.nspname, c.relname),
         coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's'::"char" else 'r'::"char" end, c.relowner)),
         case c.relkind when 'S' then 'sequence' when 'm' then 'closed' else 'table' end, p.nspname = 'public',
         (select format('%s %I', a.attrelid::regclass, a.attname) from pg_depend d
            join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
           where c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i')
    from pg_class c join place p on p.oid = c.relnamespace
   where c.relkind in ('r', 'p', 'v', 'm', 'S') and ${notOfExtension('pg_class', 'c.oid')}
  union all
  select 'pg_class:' || t.oid, format('table %I.%I', t.nspname, t.relname), coalesce(t.relacl, acldefault('r', t.relowner)), 'fixed', false, null
    from of_platform t
  union all
  select 'pg_proc:' || f.oid, format('routine %I.%I(%s)', p.nspname, f.proname, pg_get_function_identity_arguments(f.oid)),
         coalesce(f.proacl, acldefault('f', f.proowner)), 'routine', p.nspname = 'public', null
    from pg_proc f join place p on p.oid = f.pronamespace where ${notOfExtension('pg_proc', 'f.oid')}
  union all
  select 'pg_type:' || t.oid, format('type %I.%I', p.nspname, t.typname), coalesce(t.typacl, acldefault('T', t.typowner)), 'type', false, null
    from pg_type t join place p on p.oid = t.typnamespace left join pg_class c on c.oid = t.typrelid
   where (t.typtype in ('e', 'd', 'r') or t.typtype = 'c' and c.relkind = 'c') and ${notOfExtension('pg_type', 't.oid')})`

/** The grants of a new object, from the default privileges of a new project. */
const asNew = `
  case when not c.is_shared then array[]::text[]
       when o.kind = 'routine' and (c.name = 'public' or o.is_public) then array['EXECUTE']
       when o.kind = 'type' and c.name = 'public' then array['USAGE']
       when not o.is_public or c.name = 'public' then array[]::text[]
       when o.kind = 'schema' then array['USAGE']
       when o.kind = 'sequence' then array['SELECT', 'USAGE']
       when o.kind = 'table' or (o.kind = 'closed' and c.name = 'service_role') then array['DELETE', 'INSERT', 'SELECT', 'UPDATE']
       else array[]::text[] end`

const rightsIn = (acl: string) => `coalesce((
  select jsonb_object_agg(g.name, g.privileges order by g.name)
    from (select c.name, array_agg(distinct a.privilege_type order by a.privilege_type) as privileges
            from aclexplode(${acl}) a join caller c on c.oid = a.grantee group by c.name) g), '{}')`

/** Of all objects. */
export const objectGrants: SqlFragment = raw(`
  with ${place}, ${ofPlatform}, ${callers}, ${object}, compared as (
    select o.id, o.name as object, o.identity_of as "identityOf", o.kind, ${rightsIn('o.acl')} as actual,
           coalesce((select jsonb_object_agg(c.name, e.privileges) from caller c, lateral (select ${asNew} as privileges) e
                      where cardinality(e.privileges) > 0), '{}') as expected
      from object o)
  select id, object, "identityOf", actual, case kind when 'fixed' then actual else expected end as expected
    from compared order by object collate "C"`)

export const columnGrants: SqlFragment = raw(`
  with ${place}, ${ofPlatform}, ${callers}, held as (
    select c.oid, p.nspname, c.relname, false as is_of_platform from pg_class c join place p on p.oid = c.relnamespace
     where ${notOfExtension('pg_class', 'c.oid')}
    union all select oid, nspname, relname, true from of_platform)
  select format('%I.%I', t.nspname, t.relname) as "table", quote_ident(a.attname) as column,
         ${rightsIn('a.attacl')} as actual, t.is_of_platform as "isOfPlatform"
    from pg_attribute a join held t on t.oid = a.attrelid
   where a.attacl is not null and not a.attisdropped order by 1, 2`)

/** Default privileges that differ from those of a new project. */
export const defaultGrants: SqlFragment = raw(`
  with ${place}, ${callers}, kind (code, word) as (
    values ('r'::"char", 'tables'), ('S', 'sequences'), ('f', 'functions')
  ), owner as (
    select r.oid from pg_roles r where r.rolname = current_user
  ), compared as (
    select format('in schema %I ', p.nspname) as place, k.word as kind, c.name as caller,
           case when p.nspname <> 'public' or c.name = 'public' or not c.is_shared then array[]::text[]
                when k.word = 'tables' then array['DELETE', 'INSERT', 'SELECT', 'UPDATE']
                when k.word = 'sequences' then array['SELECT', 'USAGE'] else array['EXECUTE'] end as expected,
           array(select a.privilege_type from pg_default_acl d, aclexplode(d.defaclacl) a
                  where d.defaclnamespace = p.oid and d.defaclobjtype = k.code and a.grantee = c.oid
                    and d.defaclrole = (select oid from owner) order by 1) as actual
      from place p cross join kind k cross join caller c
    union all
    select '', k.word, c.name, case when k.word = 'functions' and c.name = 'public' then array['EXECUTE'] else array[]::text[] end,
           array(select a.privilege_type from owner o left join pg_default_acl d
                     on d.defaclnamespace = 0 and d.defaclobjtype = k.code and d.defaclrole = o.oid,
                   aclexplode(coalesce(d.defaclacl, acldefault(case k.code when 'S' then 's' else k.code end, o.oid))) a
                  where a.grantee = c.oid order by 1)
      from kind k cross join caller c)
  select place, kind, caller, expected, actual from compared where actual <> expected
   order by place collate "C", kind, caller collate "C"`)
