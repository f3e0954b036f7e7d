-- The outbox of the project: events are written in the transaction they belong to, so none is lost and none is told of
-- that did not happen. A reader compares xid with a snapshot, so a transaction that commits late is never skipped.
create table platform.events (
  id bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  -- The id that receivers of the event see.
  event_id uuid not null default gen_random_uuid(),
  kind text not null,
  payload jsonb not null,
  -- Whether the event still has to be relayed to the control database. Others are kept as a record.
  is_due boolean not null default false,
  created_at timestamptz not null default clock_timestamp()
);
create index events_due on platform.events (xid, id) where is_due;
create index events_time on platform.events (created_at);
-- Mails live for moments; their dead rows must not pile up.
alter table platform.events set (autovacuum_vacuum_scale_factor = 0.05);
grant select, update (is_due), delete on platform.events to service_role;
grant select, insert on platform.events to supabase_auth_admin;

-- Auth events move into the outbox. The view has the columns that the table had.
insert into platform.events (event_id, kind, payload, created_at)
select right(id, 32)::uuid, type, jsonb_build_object('user_id', user_id, 'email', email), created_at
  from auth.events order by created_at;

do $$
begin
  drop table auth.events;
exception when dependent_objects_still_exist then
  -- The project's own views or foreign keys use it: they keep the events so far.
  alter table auth.events rename to events_until_outbox;
end
$$;

create view auth.events as
  select 'evt_' || replace(event_id::text, '-', '') as id, kind as type, (payload ->> 'user_id')::uuid as user_id,
         payload ->> 'email' as email, created_at
    from platform.events where kind like 'user.%';
alter view auth.events owner to supabase_auth_admin;
