-- Queues come and go. Everything runs with the rights of the caller: the project's owner owns the tables it makes, and
-- the service role, which owns nothing, is told who does this for it. Names reach SQL through %I alone.

create or replace function pgmq.validate_queue_name(queue_name text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
  if queue_name is null or queue_name = '' then
    raise invalid_parameter_value using message = 'a queue needs a name';
  end if;
  -- Bytes: what is longer would be cut off in the names of its tables, and two queues would be one.
  if octet_length(queue_name) > 47 then
    raise invalid_parameter_value using message = 'queue name is too long, maximum length is 47 characters',
      detail = format('It has %s bytes.', octet_length(queue_name));
  end if;
  if queue_name ~ '[$;'']|--' then
    raise invalid_parameter_value using message = 'queue name contains invalid characters: $, ;, --, and '' are not allowed';
  end if;
end
$$;

-- Prefix q for messages, a for the archive.
create or replace function pgmq.format_table_name(queue_name text, prefix text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgmq.validate_queue_name(queue_name);
  return prefix || '_' || lower(queue_name collate "C");
end
$$;

-- Whoever makes or drops a queue is alone with its name until the transaction ends.
create or replace function pgmq.acquire_queue_lock(queue_name text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin perform pg_advisory_xact_lock(hashtext('pgmq'), hashtext(pgmq.format_table_name(queue_name, 'q'))); end $$;

-- Makes what is missing of a queue, so that repeating it is no error.
create or replace function pgmq._make(queue_name text, unlogged boolean) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  messages constant text := pgmq.format_table_name(queue_name, 'q');
  archive constant text := pgmq.format_table_name(queue_name, 'a');
  -- Messages come and go at the same rate: dead rows count by their number, not by the size of the table. A read moves
  -- vt, which has no index: with room on the page for a second version, no index is touched by it.
  storage constant text := 'fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000';
  sequence constant text := messages || '_msg_id_seq';
  has_messages boolean;
  has_archive boolean;
  is_taken boolean;
begin
  perform pgmq.acquire_queue_lock(queue_name);
  select coalesce(bool_or(c.relname = messages and c.relkind = 'r'), false),
         coalesce(bool_or(c.relname = archive and c.relkind = 'r'), false),
         coalesce(bool_or(c.relkind <> case c.relname when sequence then 'S' else 'r' end::"char"), false)
    into has_messages, has_archive, is_taken
    from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relname in (messages, archive, sequence);
  -- Queue x has a sequence q_x_msg_id_seq, and a queue x_msg_id_seq would have a table of that name.
  if is_taken then
    raise duplicate_table using message = format('queue "%s" would have a name in common with parts of another queue', queue_name),
      hint = 'Choose another name.';
  end if;
  if has_messages and has_archive
    and exists (select from pgmq.meta m where lower(m.queue_name collate "C") = substr(messages, 3))
  then
    return;
  end if;
  if not has_schema_privilege('pgmq', 'create') then
    raise insufficient_privilege using message = format('queue "%s" can be created by the project''s owner only', queue_name),
      hint = 'Create it over HTTP, in a migration, or over the project''s direct connection.';
  end if;

  if not has_messages then
    execute format(
      'create %s table pgmq.%I (
         msg_id bigint generated always as identity (sequence name pgmq.%I) primary key,
         read_ct integer not null default 0,
         enqueued_at timestamptz not null default now(),
         vt timestamptz not null,
         message jsonb,
         headers jsonb
       ) with (%s)', case when unlogged then 'unlogged' else '' end, messages, sequence, storage);
    if unlogged then
      -- The archive outlives a crash; ids that it knows must not come again.
      execute format('alter sequence pgmq.%I set logged', sequence);
    end if;
    execute format('grant select, insert, update, delete, truncate on pgmq.%I to service_role', messages);
    execute format('grant usage, select on sequence pgmq.%I to service_role', sequence);
  end if;
  if not has_archive then
    execute format(
      'create table pgmq.%I (
         msg_id bigint primary key,
         read_ct integer not null default 0,
         enqueued_at timestamptz not null default now(),
         archived_at timestamptz not null default now(),
         vt timestamptz not null,
         message jsonb,
         headers jsonb
       )', archive);
    execute format('create index on pgmq.%I (archived_at)', archive);
    execute format('grant select, insert, update, delete on pgmq.%I to service_role', archive);
  end if;
  insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values (queue_name, false, unlogged)
    on conflict do nothing;
end
$$;

create or replace function pgmq.create_non_partitioned(queue_name text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin perform pgmq._make(queue_name, false); end $$;

create or replace function pgmq.create(queue_name text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin perform pgmq._make(queue_name, false); end $$;

create or replace function pgmq.create_unlogged(queue_name text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin perform pgmq._make(queue_name, true); end $$;

create or replace function pgmq.create_partitioned(
  queue_name text, partition_interval text default '10000', retention_interval text default '100000'
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  raise feature_not_supported using message = 'partitioned queues are not available here',
    hint = 'pgmq.create makes a queue; what is done with goes to the archive, or is deleted.';
end
$$;

create or replace function pgmq.convert_archive_partitioned(
  table_name text, partition_interval text default '10000', retention_interval text default '100000',
  leading_partition integer default 10
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  raise feature_not_supported using message = 'partitioned archives are not available here',
    hint = 'Old rows of an archive can be deleted by archived_at, which has an index.';
end
$$;

-- False when there was nothing to drop.
create or replace function pgmq.drop_queue(queue_name text) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  messages constant text := pgmq.format_table_name(queue_name, 'q');
  archive constant text := pgmq.format_table_name(queue_name, 'a');
  has_messages boolean;
begin
  perform pgmq.acquire_queue_lock(queue_name);
  has_messages := exists (
    select from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relname = messages and c.relkind = 'r');
  if not has_messages
    and not exists (select from pgmq.meta m where lower(m.queue_name collate "C") = substr(messages, 3))
  then
    return false;
  end if;
  if not has_schema_privilege('pgmq', 'create') then
    raise insufficient_privilege using message = format('queue "%s" can be dropped by the project''s owner only', queue_name),
      hint = 'Drop it over HTTP, in a migration, or over the project''s direct connection.';
  end if;
  if has_messages then
    execute format('drop table pgmq.%I', messages);
  end if;
  execute format('drop table if exists pgmq.%I', archive);
  delete from pgmq.meta m where lower(m.queue_name collate "C") = substr(messages, 3);
  return true;
end
$$;

create or replace function pgmq.drop_queue(queue_name text, partitioned boolean) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return pgmq.drop_queue(queue_name); end $$;

-- There is no extension whose removal an archive would have to survive; it stays part of its queue.
create or replace function pgmq.detach_archive(queue_name text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  if to_regclass(format('pgmq.%I', pgmq.format_table_name(queue_name, 'a'))) is null then
    raise undefined_table using message = format('queue "%s" does not exist', queue_name);
  end if;
end
$$;

create or replace function pgmq.list_queues() returns setof pgmq.queue_record
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  return query select m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at from pgmq.meta m order by m.queue_name;
end
$$;

revoke execute on function pgmq.validate_queue_name(text), pgmq.format_table_name(text, text),
  pgmq.acquire_queue_lock(text), pgmq._make(text, boolean), pgmq.create_non_partitioned(text), pgmq.create(text),
  pgmq.create_unlogged(text), pgmq.create_partitioned(text, text, text),
  pgmq.convert_archive_partitioned(text, text, text, integer), pgmq.drop_queue(text), pgmq.drop_queue(text, boolean),
  pgmq.detach_archive(text), pgmq.list_queues() from public;
grant execute on function pgmq.validate_queue_name(text), pgmq.format_table_name(text, text),
  pgmq.acquire_queue_lock(text), pgmq._make(text, boolean), pgmq.create_non_partitioned(text), pgmq.create(text),
  pgmq.create_unlogged(text), pgmq.create_partitioned(text, text, text),
  pgmq.convert_archive_partitioned(text, text, text, integer), pgmq.drop_queue(text), pgmq.drop_queue(text, boolean),
  pgmq.detach_archive(text), pgmq.list_queues() to service_role;
