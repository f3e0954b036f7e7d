-- Keeps platform.catalog_version; see migration 0002.

create or replace function platform.count_catalog_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  latest bigint;
begin
  -- A column of another table could have a cast of the tenant, which would run with the rights of this function.
  if tg_relid <> 'platform.catalog_change'::regclass then
    raise insufficient_privilege using message = 'this function is only for platform.catalog_change';
  end if;
  -- One at a time from here to the end of the commit, so that a later version is never seen before an earlier one.
  -- A new row, not a changed one: that would fail a serializable transaction.
  perform pg_advisory_xact_lock(7203412907742);
  -- Nobody sees a version that a crash could undo, because its number would be taken again.
  set local synchronous_commit = on;
  -- After a crash, a sequence continues after the numbers that nextval has reserved, but exactly after that of setval.
  insert into platform.catalog_version
    values (setval('platform.catalog_versions', pg_sequence_last_value('platform.catalog_versions') + 1))
    returning version into latest;
  if current_setting('transaction_isolation') = 'read committed' then
    delete from platform.catalog_version where version < latest;
  end if;
  delete from platform.catalog_change where xid = new.xid;
  return null;
end
$$;
revoke execute on function platform.count_catalog_change() from public;

drop trigger if exists count_at_commit on platform.catalog_change;
create constraint trigger count_at_commit after insert on platform.catalog_change
  deferrable initially deferred for each row execute function platform.count_catalog_change();

-- Whoever may run DDL runs this; to call it without a reason costs a project nothing but a look at its own schema.
create or replace function platform.note_catalog_change() returns void
language sql security definer volatile set search_path = pg_catalog, pg_temp
as $$ insert into platform.catalog_change values (pg_current_xact_id()) on conflict do nothing $$;
grant execute on function platform.note_catalog_change() to public;

create or replace function platform.on_catalog_change() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  -- A temporary table is nobody else's business.
  if exists (
    select from pg_event_trigger_ddl_commands() e
     where e.schema_name is distinct from 'pg_temp' and e.schema_name not like 'pg\_temp\_%'
        or e.schema_name is null
  ) then
    perform platform.note_catalog_change();
  end if;
end
$$;

create or replace function platform.on_catalog_drop() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from pg_event_trigger_dropped_objects() o where not o.is_temporary) then
    perform platform.note_catalog_change();
  end if;
end
$$;
revoke execute on function platform.on_catalog_change(), platform.on_catalog_drop() from public;

drop event trigger if exists platform_catalog;
create event trigger platform_catalog on ddl_command_end
  when tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE', 'CREATE VIEW', 'ALTER VIEW',
    'CREATE MATERIALIZED VIEW', 'ALTER MATERIALIZED VIEW', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE',
    'IMPORT FOREIGN SCHEMA', 'CREATE FUNCTION', 'ALTER FUNCTION', 'ALTER ROUTINE', 'CREATE TYPE', 'ALTER TYPE',
    'CREATE DOMAIN', 'ALTER DOMAIN', 'CREATE SCHEMA', 'ALTER SCHEMA', 'CREATE EXTENSION', 'ALTER EXTENSION',
    'CREATE INDEX', 'CREATE RULE', 'CREATE SEQUENCE', 'ALTER SEQUENCE', 'CREATE AGGREGATE', 'ALTER AGGREGATE', 'CREATE CAST',
    'GRANT', 'REVOKE', 'COMMENT')
  execute function platform.on_catalog_change();
alter event trigger platform_catalog enable always;

drop event trigger if exists platform_catalog_drop;
create event trigger platform_catalog_drop on sql_drop execute function platform.on_catalog_drop();
alter event trigger platform_catalog_drop enable always;

-- How a statement refuses its own result: the error undoes what it did.
create or replace function platform.refuse(state text, reason text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$ begin raise exception using errcode = state, message = reason; end $$;
grant execute on function platform.refuse(text, text) to public;

-- Statements compare the last number themselves. Only if it is another one, they call this function: it fails if a later
-- version is committed, and returns null if the change is not, or was undone.
create or replace function platform.require_current(planned bigint) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from platform.catalog_version where version > planned) then
    perform platform.refuse('PLV01', '');
  end if;
  return null;
end
$$;
grant execute on function platform.require_current(bigint) to public;
grant select on sequence platform.catalog_versions to public;
