// Attacks through migrations (faults and attacks 2, 3, 12, 13 and 48).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
let project: Project
let other: Project
before(async () => {
  platform = await startPlatform()
  ;[project, other] = await Promise.all([Project.create(platform), Project.create(platform)])
})
after(() => platform.stop())

test('case 2: a migration cannot access the machine, a superuser or another tenant', async () => {
  const { user } = platform.address
  const attacks = [
    `copy t from program 'id'`,
    `copy t to program 'cat > /tmp/x'`,
    `copy t from '/etc/passwd'`,
    `copy t to '/tmp/x'`,
    `select pg_read_file('/etc/passwd')`,
    `select pg_read_binary_file('/etc/passwd')`,
    `select pg_ls_dir('.')`,
    `select pg_stat_file('postgresql.conf')`,
    `select lo_import('/etc/passwd')`,
    `select lo_export(1, '/tmp/x')`,
    `alter system set work_mem = '1GB'`,
    `load 'auto_explain'`,
    `create extension dblink`,
    `create extension postgres_fdw`,
    `create extension file_fdw`,
    `create extension plpython3u`,
    `create extension pg_stat_statements`,
    `create extension plperl`,
    `create language plpython3u`,
    `create function f() returns int language c as '$libdir/plpgsql', 'x'`,
    `create function f() returns int language internal as 'pg_sleep'`,
    `set role ${user}`,
    `set role ${other.ref}_owner`,
    `set role ${other.ref}_svc`,
    `set role service_role`,
    `set session authorization ${user}`,
    `set session authorization ${other.ref}_owner`,
    `grant ${other.ref}_owner to ${project.ref}_owner`,
    `alter role ${project.ref}_owner superuser`,
    `alter role ${project.ref}_owner bypassrls`,
    `create role mine`,
    `create database mine`,
    `alter database ${project.ref} set role = '${user}'`,
    `alter database ${other.ref} connection limit 0`,
    `drop database ${other.ref}`,
    `create event trigger e on ddl_command_end execute function platform.on_ddl()`,
    `drop event trigger platform_ddl`,
    `alter event trigger platform_ddl disable`,
    `create or replace function platform.on_ddl() returns event_trigger language plpgsql as 'begin end'`,
    `drop schema platform cascade`,
    `drop schema auth cascade`,
    `create table auth.mine ()`,
    `create table platform.mine ()`,
    `update pg_catalog.pg_authid set rolsuper = true`,
    `set session_replication_role = replica`,
    `create subscription s connection 'host=127.0.0.1' publication p`,
    `create server s foreign data wrapper postgres_fdw`,
    `select pg_terminate_backend(pid) from pg_stat_activity`,
    `select pg_reload_conf()`,
    `select pg_create_logical_replication_slot('s', 'test_decoding')`,
    `select * from pg_catalog.pg_authid`,
    `create tablespace t location '/tmp'`,
    `security label on table t is 'x'`,
  ]
  for (const [place, attack] of attacks.entries()) {
    const { status, body } = await project.push({
      version: String(1000 + place),
      sql: `create table t (a text);\n${attack};`,
    })
    assert.ok(status >= 400 && status < 500, `${attack} answered ${status} ${JSON.stringify(body)}`)
    assert.equal(body.error.code, 'migration_failed', attack)
    assert.match(body.error.message, /failed at line 2: \S/, attack)
  }
  assert.deepEqual(await project.tables(), [])
  assert.deepEqual(await project.applied(), [])
  const [role] = await project.look<object>(
    sql`select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb from pg_roles where rolname = ${`${project.ref}_owner`}`,
  )
  assert.deepEqual(role, { rolsuper: false, rolbypassrls: false, rolcreaterole: false, rolcreatedb: false })
  assert.equal((await other.push({ version: '1', sql: 'create table fine ()' })).status, 200)
})

test('case 2: COPY data and psql commands are rejected before anything runs', async () => {
  for (const script of ['copy t from stdin;\n1\n\\.', '\\! id', '\\copy t from x', '\\connect postgres']) {
    const { status, body } = await project.push({ version: '1', sql: `create table t (a int);\n${script}` })
    assert.deepEqual([status, body.error.code], [400, 'invalid_request'], script)
    assert.match(body.error.message, /line 2/)
  }
  assert.deepEqual(await project.tables(), [])
})

test('case 3: a migration sees other tenants only as opaque names', async () => {
  const mine = await Project.create(platform)
  const { id } = await platform.projects.create({
    body: { name: 'Secret Neighbour', slug: 'secret-neighbour' },
  })
  const pushed = await mine.push({
    version: '1',
    sql: `create table seen as
      select string_agg(d::text, ' ') as text from (select datname from pg_database union all select rolname from pg_roles
        union all select name || coalesce(setting, '') from pg_settings) d`,
  })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const [seen] = await mine.look<{ text: string }>(sql`select text from public.seen`)
  assert.doesNotMatch(seen!.text, /secret-neighbour|Secret Neighbour/)
  assert.ok(!seen!.text.includes(id))
  for (const view of ['pg_stat_activity', 'pg_locks', 'pg_db_role_setting', 'pg_stat_database'])
    assert.equal((await mine.push({ version: '2', sql: `select * from ${view}` })).status, 400, view)
})

test('case 12: row-level security is on for every table that a migration creates in public', async () => {
  const mine = await Project.create(platform)
  const pushed = await mine.push({
    version: '1',
    sql: `create table plain (a int);
      create table copied as select 1 as a;
      select 1 as a into selected;
      create table liked (like plain including all);
      create table parted (a int) partition by range (a);
      create table part partition of parted for values from (0) to (10);
      create table child () inherits (plain);
      create schema elsewhere create table elsewhere.moved (a int);
      alter table elsewhere.moved set schema public;
      do $$ begin execute 'create table dynamic (a int)'; end $$;
      create function make() returns void language sql security definer as 'create table from_function (a int)';
      select make();`,
  })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const open = await mine.look<{ relname: string }>(
    sql`select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relrowsecurity`,
  )
  assert.deepEqual(open, [])
  assert.equal((await mine.tables()).length, 10)

  // As in a dump: qualified names, an empty search_path and psql commands around it.
  const restored = await mine.push({
    version: '2',
    sql: `\\restrict abcdef
SET statement_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET row_security = off;
SET default_table_access_method = heap;
CREATE TABLE public.restored (id integer NOT NULL, body text);
CREATE SEQUENCE public.restored_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
ALTER SEQUENCE public.restored_id_seq OWNED BY public.restored.id;
ALTER TABLE ONLY public.restored ALTER COLUMN id SET DEFAULT nextval('public.restored_id_seq'::regclass);
INSERT INTO public.restored VALUES (1, 'a;b');
ALTER TABLE ONLY public.restored ADD CONSTRAINT restored_pkey PRIMARY KEY (id);
\\unrestrict abcdef
`,
  })
  assert.equal(restored.status, 200, JSON.stringify(restored.body))
  const [table] = await mine.look<{ rls: boolean; policies: number }>(sql`
    select relrowsecurity as rls, (select count(*)::int from pg_policy where polrelid = oid) as policies
      from pg_class where oid = 'public.restored'::regclass`)
  assert.deepEqual(table, { rls: true, policies: 0 })
})

test('case 12: disabled row-level security stays disabled after later pushes', async () => {
  const mine = await Project.create(platform)
  await mine.push({ version: '1', sql: 'create table t (a int); alter table t disable row level security' })
  await mine.push({ version: '2', sql: 'alter table t add column b int; create table u (a int)' })
  const rows = await mine.look<object>(
    sql`select relname, relrowsecurity from pg_class where relname in ('t', 'u') and relkind = 'r' order by 1`,
  )
  assert.deepEqual(rows, [
    { relname: 't', relrowsecurity: false },
    { relname: 'u', relrowsecurity: true },
  ])
})

test('case 13: views use the rights of the reader, and materialized views are not granted', async () => {
  const mine = await Project.create(platform)
  await mine.push({
    version: '1',
    sql: `create table t (a int);
      create view v as select * from t;
      create or replace view v as select * from t where true;
      create materialized view m as select * from t;`,
  })
  const [view] = await mine.look<object>(sql`
    select (select reloptions::text from pg_class where relname = 'v') as options,
           has_table_privilege('anon', 'public.v', 'select') as view,
           has_table_privilege('anon', 'public.m', 'select') as materialised`)
  assert.deepEqual(view, { options: '{security_invoker=true}', view: true, materialised: false })
})

test('case 48: a migration with too many statements is rejected before anything runs', async () => {
  const mine = await Project.create(platform)
  const sql = `create table t (a int);${'select 1;'.repeat(100_000)}`
  for (const path of ['/db/push', '/db/plan']) {
    const { status, body } = await mine.manage('POST', path, { migrations: [{ version: '1', sql }] })
    assert.deepEqual([status, body.error.code], [400, 'invalid_request'])
    assert.match(body.error.message, /100000 statements/)
  }
  assert.deepEqual(await mine.tables(), [])
})

test('case 48: a failure after many statements reports its line and how many statements stay applied', async () => {
  const mine = await Project.create(platform)
  const sql = `-- no-transaction\n${'select 1;\n'.repeat(60)}select 1 / 0;`
  const { status, body } = await mine.push({ version: '1', sql })
  assert.equal(status, 400)
  assert.match(body.error.message, /failed at line 62: division by zero/)
  assert.match(body.error.message, /first 60 statements, up to line 61, stay done/)
})

test('case 48: a recorded migration has its statements with quotes and backslashes', async () => {
  const mine = await Project.create(platform)
  const statements = [`select '{"a\\b"}', E'\\\\"', 'NULL'`, '-- é 🙂\nselect 2']
  assert.equal((await mine.push({ version: '1', sql: statements.join(';\n') })).status, 200)
  const { body } = await mine.manage('GET', '/db/migrations?statements=true')
  assert.deepEqual(body.migrations[0].statements, statements)
})

test('case 48: a migration record with invalid content is rejected', async () => {
  const mine = await Project.create(platform)
  assert.equal((await mine.push({ version: '1', sql: 'select 1' })).status, 200)
  await mine.asOwner(session =>
    session.script(
      `insert into supabase_migrations.schema_migrations (version) select i from generate_series(2, 20001) i`,
    ),
  )
  for (const reply of [
    await mine.manage('GET', '/db/migrations'),
    await mine.push({ version: '2', sql: 'create table t ()' }),
  ]) {
    assert.equal(reply.status, 400, JSON.stringify(reply.body).slice(0, 300))
    assert.match(reply.body.error.message, /more than 20000 rows/)
  }
})

test('case 48: rows of several megabytes are dumped unchanged in a streamed script', async () => {
  const mine = await Project.create(platform)
  const sql = `create table t (a text); insert into t select repeat('é"\\', 400000) from generate_series(1, 4)`
  assert.equal((await mine.push({ version: '1', sql })).status, 200)
  const { status, body } = await mine.manage('GET', '/db/data')
  assert.equal(status, 200)
  // quote_nullable doubles the backslashes.
  assert.equal(body.sql.split(`'${'é"\\\\'.repeat(400_000)}'`).length, 5)
  const schema = await mine.manage('GET', '/db/schema')
  assert.match(schema.body.sql, /create table public\.t/)
  assert.equal((await mine.manage('GET', '/db/schema?beyond_migrations=true')).body.sql, '')
})
