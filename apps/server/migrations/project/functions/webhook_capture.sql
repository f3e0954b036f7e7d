-- Captures row changes for webhooks: statement triggers on attached tables write them to platform.webhook_changes.
-- The first argument of a trigger is the list of its webhooks, so that it needs no lookup.
--
-- The trigger functions run with the rights of supabase_realtime_admin. No code of a tenant may run in them:
-- - Tenants have no right to create triggers with them. In a trigger without transition tables, new_rows would be a
--   temporary view of the tenant.
-- - row_to_json calls casts to json. If a tenant has created one, all tables use platform.capture_built instead.

-- JSON of the primary key, from JSON of the row.
create or replace function platform.key_line(rel oid, line text) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select concat('{', string_agg(concat(to_json(e.key), ':', e.value), ','), '}')
    from json_each(line::json) e
    join pg_attribute a on a.attrelid = rel and a.attname = e.key
    join pg_index i on i.indrelid = rel and i.indisprimary and a.attnum = any (i.indkey)
$$;

-- JSON of any row in any session: a value has the same text whatever the session of the tenant has set. A value can be
-- stored compressed, so only its text has the real size. JSON over 1 GB raises an error, and then not even the key is
-- stored.
create or replace function platform.row_line(rel oid, line record) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set timezone = 'UTC'
set extra_float_digits = 1 set bytea_output = 'hex'
as $$
declare
  written text;
begin
  if pg_column_size(line) > 16777216 then
    return ' {}';
  end if;
  begin
    written := row_to_json(line)::text;
  exception when program_limit_exceeded or out_of_memory then
    return ' {}';
  end;
  return case when octet_length(written) <= 262144 then written else ' ' || platform.key_line(rel, written) end;
end
$$;

-- One function for each operation with as little as possible, because every write to an attached table runs it. A row of
-- up to 1000 bytes cannot be too large, even if its values are compressed. A variable wins over a column of the tenant's
-- table with its name.
-- The search_path is that of the tenant, because setting it would cost time. So every function, type and operator must be
-- written with its schema, and nothing used that looks up an operator by itself, as USING and IN do.
-- These three are for tables whose JSON depends on no setting but the time zone.
-- The platform polls the statistics of databases to notice commits, so the commit must not hold them back.
create or replace function platform.capture_insert() returns trigger
language plpgsql security definer
as $$
#variable_conflict use_variable
declare
  done pg_catalog.text;
begin
  insert into platform.webhook_changes (webhooks, schema_name, table_name, kind, new)
  select tg_argv[0], tg_table_schema, tg_table_name, 'INSERT',
         case when pg_catalog.current_setting('timezone') operator(pg_catalog.=) 'UTC'
                and pg_catalog.pg_column_size(r.*) operator(pg_catalog.<=) 1000
           then pg_catalog.row_to_json(r.*)::pg_catalog.text else platform.row_line(tg_relid, r.*) end
    from new_rows r;
  done := pg_catalog.pg_stat_force_next_flush();
  return null;
end
$$;

-- Postgres fills both transition tables in the same order, so rows are paired by their place, and a changed primary key
-- does not matter. Most statements update one row, which needs no pairing. A full join cannot become a nested loop: the
-- plan is cached, and would be slow if it was made for few rows and then runs for many.
create or replace function platform.capture_update() returns trigger
language plpgsql security definer
as $$
#variable_conflict use_variable
declare
  done pg_catalog.text;
begin
  insert into platform.webhook_changes (webhooks, schema_name, table_name, kind, new, old)
  select tg_argv[0], tg_table_schema, tg_table_name, 'UPDATE',
         case when pg_catalog.current_setting('timezone') operator(pg_catalog.=) 'UTC'
                and pg_catalog.pg_column_size(n.*) operator(pg_catalog.<=) 1000
           then pg_catalog.row_to_json(n.*)::pg_catalog.text else platform.row_line(tg_relid, n.*) end,
         case when pg_catalog.current_setting('timezone') operator(pg_catalog.=) 'UTC'
                and pg_catalog.pg_column_size(o.*) operator(pg_catalog.<=) 1000
           then pg_catalog.row_to_json(o.*)::pg_catalog.text else platform.row_line(tg_relid, o.*) end
    from new_rows n cross join old_rows o where not exists (select from new_rows offset 1);
  if not found and exists (select from new_rows) then
    insert into platform.webhook_changes (webhooks, schema_name, table_name, kind, new, old)
    select tg_argv[0], tg_table_schema, tg_table_name, 'UPDATE', n.line, o.line
      from (select pg_catalog.row_number() over () as place,
                   case when pg_catalog.current_setting('timezone') operator(pg_catalog.=) 'UTC'
                          and pg_catalog.pg_column_size(r.*) operator(pg_catalog.<=) 1000
                     then pg_catalog.row_to_json(r.*)::pg_catalog.text else platform.row_line(tg_relid, r.*) end as line
              from new_rows r) n
      full join (select pg_catalog.row_number() over () as place,
                        case when pg_catalog.current_setting('timezone') operator(pg_catalog.=) 'UTC'
                               and pg_catalog.pg_column_size(r.*) operator(pg_catalog.<=) 1000
                          then pg_catalog.row_to_json(r.*)::pg_catalog.text else platform.row_line(tg_relid, r.*) end as line
                   from old_rows r) o
        on n.place operator(pg_catalog.=) o.place
     order by n.place;
  end if;
  done := pg_catalog.pg_stat_force_next_flush();
  return null;
end
$$;

create or replace function platform.capture_delete() returns trigger
language plpgsql security definer
as $$
#variable_conflict use_variable
declare
  done pg_catalog.text;
begin
  insert into platform.webhook_changes (webhooks, schema_name, table_name, kind, old)
  select tg_argv[0], tg_table_schema, tg_table_name, 'DELETE',
         case when pg_catalog.current_setting('timezone') operator(pg_catalog.=) 'UTC'
                and pg_catalog.pg_column_size(r.*) operator(pg_catalog.<=) 1000
           then pg_catalog.row_to_json(r.*)::pg_catalog.text else platform.row_line(tg_relid, r.*) end
    from old_rows r;
  done := pg_catalog.pg_stat_force_next_flush();
  return null;
end
$$;

-- The same functions with settings, for all other tables.
do $do$
declare
  operation text;
begin
  foreach operation in array array['insert', 'update', 'delete'] loop
    execute replace(pg_get_functiondef(format('platform.capture_%s()', operation)::regprocedure),
      format('capture_%s()', operation), format('capture_%s_with_settings()', operation));
    execute format($$
      alter function platform.capture_%s_with_settings()
        set search_path = pg_catalog, pg_temp set datestyle = 'ISO, MDY' set intervalstyle = 'postgres'
        set timezone = 'UTC' set extra_float_digits = 1 set bytea_output = 'hex'$$, operation);
  end loop;
end
$do$;

-- SQL that reads a transition table: the place of a row and its JSON. Virtual generated columns have no value here and
-- are left out. With casts to json, values of types that are not built in are written as text, without a cast. A snapshot
-- may be older than a cast, but a sequence is always read as it is now.
create or replace function platform.capture_source(rel oid, source text) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select format(
    'select s.place, case when octet_length(s.line) <= 262144 then s.line else '' '' || s.key end as line
       from (select row_number() over () as place,
                    case when pg_column_size(r.*) <= 262144 then (select row_to_json(x.*)::text from (select %s) x) end as line,
                    (select row_to_json(k.*)::text from (select %s) k) as key
               from %I r offset 0) s',
    string_agg(c.value, ', ' order by a.attnum) filter (where a.attgenerated <> 'v'),
    string_agg(c.value, ', ' order by a.attnum) filter (where a.attnum = any (i.indkey)),
    source)
    from pg_attribute a left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
    cross join (select pg_sequence_last_value('platform.casts_to_json') is not null) as t (has_casts)
    cross join lateral (select format(case when a.atttypid >= 16384 and t.has_casts
      then 'case when num_nulls(r.%1$I) = 0 then concat(r.%1$I) end as %1$I' else 'r.%1$I' end, a.attname)) as c (value)
   where a.attrelid = rel and a.attnum > 0 and not a.attisdropped
$$;

-- Builds its statement from the columns of the table. Also for partitions of an attached table, which report changes
-- under its name: its oid is the second argument.
create or replace function platform.capture_built() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set timezone = 'UTC'
set extra_float_digits = 1 set bytea_output = 'hex'
as $$
declare
  columns constant text := case tg_op when 'INSERT' then 'new' when 'DELETE' then 'old' else 'new, old' end;
  lines constant text := case tg_op when 'INSERT' then 'n.line' when 'DELETE' then 'o.line' else 'n.line, o.line' end;
  sources constant text := case tg_op
    when 'INSERT' then format('(%s) n', platform.capture_source(tg_relid, 'new_rows'))
    when 'DELETE' then format('(%s) o', platform.capture_source(tg_relid, 'old_rows'))
    else format('(%s) n full join (%s) o using (place)', platform.capture_source(tg_relid, 'new_rows'),
      platform.capture_source(tg_relid, 'old_rows')) end;
begin
  execute format('insert into platform.webhook_changes (webhooks, schema_name, table_name, kind, %s)
    select $1, s.nspname, c.relname, $2, %s
      from %s cross join pg_class c join pg_namespace s on s.oid = c.relnamespace where c.oid = $3 order by place',
    columns, lines, sources) using tg_argv[0], tg_op, tg_argv[1]::oid;
  perform pg_stat_force_next_flush();
  return null;
end
$$;

do $$
declare
  capture regprocedure;
begin
  for capture in
    select oid from pg_proc
     where pronamespace = 'platform'::regnamespace and prorettype = 'trigger'::regtype and starts_with(proname, 'capture_')
  loop
    execute format('alter function %s owner to supabase_realtime_admin', capture);
    execute format('revoke execute on function %s from public', capture);
  end loop;
end
$$;
