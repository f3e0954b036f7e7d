-- Live changes. Statement triggers note what a statement has changed in an unlogged table, while somebody listens; every
-- node with subscribers reads it there. What must not be lost goes another way.

create unlogged table platform.changes (
  id bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp(),
  relid oid not null,
  -- I, U or D. A constraint would be read anew by every statement.
  kind "char" not null,
  -- The row after and before: as it is told, in JSON, unless that would be too much, and as it is judged.
  new text,
  old text,
  new_row text,
  old_row text,
  -- Of one of the rows only the key is kept.
  is_large boolean not null default false
);
create index changes_xid on platform.changes (xid, id);
-- Rows live for seconds; what they leave behind must not pile up.
alter table platform.changes set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Which node listens to which table, and until when unless it says so again.
create unlogged table platform.listening (
  relid oid,
  node uuid,
  until timestamptz not null,
  primary key (relid, node)
);

-- Tables that differ from what every table begins with. Goes with the table.
create table platform.realtime_tables (
  relid oid primary key,
  cdc_enabled boolean not null default true,
  realtime_public boolean not null default false
);

grant select on platform.changes, platform.listening, platform.realtime_tables to public;
revoke select on platform.changes from public;
grant select, delete on platform.changes to service_role;
grant select, insert, update, delete on platform.listening to service_role;
grant select on platform.listening to supabase_realtime_admin;
grant insert on platform.changes to supabase_realtime_admin;

-- Messages that SQL sends, and the table whose policies say who may use a private channel. It belongs to the project's
-- owner, who puts policies on it.
create table realtime.messages (
  id uuid primary key default gen_random_uuid(),
  topic text not null,
  extension text not null,
  payload jsonb,
  event text,
  private boolean default false,
  updated_at timestamp not null default now(),
  inserted_at timestamp not null default now()
);
create index messages_topic on realtime.messages (topic, inserted_at) where extension = 'broadcast' and private;
create index messages_inserted_at on realtime.messages (inserted_at);
alter table realtime.messages enable row level security;
grant usage on schema realtime to anon, authenticated, service_role;
grant select, insert, update on realtime.messages to anon, authenticated;
grant select, insert, update, delete on realtime.messages to service_role;

-- The topic of the channel that is being judged.
create function realtime.topic() returns text
language sql stable parallel safe
as $$ select nullif(pg_catalog.current_setting('realtime.topic', true), '') $$;

-- Not being able to send is no reason to undo what the statement around it does.
create function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void
language plpgsql volatile
as $$
begin
  insert into realtime.messages (payload, event, topic, private, extension)
    values (payload, event, topic, private, 'broadcast');
exception when others then
  raise warning 'realtime.send: %', sqlerrm;
end
$$;

create function realtime.broadcast_changes(
  topic_name text, event_name text, operation text, table_name text, table_schema text,
  new record, old record, level text default 'ROW'
) returns void
language plpgsql volatile
as $$
begin
  if level is distinct from 'ROW' then
    raise exception 'realtime.broadcast_changes is for triggers FOR EACH ROW, not for each %', pg_catalog.lower(level);
  end if;
  perform realtime.send(
    pg_catalog.jsonb_build_object('old_record', old, 'record', new, 'operation', operation, 'table', table_name,
      'schema', table_schema),
    event_name, topic_name);
end
$$;
