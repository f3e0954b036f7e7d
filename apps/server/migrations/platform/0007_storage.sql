-- Files of projects. Their names and who may read them are in the projects' own databases, which their owners can change
-- as they like; what counts against a quota, and where bytes lie, is here.

create table storage_areas (
  project_id uuid primary key references projects on delete cascade,
  -- Sealed. Without it no file of the project can be read by anybody.
  data_key text not null,
  -- Of all files in stored_files.
  bytes bigint not null default 0 check (bytes >= 0),
  -- When to look for what uploads have left behind.
  sweep_at timestamptz not null,
  compared_at timestamptz not null default now()
);
create index storage_areas_sweep on storage_areas (sweep_at);

-- Every version of a file whose bytes are kept, or were about to be.
create table stored_files (
  version uuid primary key,
  project_id uuid not null references storage_areas on delete cascade,
  size bigint not null check (size >= 0),
  -- Until then an upload may be under way; after it the file stays only if an object names it.
  until timestamptz
);
create index stored_files_project on stored_files (project_id, version);
create index stored_files_until on stored_files (project_id, until) where until is not null;

-- Resumable uploads. Whole frames of what has arrived are in the file; the bytes after them are in the tail, sealed.
create table storage_uploads (
  id uuid primary key,
  project_id uuid not null references storage_areas on delete cascade,
  version uuid not null,
  bucket text not null,
  name text not null,
  -- Unknown as long as the client has not said it.
  length bigint,
  frames bigint not null default 0,
  tail bytea not null default '',
  tail_bytes integer not null default 0,
  is_finished boolean not null default false,
  content_type text not null,
  cache_control text not null,
  user_metadata jsonb,
  -- As the client sent it, for HEAD.
  upload_metadata text not null,
  is_upsert boolean not null,
  expires_at timestamptz not null,
  -- Whoever appends holds it for as long as it goes on; the time ends the hold of a process that died.
  holder uuid,
  held_until timestamptz not null default '-infinity'
);
create index storage_uploads_expiry on storage_uploads (project_id, expires_at);
