-- Secrets of a project, which its edge functions read.
create table secrets (
  project_id uuid not null references projects on delete cascade,
  id uuid not null default gen_random_uuid(),
  name text not null,
  -- Sealed.
  value text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, id),
  constraint secrets_name unique (project_id, name)
);

create function forget_secrets() returns trigger language plpgsql as $$
begin
  delete from secrets where project_id = new.id;
  return null;
end
$$;
create trigger forget_secrets after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_secrets();
