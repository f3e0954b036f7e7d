// Dumps grants that differ from those of a new object of the same kind.
import { raw, type SqlFragment } from '#src/kernel/postgres/sql.ts'

const callers = `caller (oid, name) as (
  select 0::oid, 'public' union all
  select r.oid, quote_ident(r.rolname) from pg_roles r where r.rolname in ('anon', 'authenticated', 'service_role'))`

const place = `place as (
  select n.oid, n.nspname, n.nspacl, n.nspowner from pg_namespace n
   where n.nspowner = (select r.oid from pg_roles r where r.rolname = current_user)
     and n.nspname <> 'supabase_migrations' and n.nspname !~ '^pg_')`

const notOfExtension = (catalogue: string, oid: string) =>
  `not exists (select from pg_depend e where e.classid = '${catalogue}'::regclass and e.objid = ${oid} and (e.deptype = 'e' or e.deptype = 'i' and e.classid = 'pg_proc'::regclass))`

const object = `object (name, acl, kind, is_public) as (
  select format('schema %I', p.nspname), coalesce(p.nspacl, acldefault('n', p.nspowner)), 'schema', false from place p where p.nspname <> 'public'
  union all
  select format('%s %I.%I', case c.relkind when 'S' then 'sequence' else 'table' end, p.nspname, c.relname),
         coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's'::"char" else 'r'::"char" end, c.relowner)),
         case c.relkind when 'S' then 'sequence' when 'm' then 'closed' else 'table' end, p.nspname = 'public'
    from pg_class c join place p on p.oid = c.relnamespace
   where c.relkind in ('r', 'p', 'v', 'm', 'S') and ${notOfExtension('pg_class', 'c.oid')}
  union all
  select format('routine %I.%I(%s)', p.nspname, f.proname, pg_get_function_identity_arguments(f.oid)),
         coalesce(f.proacl, acldefault('f', f.proowner)), 'routine', p.nspname = 'public'
    from pg_proc f join place p on p.oid = f.pronamespace where ${notOfExtension('pg_proc', 'f.oid')})`

/** The grants of a new object, from the default privileges of a new project. */
const asNew = `
  case when o.kind = 'routine' and (c.name = 'public' or o.is_public) then array['EXECUTE']
       when not o.is_public or c.name = 'public' then array[]::text[]
       when o.kind = 'sequence' then array['SELECT', 'USAGE']
       when o.kind = 'table' or (o.kind = 'closed' and c.name = 'service_role') then array['DELETE', 'INSERT', 'SELECT', 'UPDATE']
       else array[]::text[] end`

export const grants: SqlFragment = raw(`
  with ${place}, ${callers}, ${object}, compared as (
    select o.name as object, c.name as caller, ${asNew} as expected,
           array(select a.privilege_type from aclexplode(o.acl) a where a.grantee = c.oid order by 1) as actual
      from object o cross join caller c)
  select 1 as rank, format('revoke all on %s from public, anon, authenticated, service_role', object)
         || coalesce(string_agg(format(E';\\ngrant %s on %s to %s', lower(array_to_string(actual, ', ')), object, caller), '' order by caller)
              filter (where cardinality(actual) > 0), '') as sql
    from compared group by object having bool_or(actual <> expected)
  union all
  -- After it: taking a table back takes its columns back, too.
  select 2, string_agg(format('grant %s (%I) on %I.%I to %s', lower(x.privilege_type), a.attname, p.nspname, t.relname, c.name), E';\\n' order by x.privilege_type, c.name)
    from pg_attribute a join pg_class t on t.oid = a.attrelid join place p on p.oid = t.relnamespace
    cross join lateral aclexplode(a.attacl) x join caller c on c.oid = x.grantee
   where not a.attisdropped group by p.nspname, t.relname, a.attname
  order by rank, sql`)

/** Default privileges in schemas, if they differ from those of a new project. */
export const defaultGrants: SqlFragment = raw(`
  with ${place}, ${callers}, kind (code, word) as (
    values ('r'::"char", 'tables'), ('S', 'sequences'), ('f', 'functions')
  ), compared as (
    select p.nspname, k.word, c.name as caller,
           case when p.nspname <> 'public' or c.name = 'public' then array[]::text[]
                when k.word = 'tables' then array['DELETE', 'INSERT', 'SELECT', 'UPDATE']
                when k.word = 'sequences' then array['SELECT', 'USAGE'] else array['EXECUTE'] end as expected,
           array(select a.privilege_type from pg_default_acl d, aclexplode(d.defaclacl) a
                  where d.defaclnamespace = p.oid and d.defaclobjtype = k.code and a.grantee = c.oid
                    and d.defaclrole = (select r.oid from pg_roles r where r.rolname = current_user) order by 1) as actual
      from place p cross join kind k cross join caller c)
  select format('alter default privileges in schema %I revoke all on %s from %s', nspname, word, caller)
         || case when cardinality(actual) = 0 then ''
                 else format(E';\\nalter default privileges in schema %I grant %s on %s to %s', nspname, lower(array_to_string(actual, ', ')), word, caller) end as sql
    from compared where actual <> expected order by 1`)
