-- How changes are noted: three statement triggers on every table, disabled until somebody listens to it. A disabled
-- trigger costs a write nothing.

-- Too large to be kept. What is stored compressed can be 255 times as large, and its text twice that.
create or replace function platform.is_large(line record) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  return case when pg_column_size(line) <= 4000 then false
              when pg_column_size(line) > 1000000 then true
              else octet_length(line::text) > 1048576 end;
end
$$;

-- What is noted of each row of a transition table: JSON while it is small enough to be told, and the row itself. Of a row
-- that is too large for anything, only the key. A type of the tenant's is written as text where the tenant has made a cast
-- to json: no code of a tenant's runs here.
create or replace function platform.noting(rel oid, source text, has_casts boolean) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select format(
    'select row_number() over () as place,
            case when pg_column_size(r.*) <= 8000 then (select row_to_json(x.*)::text from (select %s) x) end as told,
            case when platform.is_large(r.*) then (row(%s))::text else (r.*)::text end as judged,
            platform.is_large(r.*) as is_large
       from %I r',
    coalesce(string_agg(format(case when has_casts and a.atttypid >= 16384
        then 'case when num_nulls(r.%1$I) = 0 then concat(r.%1$I) end as %1$I' else 'r.%1$I' end, a.attname), ', ' order by a.attnum), ''),
    coalesce(string_agg(case when a.attnum = any (i.indkey) then format('r.%I', a.attname) else 'null' end, ', ' order by a.attnum), ''),
    source)
    from pg_attribute a left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
   where a.attrelid = rel and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v'
$$;

-- A value is written the same way whatever the writer's session has set.
create or replace function platform.note_change() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set timezone = 'UTC'
set extra_float_digits = 1 set bytea_output = 'hex'
as $$
#variable_conflict use_variable
declare
  has_casts boolean := false;
  is_large boolean := false;
begin
  -- A node that was killed leaves its triggers enabled. A transaction with an older view does not see who listens.
  if current_setting('transaction_isolation') = 'read committed' and not exists (
    select from platform.listening l where l.relid = tg_relid and l.until > clock_timestamp()
  ) then
    return null;
  end if;

  -- A snapshot may be older than a cast. A sequence is always read as it is now.
  has_casts := pg_sequence_last_value('platform.casts_to_json') is not null;
  if tg_op <> 'DELETE' then
    is_large := exists (select from new_rows r where pg_column_size(r.*) > 4000 and platform.is_large(r.*));
  end if;
  if tg_op <> 'INSERT' and not is_large then
    is_large := exists (select from old_rows r where pg_column_size(r.*) > 4000 and platform.is_large(r.*));
  end if;

  if has_casts or is_large then
    case tg_op
      when 'INSERT' then
        execute format('insert into platform.changes (relid, kind, new, new_row, is_large)
          select %s, ''I'', n.told, n.judged, n.is_large from (%s) n', tg_relid, platform.noting(tg_relid, 'new_rows', has_casts));
      when 'UPDATE' then
        execute format('insert into platform.changes (relid, kind, new, old, new_row, old_row, is_large)
          select %s, ''U'', n.told, o.told, n.judged, o.judged, n.is_large or o.is_large from (%s) n join (%s) o using (place) order by place',
          tg_relid, platform.noting(tg_relid, 'new_rows', has_casts), platform.noting(tg_relid, 'old_rows', has_casts));
      else
        execute format('insert into platform.changes (relid, kind, old, old_row, is_large)
          select %s, ''D'', o.told, o.judged, o.is_large from (%s) o', tg_relid, platform.noting(tg_relid, 'old_rows', has_casts));
    end case;
    return null;
  end if;

  case tg_op
    when 'INSERT' then
      insert into platform.changes (relid, kind, new, new_row)
        select tg_relid, 'I', case when pg_column_size(r.*) <= 8000 then row_to_json(r.*)::text end, (r.*)::text from new_rows r;
    when 'UPDATE' then
      -- Postgres fills both in the same order.
      insert into platform.changes (relid, kind, new, old, new_row, old_row)
        select tg_relid, 'U', n.told, o.told, n.judged, o.judged
          from (select row_number() over () as place, (r.*)::text as judged,
                       case when pg_column_size(r.*) <= 8000 then row_to_json(r.*)::text end as told from new_rows r) n
          join (select row_number() over () as place, (r.*)::text as judged,
                       case when pg_column_size(r.*) <= 8000 then row_to_json(r.*)::text end as told from old_rows r) o using (place)
         order by place;
    else
      insert into platform.changes (relid, kind, old, old_row)
        select tg_relid, 'D', case when pg_column_size(r.*) <= 8000 then row_to_json(r.*)::text end, (r.*)::text from old_rows r;
  end case;
  return null;
end
$$;
alter function platform.note_change() owner to supabase_realtime_admin;
-- A tenant must not create triggers with it. Without transition tables, new_rows would be a temporary view of the tenant,
-- and its functions would run with the rights of this one.
revoke execute on function platform.note_change() from public;

-- Creates the missing triggers, disabled. Any role that creates tables runs this, as the superuser, who may create triggers
-- with note_change. No code of a tenant runs in these statements. Called directly, it changes nothing: the tables have
-- their triggers, and others get none.
create or replace function platform.attach_capture(rel oid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  name constant text := rel::regclass::text;
  r record;
begin
  if not exists (
    select from pg_class c
     where c.oid = rel and c.relkind in ('r', 'p')
       and (c.relnamespace = to_regnamespace('public') or c.oid = to_regclass('realtime.messages'))
       and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  ) then
    return;
  end if;
  for r in
    select * from (values
      ('plinth_insert', 'insert', 'new table as new_rows'),
      ('plinth_update', 'update', 'old table as old_rows new table as new_rows'),
      ('plinth_delete', 'delete', 'old table as old_rows')) as e (trigger, event, tables)
     where not exists (
       select from pg_trigger t where t.tgrelid = rel and t.tgname = e.trigger and t.tgfoid = 'platform.note_change()'::regprocedure)
  loop
    execute format('create or replace trigger %I after %s on %s referencing %s for each statement execute function platform.note_change()',
      r.trigger, r.event, name, r.tables);
    execute format('alter table %s disable trigger %I', name, r.trigger);
  end loop;
end
$$;

-- Triggers that tenants have created with note_change while they could.
do $$
declare
  r record;
begin
  for r in
    select t.tgname, t.tgrelid::regclass as name from pg_trigger t
     where t.tgfoid = 'platform.note_change()'::regprocedure
       and (t.tgname, t.tgtype, coalesce(t.tgoldtable, ''), coalesce(t.tgnewtable, '')) not in (
         ('plinth_insert', 4, '', 'new_rows'), ('plinth_update', 16, 'old_rows', 'new_rows'), ('plinth_delete', 8, 'old_rows', ''))
  loop
    execute format('drop trigger %I on %s', r.tgname, r.name);
  end loop;
end
$$;

-- Tables from before, and the one SQL sends messages through.
do $$
declare
  r record;
begin
  for r in
    select c.oid from pg_class c
     where (c.relnamespace = to_regnamespace('public') or c.oid = to_regclass('realtime.messages')) and c.relkind in ('r', 'p')
  loop
    perform platform.attach_capture(r.oid);
  end loop;
end
$$;
