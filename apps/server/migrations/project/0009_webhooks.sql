-- Row changes for webhooks. Statement triggers write them in the transaction of the change, so a committed change is
-- never lost and a rolled back one is never delivered. The table is logged, unlike platform.changes.

create table platform.webhook_changes (
  -- Only orders the rows of a transaction, so every session may reserve its numbers.
  id bigint generated always as identity (cache 64),
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp(),
  -- The ids of the webhooks, separated by commas.
  webhooks text not null,
  schema_name text not null,
  table_name text not null,
  -- INSERT, UPDATE or DELETE. A constraint would be read by every statement.
  kind text not null,
  -- JSON text of the row after and before the change. If it begins with a space, the row was too large and only its
  -- primary key is stored. A column for that would have to be computed for every row.
  new text,
  old text
);
-- The only index, because every write to an attached table maintains it.
create index webhook_changes_xid on platform.webhook_changes (xid, id);
-- Rows live for moments, and autovacuum keeps the table small. Compressing values would cost the writers time.
alter table platform.webhook_changes set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  toast_tuple_target = 8160);
alter table platform.webhook_changes alter column new set storage external, alter column old set storage external;
-- Without statistics, a reading would sort all rows of a large transaction instead of walking the index. These stay until
-- autovacuum collects others.
insert into platform.webhook_changes (xid, webhooks, schema_name, table_name, kind, new)
select (1000 + i / 50)::text::xid8, 'webhook', 'public', 'table', 'INSERT', repeat(i::text, 20) from generate_series(1, 1000) i;
analyze platform.webhook_changes;
truncate platform.webhook_changes restart identity;

-- Which webhook receives which changes of a table. The table is known by its oid, so it may be renamed.
create table platform.webhook_attachments (
  relid oid,
  webhook_id text check (webhook_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  -- INSERT, UPDATE, DELETE
  events text[] not null check (events <@ array['INSERT', 'UPDATE', 'DELETE'] and events <> '{}'),
  primary key (relid, webhook_id)
);

grant select, delete on platform.webhook_changes to service_role;
grant select on platform.webhook_attachments to service_role;
grant insert on platform.webhook_changes to supabase_realtime_admin;

-- Has a value from the first cast to json of the tenant on, see functions/webhook_triggers.sql. A transaction with an older
-- snapshot sees the value as well.
create sequence platform.casts_to_json;
grant select on sequence platform.casts_to_json to supabase_realtime_admin;
select nextval('platform.casts_to_json')
  from pg_cast c join pg_proc f on f.oid = c.castfunc join pg_roles o on o.oid = f.proowner
 where c.casttarget = 'json'::regtype and c.oid >= 16384 and not o.rolsuper limit 1;

-- Auth events are relayed to webhooks in the order of their commits, and stay as a record.
create index events_user on platform.events (xid, id) where kind like 'user.%';
