-- How changes are noted: three statement triggers on every table, disabled until somebody listens to it. A disabled
-- trigger costs a write nothing.

-- Runs as a role that can do nothing but note: making JSON of a row may run casts of the tenant's. A value is written the
-- same way whatever the writer's session has set.
create or replace function platform.note_change() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set timezone = 'UTC'
set extra_float_digits = 1 set bytea_output = 'hex'
as $$
#variable_conflict use_variable
begin
  -- A node that was killed leaves its triggers enabled.
  if not exists (select from platform.listening l where l.relid = tg_relid and l.until > clock_timestamp()) then
    return null;
  end if;
  case tg_op
    when 'INSERT' then
      insert into platform.changes (relid, kind, new, new_row)
        select tg_relid, 'I', row_to_json(r.*)::text, (r.*)::text from new_rows r;
    when 'UPDATE' then
      -- Postgres fills both in the same order.
      insert into platform.changes (relid, kind, new, old, new_row, old_row)
        select tg_relid, 'U', n.told, o.told, n.judged, o.judged
          from (select row_number() over () as place, row_to_json(r.*)::text as told, (r.*)::text as judged from new_rows r) n
          join (select row_number() over () as place, row_to_json(r.*)::text as told, (r.*)::text as judged from old_rows r) o
            using (place)
         order by place;
    else
      insert into platform.changes (relid, kind, old, old_row)
        select tg_relid, 'D', row_to_json(r.*)::text, (r.*)::text from old_rows r;
  end case;
  return null;
end
$$;
alter function platform.note_change() owner to supabase_realtime_admin;

-- Run by whoever may create triggers on the table, in that role.
create or replace function platform.attach_capture(rel oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  name constant text := rel::regclass::text;
begin
  execute format('create or replace trigger plinth_insert after insert on %s referencing new table as new_rows
    for each statement execute function platform.note_change()', name);
  execute format('create or replace trigger plinth_update after update on %s referencing old table as old_rows new table as new_rows
    for each statement execute function platform.note_change()', name);
  execute format('create or replace trigger plinth_delete after delete on %s referencing old table as old_rows
    for each statement execute function platform.note_change()', name);
  execute format('alter table %s disable trigger plinth_insert, disable trigger plinth_update, disable trigger plinth_delete', name);
end
$$;

-- Tables from before, and the one SQL sends messages through.
do $$
declare
  r record;
begin
  for r in
    select c.oid from pg_class c
     where (c.relnamespace = to_regnamespace('public') or c.oid = to_regclass('realtime.messages'))
       and c.relkind in ('r', 'p')
       and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
       and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'plinth_insert')
  loop
    perform platform.attach_capture(r.oid);
  end loop;
end
$$;
