-- What becomes of a message: gone, in the archive, or visible at another time. By id alone, whether it can be seen at the
-- moment or not, and whoever has read it: there is no lease to show.

create or replace function pgmq.delete(queue_name text, msg_id bigint) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  gone bigint;
begin
  execute format('delete from pgmq.%I q where q.msg_id = $1 returning q.msg_id', pgmq.format_table_name(queue_name, 'q'))
    into gone using msg_id;
  return gone is not null;
end
$$;

create or replace function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query execute
    format('delete from pgmq.%I q where q.msg_id = any($1) returning q.msg_id', pgmq.format_table_name(queue_name, 'q'))
    using msg_ids;
end
$$;

create or replace function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query execute
    format(
      'with moved as (
         delete from pgmq.%I q where q.msg_id = any($1)
         returning q.msg_id, q.read_ct, q.enqueued_at, q.vt, q.message, q.headers
       )
       insert into pgmq.%I (msg_id, read_ct, enqueued_at, vt, message, headers)
       select m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message, m.headers from moved m
       returning msg_id', pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a'))
    using msg_ids;
end
$$;

create or replace function pgmq.archive(queue_name text, msg_id bigint) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return exists (select from pgmq.archive(queue_name, array[msg_id])); end $$;

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt integer) returns setof pgmq.message_record
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query execute
    format(
      'update pgmq.%I q set vt = clock_timestamp() + make_interval(secs => $2) where q.msg_id = $1
       returning q.msg_id, q.read_ct, q.enqueued_at, q.vt, q.message, q.headers', pgmq.format_table_name(queue_name, 'q'))
    using msg_id, vt;
end
$$;

-- The archive stays, and so does the sequence: an id is never used twice.
create or replace function pgmq.purge_queue(queue_name text) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  messages constant text := pgmq.format_table_name(queue_name, 'q');
  purged bigint;
begin
  -- First, so that what is counted is what goes.
  execute format('lock table pgmq.%I in access exclusive mode', messages);
  execute format('select count(*) from pgmq.%I', messages) into purged;
  execute format('truncate table pgmq.%I', messages);
  return purged;
end
$$;

revoke execute on function pgmq.delete(text, bigint), pgmq.delete(text, bigint[]), pgmq.archive(text, bigint),
  pgmq.archive(text, bigint[]), pgmq.set_vt(text, bigint, integer), pgmq.purge_queue(text) from public;
grant execute on function pgmq.delete(text, bigint), pgmq.delete(text, bigint[]), pgmq.archive(text, bigint),
  pgmq.archive(text, bigint[]), pgmq.set_vt(text, bigint, integer), pgmq.purge_queue(text) to service_role;
