-- Queues by rpc, in the words that supabase-js users know. A schema of this name that the tenant has made is left alone.

do $do$
begin
  if not exists (
    select from pg_namespace n join pg_roles r on r.oid = n.nspowner
     where n.nspname = 'pgmq_public' and r.rolname = current_user
  ) then
    return;
  end if;

  create or replace function pgmq_public.send(queue_name text, message jsonb, sleep_seconds integer default 0)
  returns setof bigint
  language plpgsql volatile set search_path = pg_catalog, pg_temp
  as $$ begin return query select pgmq.send(queue_name, message, coalesce(sleep_seconds, 0)); end $$;

  create or replace function pgmq_public.send_batch(queue_name text, messages jsonb[], sleep_seconds integer default 0)
  returns setof bigint
  language plpgsql volatile set search_path = pg_catalog, pg_temp
  as $$ begin return query select pgmq.send_batch(queue_name, messages, coalesce(sleep_seconds, 0)); end $$;

  create or replace function pgmq_public.read(queue_name text, sleep_seconds integer, n integer)
  returns setof pgmq.message_record
  language plpgsql volatile set search_path = pg_catalog, pg_temp
  as $$ begin return query select * from pgmq.read(queue_name, sleep_seconds, n); end $$;

  create or replace function pgmq_public.pop(queue_name text) returns setof pgmq.message_record
  language plpgsql volatile set search_path = pg_catalog, pg_temp
  as $$ begin return query select * from pgmq.pop(queue_name); end $$;

  create or replace function pgmq_public.archive(queue_name text, message_id bigint) returns boolean
  language plpgsql volatile set search_path = pg_catalog, pg_temp
  as $$ begin return pgmq.archive(queue_name, message_id); end $$;

  create or replace function pgmq_public.delete(queue_name text, message_id bigint) returns boolean
  language plpgsql volatile set search_path = pg_catalog, pg_temp
  as $$ begin return pgmq.delete(queue_name, message_id); end $$;

  revoke execute on all functions in schema pgmq_public from public;
  grant usage on schema pgmq_public to service_role;
  grant execute on all functions in schema pgmq_public to service_role;
end
$do$;
