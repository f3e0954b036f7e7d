-- Buckets and objects, by the names that existing applications know. Both tables belong to the project's owner, who puts
-- policies on them; the platform works on them under the project's own logins. Bytes lie elsewhere, under `version`.

create table storage.buckets (
  id text primary key check (length(id) between 1 and 100),
  name text not null unique,
  owner uuid,
  owner_id text,
  public boolean not null default false,
  type text not null default 'STANDARD',
  file_size_limit bigint check (file_size_limit >= 0),
  allowed_mime_types text[],
  avif_autodetection boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint user_buckets_are_private check (not (public and starts_with(id, 'user-')))
);

create table storage.objects (
  id uuid primary key default gen_random_uuid(),
  bucket_id text not null references storage.buckets,
  name text collate "C" not null check (length(name) between 1 and 1024),
  owner uuid,
  owner_id text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  last_accessed_at timestamptz default now(),
  metadata jsonb,
  path_tokens text[] generated always as (string_to_array(name, '/')) stored,
  version text,
  user_metadata jsonb,
  -- The version that the present one has taken the place of.
  replaced_version text
);
create unique index objects_name on storage.objects (bucket_id, name);
create index objects_version on storage.objects (version);

alter table storage.buckets enable row level security;
alter table storage.objects enable row level security;

-- What policies on storage.objects are written with. Without a SET clause, so that the planner can inline them; hence
-- every name is qualified.

create function storage.foldername(name text) returns text[]
language sql immutable parallel safe
as $$ select (pg_catalog.string_to_array(name, '/'))[1 : pg_catalog.array_length(pg_catalog.string_to_array(name, '/'), 1) operator(pg_catalog.-) 1] $$;

create function storage.filename(name text) returns text
language sql immutable parallel safe
as $$ select (pg_catalog.string_to_array(name, '/'))[pg_catalog.array_length(pg_catalog.string_to_array(name, '/'), 1)] $$;

create function storage.extension(name text) returns text
language sql immutable parallel safe
as $$ select pg_catalog.reverse(pg_catalog.split_part(pg_catalog.reverse(storage.filename(name)), '.', 1)) $$;

-- What the request does, such as storage.object.get_public or storage.object.list.
create function storage.operation() returns text
language sql stable parallel safe
as $$ select nullif(pg_catalog.current_setting('storage.operation', true), '') $$;

-- Whether the request names one object, and does not look around.
create function storage.is_addressed() returns boolean
language sql stable parallel safe
as $$ select coalesce(pg_catalog.starts_with(storage.operation(), 'storage.object.get'), false) $$;

-- Whether the caller is the user in whose folder of a `user-` bucket the object lies.
create function storage.is_own_folder(name text) returns boolean
language sql stable parallel safe
as $$ select pg_catalog.split_part(name, '/', 1) operator(pg_catalog.=)
  (nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb operator(pg_catalog.->>) 'sub')
  and pg_catalog.strpos(name, '/') operator(pg_catalog.>) 1 $$;

-- The rules every project begins with, in place of all others. Run by whoever owns the tables, in that role.
create function storage.restore_policies() returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  r record;
begin
  for r in
    select polname, polrelid::regclass as rel from pg_policy
     where polrelid in ('storage.buckets'::regclass, 'storage.objects'::regclass)
  loop
    execute format('drop policy %I on %s', r.polname, r.rel);
  end loop;
  create policy "public buckets are read by the names of their objects" on storage.buckets for select
    using (public and storage.is_addressed());
  create policy "objects of public buckets are read by their names" on storage.objects for select
    using (storage.is_addressed() and exists (select from storage.buckets b where b.id = bucket_id and b.public));
  create policy "user- buckets are for the owner of each folder" on storage.objects as restrictive for all
    using (not starts_with(bucket_id, 'user-') or storage.is_own_folder(name))
    with check (not starts_with(bucket_id, 'user-') or storage.is_own_folder(name));
  create policy "users have their folders in user- buckets" on storage.objects for all to authenticated
    using (starts_with(bucket_id, 'user-') and storage.is_own_folder(name))
    with check (starts_with(bucket_id, 'user-') and storage.is_own_folder(name));
end
$$;
select storage.restore_policies();

grant usage on schema storage to anon, authenticated, service_role;
grant select, insert, update, delete on storage.buckets, storage.objects to anon, authenticated, service_role;
grant execute on all functions in schema storage to public;
