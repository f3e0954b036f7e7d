-- Scheduled jobs of the projects and what became of their runs. Any node may run a job; a tick is taken by moving
-- next_run_at on, so each is taken once.

create table jobs (
  id bigint generated always as identity primary key,
  project_id uuid not null references projects on delete cascade,
  name text not null,
  schedule text not null,
  command text not null,
  next_run_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name)
);
create index jobs_due on jobs (next_run_at);

create table job_runs (
  id bigint generated always as identity primary key,
  job_id bigint not null references jobs on delete cascade,
  status text not null check (status in ('running', 'succeeded', 'failed', 'skipped')),
  return_message text,
  -- Null: what the job runs now. Otherwise what it ran before, in short.
  command text,
  start_time timestamptz not null default clock_timestamp(),
  end_time timestamptz,
  -- The node that runs it says again and again that it is alive; past that, it is not.
  leased_until timestamptz,
  -- Where it runs, for whoever has to end it in the name of a node that died.
  backend_pid integer,
  backend_start timestamptz
);
create index job_runs_newest on job_runs (job_id, id desc);
-- A job runs once at a time.
create unique index job_runs_running on job_runs (job_id) where status = 'running';
create index job_runs_leases on job_runs (leased_until) where status = 'running';

-- The row of a deleted project stays as a record; its jobs do not.
create function forget_jobs() returns trigger language plpgsql as $$
begin
  delete from jobs where project_id = new.id;
  return null;
end
$$;
create trigger forget_jobs after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_jobs();
