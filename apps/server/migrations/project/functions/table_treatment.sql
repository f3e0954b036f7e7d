-- A table in any schema of the project has row-level security, however it comes there. Which schemas the API serves is a
-- setting of the control database, so every schema counts: one that is exposed later holds no open table.
-- Views are changed in public alone, where a new view is granted to the callers: in other schemas a view that runs as its
-- owner is the usual way to show part of a private table, and nobody may read it before a GRANT.
-- The event functions run with the rights of whoever ran the DDL, so there is nothing to escalate to. Only the two marker
-- functions are SECURITY DEFINER.

-- Schemas of the platform and of Postgres, as in packages/contract/src/platform-schemas.ts. They are never exposed.
create or replace function platform.is_reserved(schema_name text) returns boolean
language sql immutable parallel safe
as $$
  select schema_name in ('platform', 'auth', 'extensions', 'storage', 'realtime', 'pgmq', 'supabase_migrations')
      or schema_name ~ '^(pg_|information_schema)'
$$;

-- Any role that creates tables runs these two. Called directly they change nothing: every table that others can see is
-- marked already, a table that is being created is treated whether it is marked or not, and only what is gone is forgotten.
create or replace function platform.first_time(rel oid) returns boolean
language sql security definer volatile set search_path = pg_catalog, pg_temp
as $$
  with marked as (
    insert into platform.seen (relid, is_public)
    select c.oid, n.nspname = 'public' from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.oid = rel and not platform.is_reserved(n.nspname::text)
    on conflict (relid) do update set is_public = true
     where excluded.is_public and not seen.is_public
    returning 1)
  select exists (select from marked)
$$;

create or replace function platform.forget(rel oid) returns void
language sql security definer volatile set search_path = pg_catalog, pg_temp
as $$
  delete from platform.seen where relid = rel and not exists (select from pg_class c where c.oid = rel);
  delete from platform.realtime_tables where relid = rel and not exists (select from pg_class c where c.oid = rel);
  delete from platform.webhook_attachments where relid = rel and not exists (select from pg_class c where c.oid = rel);
$$;

create or replace function platform.on_ddl() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  r record;
  excess record;
  sequence record;
  is_first boolean;
begin
  -- Trusted, but a loop in one of these cannot be interrupted by anybody.
  if tg_tag = 'CREATE EXTENSION' and exists (
    select from pg_event_trigger_ddl_commands() e
     where e.object_type = 'extension' and e.object_identity in ('plperl', 'pltcl', 'bool_plperl', 'jsonb_plperl', 'hstore_plperl')
  ) then
    raise insufficient_privilege using message = 'this language is not available here';
  end if;

  -- The script of a trusted extension runs as the superuser, so Postgres creates it in any schema. Sessions of the platform find
  -- functions and operators in pg_catalog without a schema, and its functions call others in the schemas of the platform.
  if tg_tag = 'CREATE EXTENSION' and exists (
    select from pg_event_trigger_ddl_commands() e join pg_extension x on x.oid = e.objid
     where e.classid = 'pg_extension'::regclass and not has_schema_privilege(x.extnamespace, 'create')
  ) then
    raise insufficient_privilege using message = 'this schema belongs to the platform',
      hint = 'Create the extension in schema extensions or in one of your own.';
  end if;

  -- DROP SCHEMA public CASCADE; CREATE SCHEMA public (resets by ORMs) loses grants and default privileges.
  if tg_tag in ('CREATE SCHEMA', 'ALTER SCHEMA') and exists (
    select from pg_event_trigger_ddl_commands() e
     where e.classid = 'pg_namespace'::regclass and e.objid = to_regnamespace('public')
  ) and not (select rolsuper from pg_roles where rolname = current_user) then
    -- Not for the superuser: what an extension's script creates is the superuser's, and is to stay closed.
    grant usage on schema public to anon, authenticated, service_role;
    alter default privileges in schema public grant select, insert, update, delete on tables to anon, authenticated, service_role;
    alter default privileges in schema public grant usage, select on sequences to anon, authenticated, service_role;
    alter default privileges in schema public grant execute on functions to anon, authenticated, service_role;
  end if;

  for r in
    select c.oid, c.relkind, n.nspname, c.relname, c.relacl as acl, n.nspname = 'public' as is_public,
           bool_or(s.is_new) as is_new
      from (
        select e.objid as relid, e.command_tag ~ '^(CREATE|SELECT INTO|IMPORT)' as is_new
          from pg_event_trigger_ddl_commands() e
         where e.classid = 'pg_class'::regclass and not e.in_extension
        union
        -- Postgres 15 turns an empty table into a view when it gets a rule for SELECT.
        select w.ev_class, false
          from pg_event_trigger_ddl_commands() e join pg_rewrite w on w.oid = e.objid
         where e.classid = 'pg_rewrite'::regclass
        union
        -- CREATE SCHEMA x CREATE TABLE … and ALTER SCHEMA x RENAME TO public raise no event per table.
        select k.oid, false
          from pg_event_trigger_ddl_commands() e join pg_class k on k.relnamespace = e.objid
         where e.classid = 'pg_namespace'::regclass
      ) s
      join pg_class c on c.oid = s.relid
      join pg_namespace n on n.oid = c.relnamespace
     -- What an extension's script creates belongs to the superuser and carries no grants of ours.
     where (c.relkind in ('r', 'p', 'f', 'm') and not platform.is_reserved(n.nspname::text) or c.relkind = 'v' and n.nspname = 'public')
       and pg_has_role(c.relowner, 'USAGE')
     group by c.oid, n.oid
  loop
    if r.relkind in ('r', 'p') then
      is_first := platform.first_time(r.oid);
      if is_first or r.is_new then
        execute format('alter table %I.%I enable row level security', r.nspname, r.relname);
        -- TRUNCATE ignores policies. A project's own default privileges may grant it, as GRANT ALL does.
        for excess in
          select string_agg(distinct a.privilege_type, ', ') as privileges,
                 case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee
            from aclexplode(r.acl) a
           where a.grantee in (0, 'anon'::regrole, 'authenticated'::regrole)
             and a.privilege_type not in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
           group by a.grantee
        loop
          execute format('revoke %s on %I.%I from %s', excess.privileges, r.nspname, r.relname, excess.grantee);
        end loop;
        if r.is_public then
          perform platform.attach_capture(r.oid);
          -- It arrived by SET SCHEMA or with its schema: default privileges did not apply.
          if r.acl is null and tg_tag in ('ALTER TABLE', 'ALTER SCHEMA', 'CREATE SCHEMA') then
            execute format('grant select, insert, update, delete on %I.%I to anon, authenticated, service_role', r.nspname, r.relname);
            for sequence in
              select s.relname from pg_depend d join pg_class s on s.oid = d.objid and s.relkind = 'S'
               where d.refobjid = r.oid and d.classid = 'pg_class'::regclass and s.relnamespace = to_regnamespace('public')
            loop
              execute format('grant usage, select on sequence public.%I to anon, authenticated, service_role', sequence.relname);
            end loop;
          end if;
        end if;
      end if;
    elsif r.relkind in ('m', 'f') then
      -- Row-level security is impossible on these: closed until granted on purpose.
      is_first := platform.first_time(r.oid);
      if is_first or r.is_new then
        execute format('revoke all on %I.%I from public, anon, authenticated', r.nspname, r.relname);
      end if;
    elsif not exists (
      select from pg_class v, unnest(v.reloptions) o where v.oid = r.oid and o like 'security_invoker=%'
    ) then
      -- Without the option a view runs as its owner, who bypasses the policies. CREATE OR REPLACE without options and
      -- RESET remove it. SET (security_invoker = false) is a decision of the owner and stays.
      execute format('alter view %I.%I set (security_invoker = true)', r.nspname, r.relname);
    end if;
  end loop;
end
$$;

create or replace function platform.on_drop() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  r record;
begin
  for r in
    select objid from pg_event_trigger_dropped_objects()
     where classid = 'pg_class'::regclass and object_type in ('table', 'view', 'materialized view', 'foreign table')
  loop
    perform platform.forget(r.objid);
  end loop;
end
$$;

revoke execute on function platform.on_ddl(), platform.on_drop() from public;
grant execute on function platform.is_reserved(text), platform.first_time(oid), platform.forget(oid) to public;

drop event trigger if exists platform_ddl;
create event trigger platform_ddl on ddl_command_end
  when tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE', 'CREATE SCHEMA', 'ALTER SCHEMA',
    'IMPORT FOREIGN SCHEMA', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'CREATE EXTENSION', 'ALTER EXTENSION',
    'CREATE VIEW', 'ALTER VIEW', 'CREATE RULE', 'CREATE MATERIALIZED VIEW', 'ALTER MATERIALIZED VIEW')
  execute function platform.on_ddl();
alter event trigger platform_ddl enable always;

drop event trigger if exists platform_drop;
-- Whatever the command: a cascade reaches tables and views from anywhere.
create event trigger platform_drop on sql_drop execute function platform.on_drop();
alter event trigger platform_drop enable always;

-- Earlier versions left these to the superuser when a project was made.
alter default privileges in schema public revoke all on tables from anon, authenticated, service_role;
alter default privileges in schema public revoke all on sequences from anon, authenticated, service_role;
alter default privileges in schema public revoke all on functions from anon, authenticated, service_role;
