-- What lies in a queue, and how many messages have ever been sent to it: that is where its sequence stands.

create or replace function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  messages constant text := pgmq.format_table_name(queue_name, 'q');
  result pgmq.metrics_result;
begin
  execute format(
    'select $1, count(*), trunc(extract(epoch from now() - max(q.enqueued_at)))::integer,
            trunc(extract(epoch from now() - min(q.enqueued_at)))::integer,
            (select case when s.is_called then s.last_value else 0 end from pgmq.%I s), now(),
            count(*) filter (where q.vt <= $2)
       from pgmq.%I q', messages || '_msg_id_seq', messages)
    into result using queue_name, clock_timestamp();
  return result;
end
$$;

-- Of every queue whose table is there: the project's owner may have dropped one by hand.
create or replace function pgmq.metrics_all() returns setof pgmq.metrics_result
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  name text;
begin
  for name in select m.queue_name from pgmq.meta m order by m.queue_name loop
    if to_regclass(format('pgmq.%I', pgmq.format_table_name(name, 'q'))) is not null then
      return next pgmq.metrics(name);
    end if;
  end loop;
end
$$;

revoke execute on function pgmq.metrics(text), pgmq.metrics_all() from public;
grant execute on function pgmq.metrics(text), pgmq.metrics_all() to service_role;
