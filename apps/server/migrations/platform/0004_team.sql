-- Invites to a project. Those who accepted are members; accepted, revoked and replaced invites are gone.

create table invites (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references projects on delete cascade,
  email text not null check (email = lower(email)),
  role text not null check (role in ('owner', 'admin', 'editor', 'read_only')),
  -- HMAC of the token under a key derived from CONTROL_PLANE_SECRET; the token itself is stored nowhere.
  hash bytea not null unique,
  invited_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- One per address: a new invite replaces the older.
  constraint invites_email unique (project_id, email)
);

-- The row of a deleted project stays as a record; nobody may join it any more.
create function forget_invites() returns trigger language plpgsql as $$
begin
  delete from invites where project_id = new.id;
  return null;
end
$$;
create trigger forget_invites after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_invites();
