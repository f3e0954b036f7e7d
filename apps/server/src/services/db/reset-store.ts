// Resets a project database: drops all objects of the project and all buckets, keeps extensions and platform schemas, and
// restores the initial grants and default privileges of schema public.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/** The dropped objects by kind, as `schema.name`. */
export interface Dropped {
  schemas: string[]
  tables: string[]
  views: string[]
  functions: string[]
  types: string[]
  sequences: string[]
}

interface OwnObject {
  kind: keyof Dropped | 'others'
  name: string
  /** Undefined if it is dropped with its schema. */
  statement: string | null
}

/** Runs in the transaction of the caller. */
export async function dropEverything(session: Session): Promise<Dropped> {
  await session.script('create schema if not exists public')
  const objects = await session.rows<OwnObject>(ownObjects)
  for (const { statement } of objects) if (statement !== null) await session.script(statement)
  await session.script(asNew)
  await session.script(withoutFiles)
  await session.script(withoutMessages)
  const named = (kind: OwnObject['kind']) =>
    objects.filter(each => each.kind === kind).map(({ name }) => name)
  return {
    schemas: named('schemas'),
    tables: named('tables'),
    views: named('views'),
    functions: named('functions'),
    types: named('types'),
    sequences: named('sequences'),
  }
}

/**
 * Drops other schemas of the project completely, because migrations create them again. A schema with an extension is emptied
 * instead, like public. Objects of extensions and of other owners stay.
 */
const ownObjects = sql`
  with place as (
    select n.oid, n.nspname,
           n.nspname = 'public' or exists (select from pg_catalog.pg_extension e where e.extnamespace = n.oid) as stays
      from pg_catalog.pg_namespace n
     where n.nspowner = (select r.oid from pg_catalog.pg_roles r where r.rolname = current_user)
       and n.nspname <> 'supabase_migrations' and n.nspname !~ '^pg_'
  ), member as (
    select d.classid, d.objid from pg_catalog.pg_depend d
     where d.deptype = 'e' or (d.deptype = 'i' and d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass)
  ), object (rank, kind, place, name, statement) as (
    select 0, 'schemas', p.oid, p.nspname::text, pg_catalog.format('drop schema %I cascade', p.nspname)
      from place p where not p.stays
    union all
    select case c.relkind when 'v' then 1 when 'm' then 1 when 'S' then 3 else 2 end,
           case c.relkind when 'v' then 'views' when 'm' then 'views' when 'S' then 'sequences' else 'tables' end,
           p.oid, p.nspname || '.' || c.relname,
           pg_catalog.format('drop %s if exists %I.%I cascade',
             case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
                            when 'f' then 'foreign table' else 'table' end, p.nspname, c.relname)
      from pg_catalog.pg_class c join place p on p.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'f', 'v', 'm', 'S') and pg_catalog.pg_has_role(c.relowner, 'USAGE')
       and ('pg_catalog.pg_class'::pg_catalog.regclass, c.oid) not in (select classid, objid from member)
       and not (c.relkind = 'S' and exists (
         select from pg_catalog.pg_depend d
          where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
    union all
    select 4, 'functions', p.oid,
           p.nspname || '.' || f.proname || '(' || pg_catalog.pg_get_function_identity_arguments(f.oid) || ')',
           pg_catalog.format('drop %s if exists %I.%I(%s) cascade',
             case f.prokind when 'a' then 'aggregate' when 'p' then 'procedure' else 'function' end, p.nspname, f.proname,
             case when f.prokind = 'a' and f.pronargs = 0 then '*' else pg_catalog.pg_get_function_identity_arguments(f.oid) end)
      from pg_catalog.pg_proc f join place p on p.oid = f.pronamespace
     where pg_catalog.pg_has_role(f.proowner, 'USAGE')
       and ('pg_catalog.pg_proc'::pg_catalog.regclass, f.oid) not in (select classid, objid from member)
    union all
    select 5, 'types', p.oid, p.nspname || '.' || t.typname,
           pg_catalog.format('drop %s if exists %I.%I cascade', case t.typtype when 'd' then 'domain' else 'type' end,
             p.nspname, t.typname)
      from pg_catalog.pg_type t join place p on p.oid = t.typnamespace left join pg_catalog.pg_class c on c.oid = t.typrelid
     where (t.typtype in ('e', 'd', 'r') or (t.typtype = 'c' and c.relkind = 'c')) and pg_catalog.pg_has_role(t.typowner, 'USAGE')
       and ('pg_catalog.pg_type'::pg_catalog.regclass, t.oid) not in (select classid, objid from member)
    union all
    select 6, 'others', p.oid, o.oid::pg_catalog.regoperator::text,
           pg_catalog.format('drop operator if exists %I.%s (%s, %s) cascade', p.nspname, o.oprname,
             coalesce(pg_catalog.format_type(nullif(o.oprleft, 0), null), 'none'), pg_catalog.format_type(o.oprright, null))
      from pg_catalog.pg_operator o join place p on p.oid = o.oprnamespace
     where pg_catalog.pg_has_role(o.oprowner, 'USAGE')
       and ('pg_catalog.pg_operator'::pg_catalog.regclass, o.oid) not in (select classid, objid from member)
    union all
    select 7, 'others', p.oid, l.collname, pg_catalog.format('drop collation if exists %I.%I cascade', p.nspname, l.collname)
      from pg_catalog.pg_collation l join place p on p.oid = l.collnamespace where pg_catalog.pg_has_role(l.collowner, 'USAGE')
       and ('pg_catalog.pg_collation'::pg_catalog.regclass, l.oid) not in (select classid, objid from member)
    union all
    select 7, 'others', p.oid, s.cfgname,
           pg_catalog.format('drop text search configuration if exists %I.%I cascade', p.nspname, s.cfgname)
      from pg_catalog.pg_ts_config s join place p on p.oid = s.cfgnamespace where pg_catalog.pg_has_role(s.cfgowner, 'USAGE')
       and ('pg_catalog.pg_ts_config'::pg_catalog.regclass, s.oid) not in (select classid, objid from member)
    union all
    select 8, 'others', p.oid, s.dictname,
           pg_catalog.format('drop text search dictionary if exists %I.%I cascade', p.nspname, s.dictname)
      from pg_catalog.pg_ts_dict s join place p on p.oid = s.dictnamespace where pg_catalog.pg_has_role(s.dictowner, 'USAGE')
       and ('pg_catalog.pg_ts_dict'::pg_catalog.regclass, s.oid) not in (select classid, objid from member)
    union all
    select 9, 'others', null, b.pubname, pg_catalog.format('drop publication if exists %I', b.pubname)
      from pg_catalog.pg_publication b
     where pg_catalog.pg_has_role(b.pubowner, 'USAGE') and b.pubname <> 'supabase_realtime'
  )
  select o.kind, o.name, case when o.kind = 'schemas' or p.oid is null or p.stays then o.statement end as statement
    from object o left join place p on p.oid = o.place
   order by o.rank, o.name`

/** Migrations create buckets and their policies again. The storage sweeper removes the bytes of the objects. */
const withoutFiles = `
  do $reset$
  begin
    if pg_catalog.to_regclass('storage.objects') is not null and pg_catalog.to_regclass('storage.buckets') is not null then
      delete from storage.objects;
      delete from storage.buckets;
      perform storage.restore_policies();
    end if;
  end
  $reset$`

/** Migrations also create the policies of private channels. */
const withoutMessages = `
  do $reset$
  declare
    r record;
  begin
    for r in
      select p.polname from pg_catalog.pg_policy p where p.polrelid = pg_catalog.to_regclass('realtime.messages')
    loop
      execute pg_catalog.format('drop policy %I on realtime.messages', r.polname);
    end loop;
    if pg_catalog.to_regclass('realtime.messages') is not null then
      delete from realtime.messages;
    end if;
  end
  $reset$`

/** Revokes all grants, then restores the initial ones. */
const asNew = `
  do $reset$
  declare
    r record;
  begin
    for r in
      select distinct a.grantee from pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
       where n.nspname = 'public' and a.grantee <> n.nspowner
    loop
      execute pg_catalog.format('revoke all on schema public from %s cascade',
        case r.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(r.grantee)) end);
    end loop;
    for r in
      select distinct d.defaclobjtype, d.defaclnamespace, a.grantee, d.defaclrole
        from pg_catalog.pg_default_acl d, pg_catalog.aclexplode(d.defaclacl) a
       where d.defaclrole = (select u.oid from pg_catalog.pg_roles u where u.rolname = current_user)
         and (d.defaclnamespace = 0 or d.defaclnamespace = 'public'::pg_catalog.regnamespace)
         and not (d.defaclnamespace = 0 and a.grantee = d.defaclrole)
    loop
      execute pg_catalog.format('alter default privileges %s revoke all on %s from %s cascade',
        case when r.defaclnamespace = 0 then '' else 'in schema public' end,
        case r.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions'
                             when 'T' then 'types' when 'n' then 'schemas' else 'large objects' end,
        case r.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(r.grantee)) end);
    end loop;
  end
  $reset$;
  alter default privileges grant all on tables to current_user;
  alter default privileges grant all on sequences to current_user;
  alter default privileges grant all on functions to current_user;
  alter default privileges grant all on types to current_user;
  alter default privileges grant all on schemas to current_user;
  alter default privileges grant execute on functions to public;
  alter default privileges grant usage on types to public;
  grant all on schema public to current_user;
  grant usage on schema public to anon, authenticated, service_role;
  alter default privileges in schema public grant select, insert, update, delete on tables to anon, authenticated, service_role;
  alter default privileges in schema public grant usage, select on sequences to anon, authenticated, service_role;
  alter default privileges in schema public grant execute on functions to anon, authenticated, service_role`
