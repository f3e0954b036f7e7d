-- What people keep of the SQL they write for a project: queries with a name, and the last ones run.

create table saved_queries (
  project_id uuid not null references projects on delete cascade,
  -- A client may choose it, so it is only unique within its project.
  id uuid not null default gen_random_uuid(),
  name text not null,
  description text not null default '',
  sql text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, id),
  constraint saved_queries_name unique (project_id, name)
);

create table query_history (
  id bigint generated always as identity primary key,
  project_id uuid not null references projects on delete cascade,
  sql text not null,
  status text not null check (status in ('success', 'error')),
  duration_ms double precision,
  row_count bigint,
  error text,
  executed_at timestamptz not null default now()
);
create index query_history_project on query_history (project_id, id);

-- The row of a deleted project stays as a record; its queries do not.
create function forget_queries() returns trigger language plpgsql as $$
begin
  delete from saved_queries where project_id = new.id;
  delete from query_history where project_id = new.id;
  return null;
end
$$;
create trigger forget_queries after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_queries();
