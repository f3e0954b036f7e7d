// Attempts of a project's SQL to reach the server, other tenants or the platform.
interface Targets {
  ownRef: string
  otherRef: string
  superuser: string
  /** Process ids of sessions of others. */
  otherPids: number[]
}

const eachLine = (list: string, text: (name: string) => string) =>
  list
    .trim()
    .split(/\s*\n\s*/)
    .map(text)

/** Statements that every role of a project must be denied, by what they would reach. */
export const deniedStatements: Record<string, (targets: Targets) => string[]> = {
  'files of the server': () => [
    "copy (select 1) to '/tmp/plinth-escaped'",
    "copy notes from '/etc/passwd'",
    ...eachLine(
      `pg_read_file('/etc/passwd')
       pg_read_file('PG_VERSION')
       pg_read_binary_file('PG_VERSION')
       pg_ls_dir('.')
       pg_ls_tmpdir()
       pg_ls_logdir()
       pg_ls_waldir()
       pg_stat_file('PG_VERSION')
       pg_current_logfile()
       lo_import('/etc/passwd')
       lo_export(1, '/tmp/plinth-escaped')
       pg_hba_file_rules()
       pg_show_all_file_settings()`,
      call => `select ${call}`,
    ),
  ],
  'programs and libraries': () => [
    "copy (select 1) to program 'id'",
    "copy notes from program 'id'",
    "load 'plpgsql'",
    "load 'auto_explain'",
    "load '/tmp/evil.so'",
    "create function evil() returns int language c as 'evil', 'evil'",
    "create function evil(text) returns text language internal as 'pg_read_file_all'",
    "alter role current_user set session_preload_libraries = 'auto_explain'",
  ],
  'settings of the server': () => [
    "alter system set work_mem = '1GB'",
    "alter role all set work_mem = '1GB'",
    'alter role current_user set session_replication_role = replica',
    ...eachLine(
      `temp_file_limit = -1
       log_statement = 'all'
       log_min_duration_statement = 0
       session_replication_role = replica
       event_triggers = off
       zero_damaged_pages = on
       ignore_checksum_failure = on
       allow_system_table_mods = on
       dynamic_library_path = '/tmp'
       session_preload_libraries = 'auto_explain'
       lc_messages = 'C'
       track_activities = off
       deadlock_timeout = 1`,
      setting => `set ${setting}`,
    ),
  ],
  'other roles': ({ ownRef, otherRef, superuser }) => [
    ...eachLine(
      `${otherRef}_owner
       ${otherRef}_api
       ${otherRef}_svc
       ${otherRef}_auth
       supabase_auth_admin
       ${superuser}
       pg_read_all_data
       pg_monitor
       pg_database_owner`,
      role => `set role ${role}`,
    ),
    `set session authorization ${superuser}`,
    `set session authorization ${otherRef}_owner`,
    `grant service_role to ${ownRef}_owner`,
    `grant service_role to ${ownRef}_api`,
    `grant anon to ${ownRef}_owner`,
    `grant ${ownRef}_owner to ${ownRef}_api`,
    `grant ${ownRef}_owner to ${otherRef}_owner`,
    'grant pg_read_server_files to current_user',
    'grant pg_signal_backend to current_user',
    'create role evil',
    'drop role anon',
    `drop role ${otherRef}_owner`,
    `alter role ${otherRef}_owner password 'known'`,
    `alter role ${otherRef}_api set statement_timeout = 1`,
    `alter role ${superuser} password null`,
    ...eachLine(
      `superuser
       createdb
       createrole
       replication
       bypassrls
       connection limit -1
       valid until 'infinity'`,
      attribute => `alter role current_user ${attribute}`,
    ),
    "comment on role anon is 'mine'",
  ],
  databases: ({ ownRef, otherRef }) => [
    'create database evil',
    `drop database ${otherRef}`,
    `alter database ${otherRef} set work_mem = '1GB'`,
    `alter database ${ownRef} set role = '${ownRef}_owner'`,
    `alter database ${ownRef} set local_preload_libraries = 'nosuch'`,
    `alter database ${ownRef} connection limit -1`,
    `alter database ${ownRef} is_template true`,
    `alter database ${ownRef} rename to evil`,
    `alter database ${ownRef} owner to current_user`,
    `comment on database ${ownRef} is 'mine'`,
    `select pg_database_size('${otherRef}')`,
  ],
  'other sessions': ({ otherPids }) => [
    ...otherPids.flatMap(pid => [`select pg_terminate_backend(${pid})`, `select pg_cancel_backend(${pid})`]),
    `select pg_log_backend_memory_contexts(${otherPids[0]})`,
  ],
  'server administration': () => [
    'checkpoint',
    ...eachLine(
      `pg_reload_conf()
       pg_rotate_logfile()
       pg_switch_wal()
       pg_promote()
       pg_create_restore_point('evil')
       pg_backup_start('evil')
       pg_create_physical_replication_slot('evil')
       pg_create_logical_replication_slot('evil', 'pgoutput')
       pg_replication_origin_create('evil')
       pg_stat_reset()
       pg_stat_reset_shared('bgwriter')`,
      call => `select ${call}`,
    ),
    'create publication evil for all tables',
    'create publication evil for tables in schema public',
    "create subscription evil connection 'host=127.0.0.1' publication p with (connect = false)",
    'create event trigger evil on ddl_command_start execute function platform.on_ddl()',
    "create tablespace evil location '/tmp'",
    'create foreign data wrapper evil',
    'create access method evil type index handler bthandler',
    'create text search template evil (lexize = dsimple_lexize)',
    'create cast (text as int) with inout',
    'create operator class evil for type int using btree as operator 1 <',
  ],
  'system catalogs': () => [
    ...eachLine(
      `pg_authid
       pg_shadow
       pg_stat_activity
       pg_stat_database
       pg_stat_database_conflicts
       pg_stat_ssl
       pg_stat_gssapi
       pg_stat_replication
       pg_stat_wal_receiver
       pg_stat_subscription
       pg_replication_slots
       pg_prepared_xacts
       pg_db_role_setting
       pg_shdescription
       pg_shseclabel
       pg_hba_file_rules
       pg_ident_file_mappings
       pg_file_settings
       pg_config
       pg_shmem_allocations
       pg_backend_memory_contexts
       pg_stat_get_activity(null)
       pg_stat_get_backend_idset()
       pg_stat_get_backend_activity(1)`,
      relation => `select * from ${relation}`,
    ),
    'update pg_proc set proname = proname',
    'delete from pg_authid',
    'truncate pg_statistic',
    'alter table pg_class add evil int',
    'create table pg_catalog.evil (a int)',
    "create function pg_catalog.evil() returns int language sql as 'select 1'",
    'lock table pg_class in access exclusive mode',
    'lock table pg_database in access exclusive mode',
    'reindex table pg_class',
  ],
  'objects of the platform': ({ superuser }) => [
    'drop event trigger platform_ddl',
    'alter event trigger platform_ddl disable',
    'alter event trigger platform_drop rename to evil',
    'alter event trigger platform_ddl owner to current_user',
    'drop schema platform cascade',
    'drop schema auth cascade',
    'drop schema extensions cascade',
    'alter schema platform rename to evil',
    'alter schema auth owner to current_user',
    'drop function platform.on_ddl() cascade',
    'alter function platform.on_ddl() rename to evil',
    'alter function platform.first_time(oid) set search_path = public',
    "create or replace function platform.first_time(rel oid) returns boolean language sql as 'select true'",
    "create or replace function auth.uid() returns uuid language sql as 'select null::uuid'",
    "create function auth.evil() returns int language sql as 'select 1'",
    'create table platform.evil (a int)',
    'create table auth.evil (a int)',
    'insert into platform.seen values (1)',
    'delete from platform.seen',
    'truncate platform.seen',
    "update platform.migrations set hash = ''",
    'drop table platform.migrations',
    'create index on platform.seen (relid)',
    'create policy evil on platform.seen using (true)',
    'create rule evil as on insert to platform.migrations do nothing',
    'create trigger evil before insert on platform.migrations for each statement execute function platform.on_ddl()',
    'create table evil () inherits (platform.seen)',
    'create table evil (a oid references platform.seen)',
    `alter default privileges for role ${superuser} grant all on tables to anon`,
    `reassign owned by ${superuser} to current_user`,
    `drop owned by ${superuser}`,
    'drop extension plpgsql cascade',
    'alter extension plpgsql add table notes',
    "comment on schema platform is 'mine'",
  ],
}
