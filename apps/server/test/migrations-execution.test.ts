// How db/push runs a migration: errors, transactions, session settings, concurrent pushes and crashes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from '#src/kernel/postgres/sql.ts'
import { call, startPlatform, type TestPlatform, testServer } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

test('migrations: a failed migration is rolled back and reported with version, name, line and statement', async () => {
  const project = await Project.create(platform)
  const failed = await project.push(
    { version: '1', name: 'good', sql: 'create table a ();' },
    {
      version: '2',
      name: 'bad',
      sql: `create table b ();
-- a comment; with a semicolon
insert into a
  select nothing
    from b;
create table c ();`,
    },
    { version: '3', name: 'never', sql: 'create table d ();' },
  )
  assert.deepEqual([failed.status, failed.body.error.code], [400, 'migration_failed'])
  const { message } = failed.body.error
  assert.match(message, /^Migration 2 \(bad\) failed at line 4: column "nothing" does not exist/)
  assert.match(message, /42703/)
  assert.match(message, /insert into a\n {2}select nothing\n {4}from b\n/)
  assert.doesNotMatch(message, /a comment/)
  assert.match(message, /Applied before it: 1 \(good\)/)
  assert.deepEqual(await project.tables(), ['a'])
  assert.deepEqual(await project.applied(), ['1'])
})

test('migrations: a runtime error has the line of its statement and the context of the function', async () => {
  const project = await Project.create(platform)
  const failed = await project.push({
    version: '1',
    sql: `create function f(n int) returns int language plpgsql as $$
begin
  return 1 / n;
end $$;
create table t (n int);
insert into t values (0);

/* division
   by zero */
select f(n) from t;`,
  })
  assert.equal(failed.status, 400)
  assert.match(failed.body.error.message, /failed at line 10: division by zero/)
  assert.match(
    failed.body.error.message,
    /PL\/pgSQL function public\.f\(integer\) line 3|function f\(integer\) line 3/,
  )
  assert.deepEqual(await project.tables(), [])
})

test('migrations: an error at commit rolls the migration back', async () => {
  const project = await Project.create(platform)
  const failed = await project.push({
    version: '1',
    sql: `create table p (id int primary key);
      create table c (p int references p deferrable initially deferred);
      insert into c values (1);`,
  })
  assert.equal(failed.status, 400)
  assert.match(failed.body.error.message, /failed when it was committed: .*violates foreign key/s)
  assert.deepEqual(await project.tables(), [])
})

test('migrations: a migration with its own BEGIN and COMMIT still runs as one transaction', async () => {
  const project = await Project.create(platform)
  const sound = await project.push({
    version: '1',
    sql: 'begin; create table a (); commit;\nbegin; create table b (); end;',
  })
  assert.equal(sound.status, 200)
  const failed = await project.push({ version: '2', sql: 'begin; create table c (); commit; select 1/0;' })
  assert.equal(failed.status, 400)
  assert.deepEqual(await project.tables(), ['a', 'b'])
  assert.deepEqual(await project.applied(), ['1'])
  for (const script of [
    'create table d (); rollback;',
    'do $$ begin commit; end $$',
    'prepare transaction $$x$$',
  ]) {
    const { status } = await project.push({ version: '3', sql: `create table e (); ${script}` })
    assert.equal(status, 400, script)
  }
  assert.deepEqual(await project.tables(), ['a', 'b'])
})

test('migrations: without a transaction an index can be created concurrently', async () => {
  const project = await Project.create(platform)
  const pushed = await project.push(
    { version: '1', sql: 'create table t (a int)' },
    { version: '2', sql: '-- no-transaction\ncreate index concurrently t_a on t (a);' },
  )
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const [index] = await project.look<{ valid: boolean }>(
    sql`select indisvalid as valid from pg_index where indexrelid = 'public.t_a'::regclass`,
  )
  assert.deepEqual(index, { valid: true })
  assert.deepEqual(await project.applied(), ['1', '2'])
})

test('migrations: a failure without a transaction reports which statements stay applied', async () => {
  const project = await Project.create(platform)
  const failed = await project.push({
    version: '1',
    name: 'half',
    sql: `-- no-transaction
create table a ();
begin;
create table b ();
commit;
begin;
create table c ();
create table a ();`,
  })
  assert.equal(failed.status, 400)
  assert.match(failed.body.error.message, /failed at line 8: relation "a" already exists/)
  assert.match(failed.body.error.message, /statements of line 2, 3, 4, 5 stay done and it is not recorded/)
  assert.deepEqual(await project.tables(), ['a', 'b'])
  assert.deepEqual(await project.applied(), [])
  const index = await project.push({
    version: '2',
    sql: '-- no-transaction\ninsert into a default values;create unique index concurrently on a ((1 / 0));',
  })
  assert.match(index.body.error.message, /an index that is not valid may be left behind/)
})

test('migrations: session settings of a migration affect neither the record nor the next migration', async () => {
  const project = await Project.create(platform)
  const pushed = await project.push(
    {
      version: '1',
      sql: `select pg_catalog.set_config('search_path', '', false);
        set row_security = off; set statement_timeout = 60000; set check_function_bodies = off;
        create temporary table leftover (); prepare p as select 1; listen x;
        create table public.a ();`,
    },
    { version: '2', sql: 'create table b (); create temporary table leftover (); prepare p as select 1;' },
    { version: '3', sql: 'create extension "uuid-ossp" with schema extensions; select uuid_generate_v4()' },
    {
      version: '4',
      sql: "select set_config('search_path', 'extensions', true); select pg_advisory_unlock_all()",
    },
    { version: '5', sql: 'create table c ()' },
  )
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  assert.deepEqual(await project.tables(), ['a', 'b', 'c'])
})

test('migrations: two concurrent pushes have the result of one', async () => {
  const project = await Project.create(platform)
  const migrations = Array.from({ length: 5 }, (_, i) => ({
    version: String(i + 1),
    sql: `create table t${i} (); select pg_sleep(0.1)`,
  }))
  const replies = await Promise.all([project.push(...migrations), project.push(...migrations)])
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200],
  )
  assert.deepEqual(
    replies.map(({ body }) => body.applied.length + body.skipped.length),
    [5, 5],
  )
  assert.equal(replies[0]!.body.applied.length + replies[1]!.body.applied.length, 5)
  assert.deepEqual(await project.applied(), ['1', '2', '3', '4', '5'])
})

test('migrations: a waiting push does not block a concurrent index build', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', sql: 'create table t (a int)' })
  const building = project.push({
    version: '2',
    sql: '-- no-transaction\nselect pg_sleep(0.5); create index concurrently on t (a);',
  })
  await sleep(200)
  const [built, waited] = await Promise.all([
    building,
    project.push({ version: '3', sql: 'create table u ()' }),
  ])
  assert.deepEqual([built.status, waited.status], [200, 200], JSON.stringify([built.body, waited.body]))
})

test('migrations: results of statements are discarded and limited in size', async () => {
  const project = await Project.create(platform)
  const rows = await project.push({
    version: '1',
    sql: "select repeat('x', 1000) from generate_series(1, 50000)",
  })
  assert.equal(rows.status, 200)
  const flood = await project.push({
    version: '2',
    sql: "select repeat('x', 1000000) from generate_series(1, 1000)",
  })
  assert.deepEqual([flood.status, flood.body.error.code], [400, 'sql_error'])
  assert.deepEqual(await project.applied(), ['1'])
})

test('migrations: after a crash during a push each migration is applied and recorded, or rolled back', async () => {
  const server = testServer()
  const control = `t_push_${randomBytes(5).toString('hex')}`
  const token = randomBytes(24).toString('hex')
  const cwd = fs.mkdtempSync(join(tmpdir(), 'plinth-push-'))
  const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
  const child = spawn(process.execPath, [main], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      TMPDIR: tmpdir(),
      PLATFORM_PORT: '0',
      PLATFORM_DISK_RESERVE_MB: '0',
      PLATFORM_ADMIN_TOKEN: token,
      CONTROL_PLANE_SECRET: randomBytes(24).toString('hex'),
      DATABASE_URL: `postgres://${server.user}:${server.password}@${encodeURIComponent(server.host)}:${server.port}/${control}`,
    },
  })
  let ref = ''
  try {
    let output = ''
    for await (const chunk of child.stderr) {
      output += chunk
      if (/http:\/\/127\.0\.0\.1:\d+/.test(output)) break
    }
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(output)![0]
    const made = await call(`${url}/api/v1/projects`, 'POST', { token, body: { name: 'killed' } })
    const push = call(`${url}/api/v1/projects/${made.body.id}/db/push`, 'POST', {
      token,
      body: {
        migrations: [
          { version: '1', sql: 'create table a ()' },
          { version: '2', sql: 'create table b (); select pg_sleep(20)' },
        ],
      },
    }).catch(error => error)
    const [found] = await platform.asSuperuser(control, session =>
      session.rows<{ ref: string }>(sql`select ref from public.projects`),
    )
    ref = found!.ref
    const state = () =>
      platform.asSuperuser(ref, session =>
        session.row<{ recorded: string[] | null; tables: string[] | null; working: boolean }>(sql`
          select (select array_agg(version order by version) from supabase_migrations.schema_migrations) as recorded,
                 (select array_agg(relname::text order by relname) from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r') as tables,
                 exists (select from pg_stat_activity where query like '%pg_sleep(20)%' and pid <> pg_backend_pid() and state = 'active') as working`),
      )
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(50))
      if ((await state().catch(() => undefined))?.working) break
    child.kill('SIGKILL')
    await push
    // Postgres detects the lost client within seconds and rolls the open transaction back.
    let left = await state()
    for (const deadline = Date.now() + 60_000; left!.working && Date.now() < deadline; left = await state())
      await sleep(100)
    assert.deepEqual(left, { recorded: ['1'], tables: ['a'], working: false })
  } finally {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await platform.asSuperuser('postgres', async session => {
      await session.script(`alter database ${control}_template is_template false`)
      for (const database of [ref, `${control}_template`, control])
        if (database) await session.script(`drop database if exists ${database} with (force)`)
      if (ref) await session.script(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
    })
    fs.rmSync(cwd, { recursive: true, force: true })
  }
})
