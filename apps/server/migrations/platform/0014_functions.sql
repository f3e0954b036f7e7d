-- Edge functions. The bytes are in the object store; a version names the archives that it consists of.
create table function_archives (
  project_id uuid not null references projects on delete cascade,
  id uuid not null,
  -- Of the content, so that versions with the same packages share one archive.
  hash text not null,
  bytes bigint not null default 0,
  -- Sealed. It is not bound to the project, so that a copy of a project can keep it.
  data_key text not null,
  -- False until all bytes are stored. An archive that stays incomplete is removed.
  is_complete boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (project_id, id)
);
create index function_archives_hash on function_archives (project_id, hash) where is_complete;

create table functions (
  project_id uuid not null references projects on delete cascade,
  id uuid not null default gen_random_uuid(),
  name text not null,
  -- The version that is called.
  version integer not null,
  verify_jwt boolean not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, id),
  constraint functions_name unique (project_id, name)
);

create table function_versions (
  project_id uuid not null,
  function_id uuid not null,
  version integer not null,
  entrypoint text not null,
  code_archive uuid not null,
  -- Null without npm packages.
  packages_archive uuid,
  -- The packages as `name@version`.
  packages text[] not null,
  -- Whether the code may import modules of Node, which take time to load.
  uses_node boolean not null,
  created_at timestamptz not null default now(),
  primary key (project_id, function_id, version),
  foreign key (project_id, function_id) references functions on delete cascade,
  foreign key (project_id, code_archive) references function_archives,
  foreign key (project_id, packages_archive) references function_archives
);

-- Log lines of a project. Ids ascend in the order of commits, because writers lock the project.
create table project_logs (
  project_id uuid not null references projects on delete cascade,
  id bigint generated always as identity,
  -- The service, such as `functions`.
  source text not null,
  -- The part of the service, such as the name of a function.
  name text not null,
  at timestamptz not null,
  level text not null,
  event text not null,
  message text not null,
  request_id text,
  -- Further fields of the event.
  facts jsonb not null default '{}',
  primary key (project_id, id)
);
create index project_logs_name on project_logs (project_id, source, name, id);
create index project_logs_at on project_logs (at);

create function forget_project_logs() returns trigger language plpgsql as $$
begin
  delete from project_logs where project_id = new.id;
  return null;
end
$$;
create trigger forget_project_logs after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_project_logs();

-- Nodes find changed projects by projects.changed. A worker must start with the current functions and secrets.
create function note_function_change() returns trigger language plpgsql as $$
begin
  update projects set changed = pg_current_xact_id() where id = coalesce(new.project_id, old.project_id);
  return null;
end
$$;
create trigger note_function_change after insert or update or delete on functions
  for each row execute function note_function_change();
create trigger note_secret_change after insert or update or delete on secrets
  for each row execute function note_function_change();
