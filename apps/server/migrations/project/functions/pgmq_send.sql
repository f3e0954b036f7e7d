-- Messages in. A delay is a number of seconds, or the moment from which the message can be seen.

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query execute
    format('insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id', pgmq.format_table_name(queue_name, 'q'))
    using coalesce(delay, clock_timestamp()), msg, headers;
end
$$;

create or replace function pgmq.send(queue_name text, msg jsonb) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return query select pgmq.send(queue_name, msg, null::jsonb, clock_timestamp()); end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return query select pgmq.send(queue_name, msg, headers, clock_timestamp()); end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, delay integer) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query select pgmq.send(queue_name, msg, null::jsonb, clock_timestamp() + make_interval(secs => delay));
end
$$;

create or replace function pgmq.send(queue_name text, msg jsonb, delay timestamptz) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return query select pgmq.send(queue_name, msg, null::jsonb, delay); end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay integer) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query select pgmq.send(queue_name, msg, headers, clock_timestamp() + make_interval(secs => delay));
end
$$;

-- In the order given, and so are the ids: numbers are drawn after the sort.
create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz)
returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  if cardinality(headers) > cardinality(msgs) then
    raise invalid_parameter_value using message = 'there are more headers than messages';
  end if;
  return query execute
    format(
      'insert into pgmq.%I (vt, message, headers)
       select $1, b.message, b.headers from unnest($2, $3) with ordinality as b (message, headers, place)
        order by b.place
       returning msg_id', pgmq.format_table_name(queue_name, 'q'))
    using coalesce(delay, clock_timestamp()), msgs, coalesce(headers, array[]::jsonb[]);
end
$$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[]) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], clock_timestamp()); end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[]) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return query select pgmq.send_batch(queue_name, msgs, headers, clock_timestamp()); end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], clock_timestamp() + make_interval(secs => delay));
end
$$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], delay); end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer)
returns setof bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return query select pgmq.send_batch(queue_name, msgs, headers, clock_timestamp() + make_interval(secs => delay));
end
$$;

revoke execute on function pgmq.send(text, jsonb), pgmq.send(text, jsonb, jsonb), pgmq.send(text, jsonb, integer),
  pgmq.send(text, jsonb, timestamptz), pgmq.send(text, jsonb, jsonb, integer), pgmq.send(text, jsonb, jsonb, timestamptz),
  pgmq.send_batch(text, jsonb[]), pgmq.send_batch(text, jsonb[], jsonb[]), pgmq.send_batch(text, jsonb[], integer),
  pgmq.send_batch(text, jsonb[], timestamptz), pgmq.send_batch(text, jsonb[], jsonb[], integer),
  pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) from public;
grant execute on function pgmq.send(text, jsonb), pgmq.send(text, jsonb, jsonb), pgmq.send(text, jsonb, integer),
  pgmq.send(text, jsonb, timestamptz), pgmq.send(text, jsonb, jsonb, integer), pgmq.send(text, jsonb, jsonb, timestamptz),
  pgmq.send_batch(text, jsonb[]), pgmq.send_batch(text, jsonb[], jsonb[]), pgmq.send_batch(text, jsonb[], integer),
  pgmq.send_batch(text, jsonb[], timestamptz), pgmq.send_batch(text, jsonb[], jsonb[], integer),
  pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) to service_role;
