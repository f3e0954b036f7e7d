-- Webhooks of the projects. A delivery waits in webhook_queue until it ends, and is then a record in webhook_deliveries.

create table webhooks (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  -- A listener has no URL: its deliveries are read by the command line, until nobody reads them any more.
  url text,
  events text[] not null,
  description text not null default '',
  -- The id that triggers in the project database have for it. A copy of the project keeps its triggers.
  attached_as uuid not null,
  is_active boolean not null default true,
  -- Sealed.
  secret text not null,
  -- Sealed. After a rotation, deliveries are signed with it as well for some time.
  previous_secret text,
  previous_secret_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- The first failed attempt since the last successful one.
  failing_since timestamptz,
  switched_off_at timestamptz,
  -- Set for listeners only.
  expires_at timestamptz,
  check ((url is null) = (expires_at is not null))
);
create index webhooks_project on webhooks (project_id, created_at);
create index webhooks_expiry on webhooks (expires_at) where expires_at is not null;

-- Ids are ordered by the time of creation. There is no foreign key, because checking it would cost a quarter of the
-- insert: those who insert lock the webhook instead.
create table webhook_queue (
  id uuid not null,
  webhook_id uuid not null,
  event text not null,
  payload text not null,
  created_at timestamptz not null,
  due_at timestamptz not null,
  -- The end of a claim. After it another node may claim the delivery. Not indexed, so that a claim writes no index.
  leased_until timestamptz,
  -- Attempts since the creation or the last manual retry.
  tries integer not null default 0,
  attempt_count integer not null default 0,
  manual_retry_count integer not null default 0,
  attempts jsonb not null default '[]',
  primary key (webhook_id, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0.2);
-- Without the id, so that no plan uses it to find deliveries by their ids.
create index webhook_queue_due on webhook_queue (webhook_id, due_at);

create table webhook_deliveries (
  id uuid not null,
  webhook_id uuid not null,
  event text not null,
  status text not null check (status in ('delivered', 'dead_letter')),
  -- Null once delivered.
  payload text,
  created_at timestamptz not null,
  ended_at timestamptz not null default clock_timestamp(),
  attempt_count integer not null,
  manual_retry_count integer not null,
  attempts jsonb not null,
  primary key (webhook_id, id)
);
create index webhook_deliveries_dead on webhook_deliveries (webhook_id, id) where status = 'dead_letter';

-- How far the changes and events of each project have become deliveries.
create table webhook_cursors (
  project_id uuid not null references projects on delete cascade,
  source text not null,
  position jsonb not null,
  primary key (project_id, source)
);

create function forget_deliveries() returns trigger language plpgsql as $$
begin
  delete from webhook_queue where webhook_id = old.id;
  delete from webhook_deliveries where webhook_id = old.id;
  return null;
end
$$;
create trigger forget_deliveries after delete on webhooks for each row execute function forget_deliveries();

create function forget_webhooks() returns trigger language plpgsql as $$
begin
  -- The relay locks them in this order, too.
  delete from webhook_cursors where project_id = new.id;
  delete from webhooks where project_id = new.id;
  return null;
end
$$;
create trigger forget_webhooks after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_webhooks();

-- Nodes find changed projects by projects.changed, and read the webhooks of a changed project again.
create function note_webhook_change() returns trigger language plpgsql as $$
begin
  update projects set changed = pg_current_xact_id() where id = coalesce(new.project_id, old.project_id);
  return null;
end
$$;
create trigger note_webhook_change after insert or delete on webhooks
  for each row execute function note_webhook_change();
create trigger note_webhook_update after update of url, events, is_active, secret, previous_secret on webhooks
  for each row execute function note_webhook_change();
