// db/reset drops all objects of the project, restores the objects of the platform, and is atomic.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** Objects of every kind, in public and in other schemas. */
const everything = `
  create extension citext;
  create extension pg_trgm with schema extensions;
  create schema app create table app.items (id int primary key);
  create schema holder; create extension hstore with schema holder; create table holder.own (a int);
  create type mood as enum ('ok', 'sad');
  create domain positive as int check (value > 0);
  create type pair as (a int, b text);
  create type span as range (subtype = float8);
  create sequence numbers;
  create table "Odd ""Name" (id serial primary key, m mood, p positive, q pair, s span, c citext, d int default nextval('numbers'));
  create table child (id int generated always as identity, parent int references "Odd ""Name", item int references app.items);
  create table parted (a int) partition by list (a);
  create table part partition of parted default;
  create index on child (parent);
  create function add(int, int) returns int language sql as 'select $1 + $2';
  create function add(text) returns text language sql as 'select $1';
  create procedure act(inout x int) language plpgsql as 'begin x := 1; end';
  create aggregate total (int) (sfunc = int4pl, stype = int, initcond = '0');
  create aggregate rows_of (*) (sfunc = int8inc, stype = int8, initcond = '0');
  create operator === (leftarg = int, rightarg = int, function = int4eq);
  create view v as select *, add(id, 1) from "Odd ""Name";
  create materialized view mv as select 1 as a;
  create function touch() returns trigger language plpgsql as 'begin return new; end';
  create trigger t before update on child for each row execute function touch();
  create policy p on child using (add(1, 1) = 2);
  create publication mine for table child;
  alter publication supabase_realtime add table child;
  create collation german (provider = icu, locale = 'de');
  create text search configuration words (copy = simple);
  alter default privileges in schema public revoke all on tables from anon;
  alter default privileges in schema public grant truncate on tables to authenticated;
  alter default privileges revoke execute on functions from public;
  revoke usage on schema public from authenticated;
  grant create on schema public to service_role;
  grant usage on schema public to public;`

const state = (project: Project) =>
  project.look<object>(sql`
    select array(select case grantee when 0 then 'public' else regexp_replace(pg_get_userbyid(grantee), '^p_.{20}', '') end || ':' || privilege_type
                   from pg_namespace, aclexplode(nspacl) where nspname = 'public' order by 1) as acl,
           array(select defaclobjtype::text || ':' || coalesce(nspname, '-') || ':' || regexp_replace(pg_get_userbyid(a.grantee), '^p_.{20}', '') || ':' || a.privilege_type
                   from pg_default_acl d left join pg_namespace n on n.oid = d.defaclnamespace, aclexplode(d.defaclacl) a
                  where d.defaclrole = ${`${project.ref}_owner`}::regrole order by 1) as defaults,
           array(select relname::text from pg_class where relnamespace = 'public'::regnamespace order by 1) as relations,
           array(select typname::text from pg_type t where typnamespace = 'public'::regnamespace
                    and not exists (select from pg_depend where objid = t.oid and deptype in ('e', 'i')) order by 1) as types,
           array(select proname::text from pg_proc p where pronamespace = 'public'::regnamespace
                    and not exists (select from pg_depend where objid = p.oid and deptype = 'e') order by 1) as functions,
           (select count(*)::int from pg_operator o where oprnamespace = 'public'::regnamespace
               and not exists (select from pg_depend where objid = o.oid and deptype = 'e')) as operators,
           (select count(*)::int from pg_collation where collnamespace = 'public'::regnamespace) as collations,
           (select count(*)::int from pg_ts_config where cfgnamespace = 'public'::regnamespace) as searches,
           array(select pubname::text from pg_publication order by 1) as publications,
           (select count(*)::int from pg_publication_rel) as published,
           (select count(*)::int from platform.seen) as seen`)

test('reset: drops all objects of the project, restores grants and default privileges, keeps extensions', async () => {
  const [project, untouched] = await Promise.all([Project.create(platform), Project.create(platform)])
  const pushed = await project.push({ version: '1', name: 'all', sql: everything })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  assert.notDeepEqual(await state(project), await state(untouched))

  const { status, body } = await project.reset()
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(await state(project), await state(untouched))
  assert.deepEqual(body.forgotten, [{ version: '1', name: 'all' }])
  assert.deepEqual(body.applied, [])
  assert.deepEqual(body.dropped.schemas, ['app'])
  assert.ok(body.dropped.tables.includes('public.Odd "Name') && body.dropped.tables.includes('app.items'))
  assert.ok(body.dropped.tables.includes('holder.own'))
  assert.deepEqual(body.dropped.views, ['public.mv', 'public.v'])
  assert.ok(body.dropped.functions.includes('public.add(integer, integer)'))
  assert.deepEqual(body.dropped.types.slice(0, 2), ['public.mood', 'public.pair'])
  assert.deepEqual(body.dropped.sequences, ['public.numbers'])
  assert.deepEqual(await project.applied(), [])
  const extensions = await project.look<object>(
    sql`select extname, extnamespace::regnamespace::text as schema from pg_extension where extname <> 'plpgsql' order by 1`,
  )
  assert.deepEqual(extensions, [
    { extname: 'citext', schema: 'public' },
    { extname: 'hstore', schema: 'holder' },
    { extname: 'pg_trgm', schema: 'extensions' },
  ])
  const [type] = await project.look<object>(
    sql`select to_regtype('public.citext')::text as citext, to_regclass('auth.users')::text as users`,
  )
  assert.deepEqual(type, { citext: 'public.citext', users: 'auth.users' })
})

test('reset: recorded migrations are applied again with the same checksums', async () => {
  const project = await Project.create(platform)
  const migrations = [
    { version: '1', name: 'schema', sql: 'create schema private; create table private.t (a int);' },
    {
      version: '2',
      sql: "begin; -- ours\ncreate type e as enum ('a'); alter type e add value 'b'; create table u (e e default 'b'); commit;",
    },
    { version: '3', sql: "select set_config('search_path', '', false); create table public.w (a int);" },
    { version: '4', sql: '-- no-transaction\ncreate index concurrently u_e on u (e);' },
    { version: '5', sql: 'create table x ()' },
  ]
  assert.equal((await project.push(...migrations)).status, 200)
  await project.asOwner(session =>
    session.script('create table by_hand (a int); insert into public.u default values'),
  )

  const { status, body } = await project.reset({ reapply: true })
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(
    body.applied.map((each: any) => each.version),
    ['1', '2', '3', '4', '5'],
  )
  assert.deepEqual(await project.tables(), ['u', 'w', 'x'])
  const [rows] = await project.look<object>(sql`select count(*)::int as rows from public.u`)
  assert.deepEqual(rows, { rows: 0 })
  const again = await project.push(...migrations)
  assert.deepEqual([again.status, again.body.applied], [200, []])
})

test('reset: given migrations are applied instead of the recorded ones', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', sql: 'create table old ()' })
  const { status, body } = await project.reset({
    confirm: project.id,
    migrations: [{ version: '1', sql: 'create table fresh ()' }],
  })
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(await project.tables(), ['fresh'])
  assert.deepEqual(await project.applied(), ['1'])
})

test('reset: a failed migration rolls back the whole reset', async () => {
  const project = await Project.create(platform)
  await project.push({
    version: '1',
    sql: 'create table t (a int); insert into t values (1); grant truncate on t to anon',
  })
  const before = await state(project)
  const failed = await project.reset({
    migrations: [
      { version: '1', sql: 'create table u ()' },
      { version: '2', name: 'bad', sql: 'create table v ();\nselect 1/0' },
    ],
  })
  assert.deepEqual([failed.status, failed.body.error.code], [400, 'migration_failed'])
  assert.match(failed.body.error.message, /2 \(bad\) failed at line 2: division by zero/)
  assert.match(failed.body.error.message, /reset was undone/)
  assert.deepEqual(await state(project), before)
  assert.deepEqual(await project.applied(), ['1'])
  const [row] = await project.look<object>(sql`select a from public.t`)
  assert.deepEqual(row, { a: 1 })
})

test('reset: a wrong confirmation, or records that cannot be applied again, are rejected before anything is dropped', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', sql: 'create table t ()' })
  const wrong = await project.reset({ confirm: 'another' })
  assert.deepEqual([wrong.status, wrong.body.error.code], [400, 'confirmation_mismatch'])
  await project.asOwner(session =>
    session.script(`insert into supabase_migrations.schema_migrations (version) values ('2')`),
  )
  const bare = await project.reset({ reapply: true })
  assert.deepEqual([bare.status, bare.body.error.code], [400, 'invalid_request'])
  assert.match(bare.body.error.message, /Migration 2 was recorded without its statements/)
  assert.deepEqual(await project.tables(), ['t'])
})

test('reset: works without schema public and for an empty project', async () => {
  const [project, untouched] = await Promise.all([Project.create(platform), Project.create(platform)])
  await project.asOwner(session => session.script('drop schema public cascade'))
  const { status, body } = await project.reset({})
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(await state(project), await state(untouched))
  assert.equal((await untouched.reset({ reapply: true })).status, 200)
})

test('reset: policies of private channels are dropped, so that migrations can create them again', async () => {
  const project = await Project.create(platform)
  const migration = {
    version: '20240101000000',
    sql: `create policy members on realtime.messages for select to authenticated using (realtime.topic() = 'room');
      select realtime.send('{}', 'event', 'room')`,
  }
  assert.equal((await project.push(migration)).status, 200)
  assert.equal((await project.reset({ reapply: true })).status, 200)
  const policies = await project.look(
    sql`select polname from pg_policy where polrelid = 'realtime.messages'::regclass`,
  )
  assert.deepEqual(policies, [{ polname: 'members' }])
  const messages = await project.look(sql`select event from realtime.messages`)
  assert.deepEqual(messages, [{ event: 'event' }])
})
