-- How far the outbox of each project has been relayed.
create table outbox_cursors (
  project_id uuid primary key references projects on delete cascade,
  position jsonb not null
);

-- Projects whose outbox may hold events to relay. A node sets the time before it writes such an event, and moves it on
-- while it writes more. A time that has passed means that the node has relayed everything, or that it died.
create table outbox_marks (
  project_id uuid primary key references projects on delete cascade,
  check_at timestamptz not null
);
create index outbox_marks_check on outbox_marks (check_at);

create function forget_outbox() returns trigger language plpgsql as $$
begin
  delete from outbox_cursors where project_id = new.id;
  delete from outbox_marks where project_id = new.id;
  return null;
end
$$;
create trigger forget_outbox after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_outbox();

drop index mail_queue_project;
create index mail_queue_project on mail_queue (project_id, due_at);
