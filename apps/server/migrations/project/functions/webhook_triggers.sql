-- Puts the triggers of webhook_capture.sql on tables. platform.webhook_attachments says which webhook is attached to which
-- table, and platform.apply_webhook_triggers() creates and drops triggers accordingly. Only the superuser attaches and
-- detaches. No code of a tenant runs in these statements.

-- Whether the JSON of a row depends on settings of the session other than the time zone.
create or replace function platform.needs_settings(rel oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from pg_attribute a join pg_type c on c.oid = a.atttypid
      join pg_type t on t.oid = case c.typcategory when 'A' then c.typelem else c.oid end
     where a.attrelid = rel and a.attnum > 0 and not a.attisdropped and t.typtype <> 'e'
       and t.oid <> all (array['bool', 'int2', 'int4', 'int8', 'numeric', 'oid', 'text', 'varchar', 'bpchar', 'name', 'uuid',
         'json', 'jsonb', 'date', 'time', 'timestamp', 'timestamptz']::regtype[]))
$$;

-- The triggers that tables should have. The arguments are written as pg_trigger stores them. A partition has the triggers
-- of the tables it belongs to as well, because a statement on a partition runs only the triggers of the partition.
create or replace function platform.wanted_webhook_triggers()
returns table (relid oid, name text, event text, capture text, arguments text, webhooks text, attached oid)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  with recursive target (attached, relid) as (
    select distinct a.relid, a.relid from platform.webhook_attachments a
    union all
    select t.attached, i.inhrelid
      from target t join pg_inherits i on i.inhparent = t.relid join pg_class c on c.oid = i.inhrelid and c.relispartition
  )
  select t.relid, concat_ws('_', 'plinth_webhook', lower(e.event), case when t.relid <> t.attached then t.attached end), e.event,
         case when m.is_built then 'capture_built'
              else concat('capture_', lower(e.event), case when platform.needs_settings(t.relid) then '_with_settings' end) end,
         encode(convert_to(w.webhooks, 'UTF8'), 'hex') || '00'
           || case when m.is_built then encode(convert_to(t.attached::text, 'UTF8'), 'hex') || '00' else '' end,
         w.webhooks, case when m.is_built then t.attached end
    from target t
    join pg_class c on c.oid = t.relid and c.relkind in ('r', 'p')
    cross join unnest(array['INSERT', 'UPDATE', 'DELETE']) as e (event)
    cross join lateral (
      select string_agg(a.webhook_id, ',' order by a.webhook_id) from platform.webhook_attachments a
       where a.relid = t.attached and e.event = any (a.events)) as w (webhooks)
    cross join lateral (
      select t.relid <> t.attached or pg_sequence_last_value('platform.casts_to_json') is not null or exists (
        select from pg_attribute v where v.attrelid = t.relid and v.attgenerated = 'v')) as m (is_built)
   where w.webhooks is not null
$$;

-- The triggers that tables have.
create or replace function platform.webhook_triggers()
returns table (relid oid, name text, event text, capture text, arguments text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select t.tgrelid, t.tgname, case t.tgtype when 4 then 'INSERT' when 8 then 'DELETE' when 16 then 'UPDATE' end, f.proname,
         encode(t.tgargs, 'hex')
    from pg_trigger t join pg_proc f on f.oid = t.tgfoid
   where f.pronamespace = 'platform'::regnamespace and starts_with(f.proname, 'capture_')
$$;

-- Replacing a trigger waits for writers of the table, and dropping one for its readers as well. A trigger that the owner of
-- the table has disabled stays disabled, until it has to be replaced.
create or replace function platform.apply_webhook_triggers() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  r record;
begin
  for r in
    select t.name, t.relid::regclass as target from platform.webhook_triggers() t
     where not exists (select from platform.wanted_webhook_triggers() w where w.relid = t.relid and w.name = t.name)
  loop
    execute format('drop trigger %I on %s', r.name, r.target);
  end loop;
  for r in
    select w.*, w.relid::regclass as target from platform.wanted_webhook_triggers() w
     where not exists (
       select from platform.webhook_triggers() t
        where (t.relid, t.name, t.event, t.capture, t.arguments) = (w.relid, w.name, w.event, w.capture, w.arguments))
  loop
    execute format('create or replace trigger %I after %s on %s referencing %s for each statement execute function platform.%I(%s)',
      r.name, r.event, r.target,
      case r.event when 'INSERT' then 'new table as new_rows' when 'DELETE' then 'old table as old_rows'
                   else 'old table as old_rows new table as new_rows' end,
      r.capture, concat_ws(', ', quote_literal(r.webhooks), quote_literal(r.attached)));
  end loop;
end
$$;

-- Attaching, detaching and casts to json happen one after the other, so that each sees what the one before has
-- committed. The table lock can only be taken here: no tenant has a right that would allow it.
create or replace function platform.lock_webhook_attachments() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  lock table platform.webhook_attachments in share row exclusive mode;
end
$$;

create or replace function platform.attach_webhook(schema_name text, table_name text, webhook text, events text[]) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  rel oid;
  kind "char";
begin
  select c.oid, c.relkind into rel, kind
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = schema_name and c.relname = table_name;
  if platform.is_reserved(schema_name) then
    raise insufficient_privilege using message = format('schema "%s" belongs to the platform', schema_name);
  elsif rel is null then
    raise undefined_table using message = format('table "%s.%s" does not exist', schema_name, table_name);
  elsif kind not in ('r', 'p') then
    raise wrong_object_type using message = format('"%s.%s" is not a table', schema_name, table_name);
  elsif exists (
    select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = rel and d.deptype = 'e'
  ) then
    raise insufficient_privilege using message = format('table "%s.%s" belongs to an extension', schema_name, table_name);
  end if;
  perform platform.lock_webhook_attachments();
  insert into platform.webhook_attachments as a (relid, webhook_id, events) values (rel, webhook, attach_webhook.events)
  on conflict (relid, webhook_id) do update set events = excluded.events;
  perform platform.apply_webhook_triggers();
end
$$;

-- Whether the webhook was attached.
create or replace function platform.detach_webhook(schema_name text, table_name text, webhook text) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  perform platform.lock_webhook_attachments();
  delete from platform.webhook_attachments a using pg_class c join pg_namespace n on n.oid = c.relnamespace
   where a.relid = c.oid and n.nspname = schema_name and c.relname = table_name and a.webhook_id = webhook;
  if not found then
    return false;
  end if;
  perform platform.apply_webhook_triggers();
  return true;
end
$$;

create or replace function platform.detach_webhook_everywhere(webhook text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  perform platform.lock_webhook_attachments();
  delete from platform.webhook_attachments where webhook_id = webhook;
  perform platform.apply_webhook_triggers();
end
$$;

-- Any role that runs DDL calls this one. Called directly it changes nothing, because the triggers already match.
create or replace function platform.refresh_webhook_triggers() returns void
language plpgsql security definer volatile set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from platform.webhook_attachments) then
    perform platform.apply_webhook_triggers();
  end if;
end
$$;

-- Whether row_to_json would call code of a tenant. Casts of extensions use functions of the superuser.
create or replace function platform.has_casts_to_json() returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from pg_cast c join pg_proc f on f.oid = c.castfunc join pg_roles o on o.oid = f.proowner
     where c.casttarget = 'json'::regtype and c.oid >= 16384 and not o.rolsuper)
$$;

-- From the commit of the cast on, no table may call row_to_json on its rows. Replacing the triggers waits for all
-- transactions that have written to attached tables. An older snapshot could miss a table that was attached after it.
create or replace function platform.guard_webhook_triggers() returns void
language plpgsql security definer volatile set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise feature_not_supported using message = 'casts to json can only be created in a READ COMMITTED transaction';
  end if;
  perform nextval('platform.casts_to_json');
  perform platform.lock_webhook_attachments();
  perform platform.apply_webhook_triggers();
end
$$;

create or replace function platform.on_webhook_ddl() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_tag = 'CREATE CAST' then
    if platform.has_casts_to_json() then
      perform platform.guard_webhook_triggers();
    end if;
  elsif exists (
    select from pg_event_trigger_ddl_commands() e where e.classid = 'pg_class'::regclass and not starts_with(e.schema_name, 'pg_temp')
  ) then
    perform platform.refresh_webhook_triggers();
  end if;
end
$$;

revoke execute on function platform.wanted_webhook_triggers(), platform.webhook_triggers(), platform.apply_webhook_triggers(),
  platform.lock_webhook_attachments(), platform.attach_webhook(text, text, text, text[]),
  platform.detach_webhook(text, text, text), platform.detach_webhook_everywhere(text),
  platform.on_webhook_ddl() from public;
grant execute on function platform.refresh_webhook_triggers(), platform.guard_webhook_triggers() to public;

drop event trigger if exists platform_webhooks;
-- Partitions come and go, columns become virtual, and casts are created.
create event trigger platform_webhooks on ddl_command_end when tag in ('CREATE TABLE', 'ALTER TABLE', 'CREATE CAST')
  execute function platform.on_webhook_ddl();
alter event trigger platform_webhooks enable always;

-- Functions of an earlier release may have built other triggers.
select platform.refresh_webhook_triggers();
