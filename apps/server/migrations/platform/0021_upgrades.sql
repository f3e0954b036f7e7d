-- Upgrades to a new release, with what is needed to go back.

create table upgrades (
  id uuid primary key,
  status text not null default 'running' check (status in ('running', 'done', 'failed')),
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  version text not null,
  -- Null before this table existed.
  prior_version text,
  prior_images jsonb not null,
  -- The backup of the control database, in the store of backups.
  control_backup_id uuid
);
create index upgrades_started on upgrades (started_at desc);

create table upgrade_projects (
  upgrade_id uuid not null references upgrades on delete cascade,
  -- Without a foreign key: the record outlives the project.
  project_id uuid not null,
  -- Of before the upgrade.
  backup_id uuid,
  status text not null default 'pending' check (status in ('pending', 'done', 'failed')),
  error text,
  primary key (upgrade_id, project_id)
);

-- The release that has run on this database last. The prior release of the next upgrade.
create table installed_release (
  is_only boolean primary key default true check (is_only),
  version text not null,
  images jsonb not null
);
