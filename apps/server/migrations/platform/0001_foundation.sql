-- The control database: who may manage the platform, which projects there are, and what was done.

create table users (
  id uuid primary key default gen_random_uuid(),
  email text not null,
  name text not null default '',
  role text not null check (role in ('super_admin', 'project_admin', 'developer', 'viewer')),
  password_hash text not null,
  is_active boolean not null default true,
  -- Part of every session: raising it ends them all.
  session_version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  last_login_at timestamptz
);
create unique index users_email on users (lower(email));

create table tokens (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  scope text not null check (scope in ('admin', 'deploy', 'read')),
  -- HMAC of the token under a key derived from CONTROL_PLANE_SECRET; the token itself is stored nowhere.
  hash bytea not null unique,
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);

create table projects (
  id uuid primary key,
  -- Opaque name of the database; its roles are called ref_owner, ref_api and ref_svc.
  ref text not null unique,
  name text not null,
  slug text not null,
  description text not null default '',
  -- 'creating' and 'deleting' are finished or undone at the next start if the platform dies in between.
  status text not null check (status in ('creating', 'active', 'suspended', 'deleting', 'deleted')),
  settings jsonb not null default '{}',
  quotas jsonb not null default '{}',
  anon_key text not null,
  service_role_key text not null,
  jwt_secret text not null,
  -- State of the platform's own objects in the project database.
  schema_version text not null default '',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index projects_slug on projects (slug) where status <> 'deleted';
create index projects_created_at on projects (created_at desc, id);

create table members (
  project_id uuid not null references projects on delete cascade,
  user_id uuid not null references users on delete cascade,
  role text not null check (role in ('owner', 'admin', 'editor', 'read_only')),
  created_at timestamptz not null default now(),
  primary key (project_id, user_id)
);
create index members_user on members (user_id);

create table audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  actor_kind text not null,
  actor_id text,
  actor_label text not null,
  action text not null,
  target text,
  project_id uuid,
  ip text,
  request_id text
);
create index audit_at on audit (at);
create index audit_action on audit (action, id);
create index audit_project on audit (project_id, id) where project_id is not null;

-- Failed logins per address and e-mail; a hash stands for the pair, so a misspelt password is not kept here.
create table login_failures (
  pair bytea primary key,
  failures integer not null,
  since timestamptz not null default now(),
  locked_until timestamptz
);

-- Proof that CONTROL_PLANE_SECRET is the one this database was made with.
create table secret_proof (only_row boolean primary key default true check (only_row), proof bytea not null);

-- Other nodes drop what they remember of a project when its row changes.
create function announce_project() returns trigger language plpgsql as $$
begin
  perform pg_notify('project_changed', coalesce(new.id, old.id)::text);
  return null;
end
$$;
create trigger announce_project after insert or update or delete on projects
  for each row execute function announce_project();
