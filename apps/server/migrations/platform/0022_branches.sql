-- Branches: projects that are copies of another one, their parent.

create table branches (
  project_id uuid primary key references projects on delete cascade,
  parent_id uuid not null references projects,
  name text not null,
  slug text not null,
  schema_only boolean not null,
  -- That of the creation. A reset that fails leaves the branch active.
  status text not null default 'creating' check (status in ('creating', 'active', 'failed')),
  -- How the database was copied.
  method text check (method in ('clone', 'file_copy', 'wal_log', 'logical')),
  error text,
  created_at timestamptz not null default clock_timestamp(),
  -- When the branch got the state of its parent.
  copied_at timestamptz,
  expires_at timestamptz,
  unique (parent_id, slug)
);
create index branches_expiry on branches (expires_at) where expires_at is not null;

-- What is being done or waits for it. The row is deleted when it has ended and what it has stored is removed.
create table branch_tasks (
  -- Also the folder of its files in the object store.
  id uuid primary key,
  branch_id uuid not null,
  parent_id uuid not null,
  kind text not null check (kind in ('create', 'reset')),
  -- The branch has its new state, or is deleted. Only what the task has stored is to be removed.
  is_cancelled boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  -- Another node may begin it again after this time.
  leased_until timestamptz,
  attempts integer not null default 0,
  -- {"step", "bytes"}
  progress jsonb
);
create unique index branch_tasks_wanted on branch_tasks (branch_id) where not is_cancelled;
