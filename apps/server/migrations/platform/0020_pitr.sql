-- Recovery to a time. A job recovers one project into a database of its own, which waits for the operator.

create table pitr_jobs (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  target_time timestamptz not null,
  status text not null default 'pending'
    check (status in ('pending', 'preparing', 'prepared', 'cutting_over', 'done', 'failed', 'expired')),
  created_at timestamptz not null default clock_timestamp(),
  prepared_at timestamptz,
  finished_at timestamptz,
  -- A prepared copy is dropped then.
  expires_at timestamptz,
  error text,
  warnings jsonb not null default '[]',
  -- How the archive of the recovered project is read.
  manifest jsonb,
  -- The restore that the cutover records, by which it can be undone, and the backup that is made before.
  restore_id uuid,
  before_backup_id uuid,
  -- The platform may begin it again after this time.
  leased_until timestamptz,
  attempts integer not null default 0,
  -- {"step", "bytes"}
  progress jsonb
);
create index pitr_jobs_project on pitr_jobs (project_id, created_at desc, id);
-- A project has one recovered copy at a time.
create unique index pitr_jobs_open on pitr_jobs (project_id)
  where status in ('pending', 'preparing', 'prepared', 'cutting_over');

-- Times before something replaced the state of a project, or of all if it names none.
create table restore_points (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  kind text not null check (kind in ('upgrade', 'restore', 'reset')),
  project_id uuid references projects on delete cascade
);
create index restore_points_at on restore_points (at);

-- Bytes of removed files that a recovery may still need.
create table kept_files (
  project_id uuid not null references projects on delete cascade,
  version uuid not null,
  size bigint not null,
  removed_at timestamptz not null default now(),
  primary key (project_id, version)
);
create index kept_files_removed on kept_files (removed_at);
