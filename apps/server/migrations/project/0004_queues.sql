-- Queues, under the names that clients of pgmq know. A queue is a table q_… and an archive a_…, made by the functions in
-- functions/pgmq_*.sql and owned by the project's owner, who made them; nothing here is ever run by the superuser.

-- The project's owner writes here, but may not reference it: the check of a foreign key runs as the owner of the table
-- it points to.
create table pgmq.meta (
  queue_name varchar not null unique,
  is_partitioned boolean not null,
  is_unlogged boolean not null,
  created_at timestamptz not null default now()
);
-- Tables are named in lower case, so two spellings are one queue.
create unique index meta_spelling on pgmq.meta (lower(queue_name collate "C"));

create type pgmq.message_record as (
  msg_id bigint,
  read_ct integer,
  enqueued_at timestamptz,
  vt timestamptz,
  message jsonb,
  headers jsonb
);
create type pgmq.queue_record as (
  queue_name varchar,
  is_partitioned boolean,
  is_unlogged boolean,
  created_at timestamptz
);
create type pgmq.metrics_result as (
  queue_name text,
  queue_length bigint,
  newest_msg_age_sec integer,
  oldest_msg_age_sec integer,
  total_messages bigint,
  scrape_time timestamptz,
  queue_visible_length bigint
);

grant usage on schema pgmq to service_role;
grant select on pgmq.meta to service_role;

-- For clients that reach queues by rpc; served only where a project says so. One that the tenant has made stays its own.
create schema if not exists pgmq_public;
