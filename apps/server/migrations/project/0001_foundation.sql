-- What every project database starts with. Run by the platform's superuser, who owns all of it; the tenant
-- owns schema public and what it creates itself.

revoke all on schema public from public;
grant usage on schema public to anon, authenticated, service_role;

create schema auth;
create schema extensions;
grant usage on schema auth, platform, extensions to public;
comment on schema platform is 'owned by the platform';

-- Tables that have had their one-time treatment, so that a later DISABLE ROW LEVEL SECURITY sticks.
create table platform.seen (relid oid primary key);
-- A tenant's pg_dump locks every table it can see.
grant select on platform.seen, platform.migrations to public;

-- Folders of existing applications alter this publication; its owner becomes the project's owner role.
create publication supabase_realtime;

-- These views are shared by the whole cluster. The names in pg_database and pg_roles are opaque, but these
-- tell more: application names, addresses, settings and activity of other tenants.
revoke select on pg_catalog.pg_stat_activity, pg_catalog.pg_stat_database, pg_catalog.pg_stat_database_conflicts,
  pg_catalog.pg_stat_ssl, pg_catalog.pg_stat_gssapi, pg_catalog.pg_stat_replication, pg_catalog.pg_stat_wal_receiver,
  pg_catalog.pg_stat_subscription, pg_catalog.pg_replication_slots, pg_catalog.pg_prepared_xacts,
  pg_catalog.pg_db_role_setting, pg_catalog.pg_shdescription, pg_catalog.pg_shseclabel from public;
revoke execute on function pg_catalog.pg_stat_get_activity(integer),
  pg_catalog.pg_stat_get_backend_idset(),
  pg_catalog.pg_stat_get_backend_activity(integer),
  pg_catalog.pg_stat_get_backend_client_addr(integer),
  pg_catalog.pg_stat_get_backend_dbid(integer),
  pg_catalog.pg_stat_get_backend_userid(integer) from public;
