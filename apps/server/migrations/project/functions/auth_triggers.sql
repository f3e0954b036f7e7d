-- The tables in schema auth belong to a role that nobody can become. A project's owner has the TRIGGER privilege on them,
-- which lets it create triggers; to drop, disable, rename or comment on one, Postgres demands the ownership of the table.
-- These procedures do that for the owner's own triggers and for nothing else.
--
-- They run as the superuser, because platform.refuse_as_auth_owner() refuses every definition as supabase_auth_admin, and
-- an exception there could be used by the code it is meant to stop. No code of a tenant runs in any of these statements,
-- and a table is named by its name in schema auth alone, so there is no search path to play with.

-- The table as it is written in a statement, once it is certain that the trigger is the owner's own. Null where the
-- trigger may be missing and is. A trigger whose function lies in a schema of the platform is the platform's: nobody else
-- can create functions there. Internal ones enforce foreign keys.
create or replace function platform.own_auth_trigger(table_name text, trigger_name text, missing_ok boolean) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  rel oid;
  found record;
begin
  select c.oid into rel
    from pg_class c
   where c.relnamespace = 'auth'::regnamespace and c.relname = table_name::name and c.relkind = 'r'
     and c.relowner = 'supabase_auth_admin'::regrole;
  if rel is null then
    if missing_ok then
      raise notice 'relation "auth.%" does not exist, skipping', table_name;
      return null;
    end if;
    raise undefined_table using message = format('relation "auth.%s" does not exist', table_name);
  end if;

  select t.tgisinternal or p.pronamespace in ('auth'::regnamespace, 'platform'::regnamespace) as is_of_platform into found
    from pg_trigger t join pg_proc p on p.oid = t.tgfoid
   where t.tgrelid = rel and t.tgname = trigger_name::name;
  if found.is_of_platform is null then
    if missing_ok then
      raise notice 'trigger "%" for relation "auth.%" does not exist, skipping', trigger_name, table_name;
      return null;
    end if;
    raise undefined_object using message = format('trigger "%s" for table "%s" does not exist', trigger_name, table_name);
  end if;
  if found.is_of_platform then
    raise insufficient_privilege using message = format('trigger "%s" on auth.%s belongs to the platform', trigger_name, table_name);
  end if;
  return rel::regclass::text;
end
$$;

create or replace procedure platform.drop_auth_trigger(table_name text, trigger_name text, missing_ok boolean default false)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  rel constant text := platform.own_auth_trigger(table_name, trigger_name, missing_ok);
begin
  if rel is not null then
    execute format('drop trigger %I on %s', trigger_name::name, rel);
  end if;
end
$$;

-- Here the table may be missing, as with ALTER TABLE IF EXISTS.
create or replace procedure platform.set_auth_trigger(table_name text, trigger_name text, state text, missing_ok boolean default false)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  rel text;
begin
  if missing_ok and not exists (
    select from pg_class c where c.relnamespace = 'auth'::regnamespace and c.relname = table_name::name
  ) then
    raise notice 'relation "auth.%" does not exist, skipping', table_name;
    return;
  end if;
  rel := platform.own_auth_trigger(table_name, trigger_name, false);
  if state is null or state not in ('enable', 'disable', 'enable replica', 'enable always') then
    raise invalid_parameter_value using message = 'the state of a trigger is enable, disable, enable replica or enable always';
  end if;
  execute format('alter table %s %s trigger %I', rel, state, trigger_name::name);
end
$$;

create or replace procedure platform.rename_auth_trigger(table_name text, trigger_name text, new_name text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  rel constant text := platform.own_auth_trigger(table_name, trigger_name, false);
begin
  execute format('alter trigger %I on %s rename to %I', trigger_name::name, rel, new_name::name);
end
$$;

create or replace procedure platform.comment_on_auth_trigger(table_name text, trigger_name text, comment text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  rel constant text := platform.own_auth_trigger(table_name, trigger_name, false);
begin
  execute format('comment on trigger %I on %s is %L', trigger_name::name, rel, comment);
end
$$;

revoke execute on function platform.own_auth_trigger(text, text, boolean) from public;
revoke execute on procedure platform.drop_auth_trigger(text, text, boolean), platform.set_auth_trigger(text, text, text, boolean),
  platform.rename_auth_trigger(text, text, text), platform.comment_on_auth_trigger(text, text, text) from public;

-- CREATE OR REPLACE TRIGGER needs no more than the TRIGGER privilege, so the owner could replace the platform's triggers.
create or replace function platform.keep_auth_triggers() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (
    select from pg_event_trigger_ddl_commands() e
      join pg_trigger t on t.oid = e.objid
      join pg_class c on c.oid = t.tgrelid and c.relnamespace = 'auth'::regnamespace
     where e.classid = 'pg_trigger'::regclass
       and (c.relname, t.tgname) in
         (('users', 'note_new'), ('users', 'note_deleted'), ('users', 'note_banned'), ('sessions', 'note_ended'))
  ) and not (select rolsuper from pg_roles where rolname = current_user) then
    raise insufficient_privilege using message = 'this trigger belongs to the platform; give yours another name';
  end if;
end
$$;
revoke execute on function platform.keep_auth_triggers() from public;

drop event trigger if exists platform_auth_triggers;
create event trigger platform_auth_triggers on ddl_command_end when tag in ('CREATE TRIGGER')
  execute function platform.keep_auth_triggers();
alter event trigger platform_auth_triggers enable always;
