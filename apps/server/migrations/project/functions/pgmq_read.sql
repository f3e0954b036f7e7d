-- Messages out. What somebody else is taking at this moment is passed over, never waited for. The clock is the wall's,
-- read once per call.

create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  messages constant text := pgmq.format_table_name(queue_name, 'q');
begin
  return query execute
    format(
      'with taken as (
         update pgmq.%1$I q set vt = clock_timestamp() + make_interval(secs => $4), read_ct = q.read_ct + 1
          where q.msg_id = any(array(
            select d.msg_id from pgmq.%1$I d where d.vt <= $1 %2$s
             order by d.msg_id limit $3 for update skip locked))
         returning q.msg_id, q.read_ct, q.enqueued_at, q.vt, q.message, q.headers
       )
       select t.msg_id, t.read_ct, t.enqueued_at, t.vt, t.message, t.headers from taken t order by t.msg_id',
      messages, case when conditional <> '{}' then 'and d.message @> $2' else '' end)
    using clock_timestamp(), conditional, qty, vt;
end
$$;

-- Each look is a statement of its own and sees what was committed before it. Ends with the first messages, or in time.
create or replace function pgmq.read_with_poll(
  queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100,
  conditional jsonb default '{}'
) returns setof pgmq.message_record
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  until constant timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
  rest double precision;
begin
  loop
    return query select r.msg_id, r.read_ct, r.enqueued_at, r.vt, r.message, r.headers
      from pgmq.read(queue_name, vt, qty, conditional) r;
    rest := extract(epoch from until - clock_timestamp());
    exit when found or rest is null or rest <= 0;
    perform pg_sleep(least(greatest(coalesce(poll_interval_ms, 100), 1) / 1000.0, rest));
  end loop;
end
$$;

-- Taken and gone in one statement: whoever gets it is the only one.
create or replace function pgmq.pop(queue_name text) returns setof pgmq.message_record
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query execute
    format(
      'delete from pgmq.%1$I q
        where q.msg_id = any(array(
          select d.msg_id from pgmq.%1$I d where d.vt <= $1 order by d.msg_id limit 1 for update skip locked))
       returning q.msg_id, q.read_ct, q.enqueued_at, q.vt, q.message, q.headers', pgmq.format_table_name(queue_name, 'q'))
    using clock_timestamp();
end
$$;

revoke execute on function pgmq.read(text, integer, integer, jsonb),
  pgmq.read_with_poll(text, integer, integer, integer, integer, jsonb), pgmq.pop(text) from public;
grant execute on function pgmq.read(text, integer, integer, jsonb),
  pgmq.read_with_poll(text, integer, integer, integer, integer, jsonb), pgmq.pop(text) to service_role;
