-- ES256 keys that sign the access tokens of a project. A project with HS256 has none.
create table signing_keys (
  kid uuid primary key,
  project_id uuid not null references projects on delete cascade,
  -- The coordinates of the point, as in a JWK.
  x text not null,
  y text not null,
  -- Sealed. Null for a key that was replaced: it only verifies.
  private_key text,
  -- The longest lifetime of a token that the key has signed.
  token_seconds integer not null,
  created_at timestamptz not null default now(),
  -- Null for the key that signs. Otherwise all tokens of the key have expired at this time.
  valid_until timestamptz
);
create index signing_keys_project on signing_keys (project_id);
create unique index signing_keys_active on signing_keys (project_id) where valid_until is null;

create function forget_signing_keys() returns trigger language plpgsql as $$
begin
  delete from signing_keys where project_id = new.id;
  return null;
end
$$;
create trigger forget_signing_keys after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_signing_keys();
