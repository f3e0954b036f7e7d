-- Mail of the projects: what waits to be sent, what was caught for want of an SMTP server, and their own templates.

create table mail_queue (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  -- Sealed: it holds addresses, links and codes.
  content text not null,
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  -- Whoever takes it has it until then; past that, its taker is dead and another may.
  leased_until timestamptz not null default '-infinity',
  attempts integer not null default 0
);
create index mail_queue_due on mail_queue (due_at);
create index mail_queue_project on mail_queue (project_id);

create table mail_caught (
  -- Messages of one moment are told apart by it; ids are not in order.
  number bigint generated always as identity primary key,
  id uuid not null unique,
  project_id uuid not null references projects on delete cascade,
  content text not null,
  created_at timestamptz not null default now()
);
create index mail_caught_project on mail_caught (project_id, number);

create table mail_templates (
  project_id uuid not null references projects on delete cascade,
  type text not null check (type in ('magic_link', 'verify_email', 'reset_password', 'invite', 'welcome')),
  subject text not null,
  body_html text not null,
  body_text text not null,
  updated_at timestamptz not null default now(),
  primary key (project_id, type)
);

-- The row of a deleted project stays as a record; its mail does not.
create function forget_mail() returns trigger language plpgsql as $$
begin
  delete from mail_queue where project_id = new.id;
  delete from mail_caught where project_id = new.id;
  delete from mail_templates where project_id = new.id;
  return null;
end
$$;
create trigger forget_mail after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_mail();
