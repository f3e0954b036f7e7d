-- Backups of projects. A backup exists once its status is done: all that it consists of is stored then.

create table backups (
  id uuid primary key,
  -- Without a foreign key: the backups of a deleted project are kept for some time.
  project_id uuid not null,
  kind text not null check (kind in ('manual', 'scheduled', 'upgrade', 'before_restore')),
  status text not null default 'running' check (status in ('running', 'done', 'failed')),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  bytes bigint not null default 0,
  stored_bytes bigint not null default 0,
  files bigint not null default 0,
  schema_version text not null default '',
  -- The size and hash of the file that lists all others.
  manifest jsonb,
  verified_at timestamptz,
  verify_error text,
  error text
);
create index backups_project on backups (project_id, created_at desc, id);
create index backups_unverified on backups (project_id) where status = 'done' and verified_at is null and verify_error is null;

create table backup_settings (
  project_id uuid primary key references projects on delete cascade,
  enabled boolean not null default false,
  interval_minutes integer not null default 1440,
  retain_days integer,
  retain_count integer,
  verify_enabled boolean not null default true,
  verify_interval_minutes integer not null default 10080,
  next_run_at timestamptz not null default now()
);
create index backup_settings_due on backup_settings (next_run_at) where enabled;

-- A restore puts the state of a backup in the place of the project. The state before it is kept for some time as a database
-- of its own, and as a backup.
create table restores (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  backup_id uuid not null,
  before_backup_id uuid not null,
  status text not null default 'running' check (status in ('running', 'done', 'failed', 'undone')),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  -- Until then it can be undone. Null once the database of the state before is dropped.
  undo_until timestamptz,
  error text
);
create index restores_project on restores (project_id, created_at desc, id);
create index restores_undo on restores (undo_until) where undo_until is not null;

-- What is being done or waits for it. A project has one at a time. The row is deleted when it has ended.
create table backup_tasks (
  id uuid primary key,
  project_id uuid not null unique,
  kind text not null check (kind in ('backup', 'verification', 'restore', 'undo')),
  backup_id uuid not null references backups on delete cascade,
  restore_id uuid references restores on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  -- Another node may begin it again after this time.
  leased_until timestamptz,
  attempts integer not null default 0,
  -- {"step", "bytes"}
  progress jsonb
);

-- Files of projects that the store of backups has. A version is in all backups of a project from the first to the last,
-- because it never changes and does not come back after its deletion.
create table backup_files (
  project_id uuid not null,
  version uuid not null,
  size bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  primary key (project_id, version)
);
