-- Tables are closed when they are created in any schema of the project, no longer in public alone. What already lies in
-- other schemas may be in use with grants, so it counts as seen and stays as it is.

-- A relation that comes into public for the first time is closed again, whatever was opened elsewhere.
alter table platform.seen add column is_public boolean not null default true;

insert into platform.seen (relid, is_public)
select c.oid, false
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'f', 'm')
   and n.nspname not in ('public', 'platform', 'auth', 'extensions', 'storage', 'realtime', 'pgmq', 'supabase_migrations')
   and n.nspname !~ '^(pg_|information_schema)'
on conflict do nothing;
