-- Users of a project's applications. Column names are the ones existing applications know: they put foreign keys and
-- triggers on auth.users and seed it. For that reason no table here is the superuser's: a check of a tenant's foreign
-- key runs as the owner of the table it points to. The platform itself comes in by the project's login `…_auth`.

create table auth.users (
  id uuid primary key default gen_random_uuid(),
  -- Filled by seeds of existing applications, read by nobody here.
  instance_id uuid,
  aud text not null default 'authenticated' check (length(aud) <= 255),
  role text not null default 'authenticated' check (length(role) <= 63),
  email text check (email = lower(email) and length(email) <= 255),
  encrypted_password text,
  email_confirmed_at timestamptz,
  -- Confirmed without anybody having shown that they read it, as sign-ups are that are confirmed by themselves.
  is_email_unproven boolean not null default false,
  invited_at timestamptz,
  confirmation_sent_at timestamptz,
  recovery_sent_at timestamptz,
  email_change text,
  email_change_sent_at timestamptz,
  -- Which of the two addresses have agreed to the change so far: 1 the new one, 2 the present one.
  email_change_confirm_status smallint not null default 0,
  phone text unique,
  phone_confirmed_at timestamptz,
  phone_change text,
  phone_change_sent_at timestamptz,
  reauthentication_sent_at timestamptz,
  confirmed_at timestamptz generated always as (least(email_confirmed_at, phone_confirmed_at)) stored,
  last_sign_in_at timestamptz,
  raw_app_meta_data jsonb not null default '{}',
  raw_user_meta_data jsonb not null default '{}',
  is_super_admin boolean,
  is_sso_user boolean not null default false,
  is_anonymous boolean not null default false,
  banned_until timestamptz,
  ban_reason text,
  deleted_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- As with instance_id: seeds write empty texts here.
  confirmation_token text,
  recovery_token text,
  email_change_token_new text,
  email_change_token_current text,
  reauthentication_token text,
  phone_change_token text,
  -- Access tokens repeat both, and travel in a header.
  constraint metadata_size
    check (octet_length(raw_user_meta_data::text) + octet_length(raw_app_meta_data::text) <= 8192)
);
create unique index users_email on auth.users (email);
create index users_created_at on auth.users (created_at, id);

create table auth.identities (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  provider text not null,
  -- The provider's name for the user; for e-mail and phone it is the user's id.
  provider_id text not null,
  identity_data jsonb not null constraint metadata_size check (octet_length(identity_data::text) <= 16384),
  email text generated always as (lower(identity_data ->> 'email')) stored,
  last_sign_in_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (provider, provider_id)
);
create index identities_user on auth.identities (user_id);

create table auth.mfa_factors (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  friendly_name text,
  factor_type text not null check (factor_type in ('totp', 'phone', 'webauthn')),
  status text not null default 'unverified' check (status in ('unverified', 'verified')),
  -- Sealed.
  secret text,
  phone text,
  last_challenged_at timestamptz,
  -- The step whose code was accepted last: no code counts twice.
  last_used_step bigint,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index mfa_factors_name on auth.mfa_factors (user_id, friendly_name) where trim(friendly_name) <> '';
create index mfa_factors_user on auth.mfa_factors (user_id);

create table auth.mfa_challenges (
  id uuid primary key default gen_random_uuid(),
  factor_id uuid not null references auth.mfa_factors on delete cascade,
  created_at timestamptz not null default now(),
  verified_at timestamptz,
  -- Wrong codes so far.
  attempts integer not null default 0,
  ip_address text not null
);
create index mfa_challenges_factor on auth.mfa_challenges (factor_id);

-- A refresh token names its session and a number, under a keyed hash: only the newest number is stored.
create table auth.sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  aal text not null default 'aal1' check (aal in ('aal1', 'aal2', 'aal3')),
  factor_id uuid references auth.mfa_factors on delete set null,
  -- How the user has shown who they are, newest first: [{"method": …, "timestamp": …}].
  amr jsonb not null default '[]',
  refresh_token_counter bigint not null default 1,
  -- When the numbers before it were replaced, newest first.
  rotated_at timestamptz[] not null default '{}',
  refreshed_at timestamptz,
  -- Until when an access token of this session may be in somebody's hands.
  tokens_until timestamptz not null default now(),
  not_after timestamptz,
  user_agent text,
  ip text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index sessions_user on auth.sessions (user_id, created_at);
create index sessions_factor on auth.sessions (factor_id) where factor_id is not null;

-- What was sent out by mail, under a keyed hash. A new one takes the place of the older in its slot.
create table auth.one_time_tokens (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  token_type text not null check (token_type in
    ('confirmation', 'recovery', 'email_change_current', 'email_change_new', 'reauthentication')),
  token_hash text not null,
  -- The address it was sent to.
  relates_to text not null,
  flow_id uuid,
  -- Asked for by whoever reads the mail, as opposed to whoever signed up: what an unconfirmed sign-up brought along,
  -- its password above all, does not survive it.
  starts_over boolean not null default false,
  -- Wrong codes for this one, and for all of the slot within an hour.
  attempts integer not null default 0,
  tried_in_hour integer not null default 0,
  hour_since timestamptz not null default now(),
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  unique (user_id, token_type)
);
create index one_time_tokens_hash on auth.one_time_tokens (token_hash);
create index one_time_tokens_address on auth.one_time_tokens (relates_to);

-- A sign-in that goes by way of a browser: to a provider and back, or through a link in a mail.
create table auth.flow_state (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users on delete cascade,
  -- The user who adds an identity, as opposed to one who signs in.
  linking_user_id uuid references auth.users on delete cascade,
  linking_session_id uuid references auth.sessions on delete cascade,
  provider text not null,
  authentication_method text not null,
  code_challenge text,
  code_challenge_method text check (code_challenge_method in ('s256', 'plain')),
  -- Under a keyed hash, once there is one.
  auth_code_hash text unique,
  redirect_to text not null,
  -- Sealed: verifier and nonce sent to the provider, and the tokens it gave.
  secrets text,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
create index flow_state_user on auth.flow_state (user_id);
create index flow_state_expiry on auth.flow_state (expires_at);

-- Written in the transaction of the act they tell of; webhooks read them here.
create table auth.events (
  id text primary key default 'evt_' || replace(gen_random_uuid()::text, '-', ''),
  type text not null check (type in
    ('user.created', 'user.updated', 'user.deleted', 'user.signed_in', 'user.signed_out')),
  user_id uuid not null,
  email text,
  created_at timestamptz not null default clock_timestamp()
);
create index events_time on auth.events (created_at);

-- Sessions that have ended while access tokens of theirs are still valid, and users who are banned or gone. Every node
-- reads what is new here before it admits a user; a row's transaction number says what a node has not seen.
create table auth.revocations (
  subject uuid primary key,
  until timestamptz not null,
  xid xid8 not null default pg_current_xact_id()
);
create index revocations_xid on auth.revocations (xid);

do $$
declare
  t record;
begin
  for t in select relname from pg_class where relnamespace = 'auth'::regnamespace and relkind = 'r' loop
    execute format('alter table auth.%I owner to supabase_auth_admin', t.relname);
  end loop;
end
$$;
