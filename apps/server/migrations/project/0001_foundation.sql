-- What every project database starts with. Run by the platform's superuser, who owns all of it; the tenant
-- owns schema public and what it creates itself.

revoke all on schema public from public;
grant usage on schema public to anon, authenticated, service_role;

create schema auth;
create schema extensions;
-- Names that services to come need: a tenant who took one first would own what lies in it.
create schema storage;
create schema realtime;
create schema pgmq;
grant usage on schema auth, platform, extensions to public;
comment on schema platform is 'owned by the platform';

-- Tables that have had their one-time treatment, so that a later DISABLE ROW LEVEL SECURITY sticks.
create table platform.seen (relid oid primary key);
-- A tenant's pg_dump locks every table it can see.
grant select on platform.seen, platform.migrations to public;

-- Folders of existing applications alter this publication; its owner becomes the project's owner role.
create publication supabase_realtime;

-- These are shared by the whole cluster. The names in pg_database and pg_roles are opaque, but these tell more:
-- application names, addresses, settings, locks and activity of other tenants.
revoke select on pg_catalog.pg_stat_activity, pg_catalog.pg_stat_database, pg_catalog.pg_stat_database_conflicts,
  pg_catalog.pg_stat_ssl, pg_catalog.pg_stat_gssapi, pg_catalog.pg_stat_replication, pg_catalog.pg_stat_wal_receiver,
  pg_catalog.pg_stat_subscription, pg_catalog.pg_replication_slots, pg_catalog.pg_prepared_xacts, pg_catalog.pg_locks,
  pg_catalog.pg_db_role_setting, pg_catalog.pg_shdescription, pg_catalog.pg_shseclabel from public;

do $$
declare
  r record;
begin
  -- Roles without the settings stored for them.
  for r in
    select c.relname, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
      from pg_catalog.pg_class c
      join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and a.attname not in ('rolconfig', 'useconfig')
     where c.oid in ('pg_catalog.pg_roles'::regclass, 'pg_catalog.pg_user'::regclass)
     group by c.relname
  loop
    execute format('revoke select on pg_catalog.%I from public', r.relname);
    execute format('grant select (%s) on pg_catalog.%I to public', r.columns, r.relname);
  end loop;
  -- The functions behind those views.
  for r in
    select p.oid::regprocedure as call from pg_catalog.pg_proc p
     where p.pronamespace = 'pg_catalog'::regnamespace
       and (p.proname like 'pg\_stat\_get\_db\_%' or p.proname like 'pg\_stat\_get\_backend\_%'
            or p.proname in ('pg_stat_get_activity', 'pg_lock_status'))
  loop
    execute format('revoke execute on function %s from public', r.call);
  end loop;
end
$$;
