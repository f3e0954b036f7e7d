-- Nodes find changed projects by this column and not by NOTIFY: any project can fill the notification queue, which is
-- one for the whole server, and every transaction that notifies then fails.
alter table projects add column changed xid8 not null default pg_current_xact_id();
create index projects_changed on projects (changed);

drop trigger announce_project on projects;
drop function announce_project();

create function note_project_change() returns trigger language plpgsql as $$
begin
  new.changed := pg_current_xact_id();
  return new;
end
$$;
create trigger note_project_change before update on projects
  for each row execute function note_project_change();

-- The database or a role of a deleted project could not be dropped yet; recovery drops them later.
alter table projects add column has_leftovers boolean not null default false;
