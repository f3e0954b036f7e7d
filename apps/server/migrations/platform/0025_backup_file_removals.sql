-- Projects of which a node removes stored files that no backup contains. Until it has ended, or has not extended this for
-- long, no backup of the project begins to copy files.
create table backup_file_removals (
  project_id uuid primary key,
  -- Of this removal.
  id uuid not null,
  leased_until timestamptz not null
);
