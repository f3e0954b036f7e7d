// db/push, db/plan, db/migrations and db/reset against a real database.
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
import { Project, type Sent } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const versions = (list: { version: string }[]) => list.map(({ version }) => version)

test('migrations are applied in order of version, once', async () => {
  const project = await Project.create(platform)
  const second = { version: '10', name: 'second', sql: 'alter table a add column b int; create table c ();' }
  const first = { version: '9', name: 'first', sql: 'create table a (id int primary key);' }
  const pushed = await project.push(second, first)
  assert.equal(pushed.status, 200)
  assert.deepEqual(versions(pushed.body.applied), ['9', '10'])
  assert.deepEqual(pushed.body.skipped, [])
  assert.equal(pushed.body.applied[1].statements, 2)
  assert.ok(Number.isInteger(pushed.body.applied[0].duration_ms))

  const again = await project.push(first, second, { version: '11', sql: 'create table d ()' })
  assert.deepEqual(versions(again.body.applied), ['11'])
  assert.deepEqual(again.body.skipped, [
    { version: '9', name: 'first' },
    { version: '10', name: 'second' },
  ])
  assert.deepEqual(await project.tables(), ['a', 'c', 'd'])

  const { body } = await project.manage('GET', '/db/migrations?statements=true&limit=2')
  assert.deepEqual([body.total, body.limit, body.offset], [3, 2, 0])
  assert.deepEqual(versions(body.migrations), ['9', '10'])
  assert.deepEqual(body.migrations[1].statements, ['alter table a add column b int', 'create table c ()'])
  assert.match(body.migrations[0].checksum, /^[0-9a-f]{64}$/)
  assert.ok(Date.now() - Date.parse(body.migrations[0].applied_at) < 60_000)
  const bare = await project.manage('GET', '/db/migrations?offset=2')
  assert.deepEqual(Object.keys(bare.body.migrations[0]).sort(), ['applied_at', 'checksum', 'name', 'version'])
})

test('before the first push there is no record and nothing is listed', async () => {
  const project = await Project.create(platform)
  assert.deepEqual((await project.manage('GET', '/db/migrations')).body.migrations, [])
  const plan = await project.plan({ version: '1', sql: 'select 1' })
  assert.deepEqual(versions(plan.body.pending), ['1'])
  const schemas = await project.look<{ nspname: string }>(
    sql`select nspname from pg_namespace where nspname = 'supabase_migrations'`,
  )
  assert.deepEqual(schemas, [])
})

test('the record is a table of the owner, in the layout other tools know', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', name: 'one', sql: 'select 1; select 2;' })
  const [row] = await project.asOwner(session =>
    session.rows<Record<string, unknown>>(
      sql`select version, name, statements from supabase_migrations.schema_migrations`,
    ),
  )
  assert.deepEqual(row, { version: '1', name: 'one', statements: ['select 1', 'select 2'] })
  const [table] = await project.look<{ owner: string; acl: string | null }>(
    sql`select pg_get_userbyid(relowner) as owner, relacl::text as acl from pg_class where oid = 'supabase_migrations.schema_migrations'::regclass`,
  )
  assert.deepEqual(table, { owner: `${project.ref}_owner`, acl: null })

  // One that another tool has recorded counts as applied, whatever its text.
  await project.asOwner(session =>
    session.script(
      `insert into supabase_migrations.schema_migrations (version, name) values ('2', 'theirs')`,
    ),
  )
  const pushed = await project.push({ version: '2', sql: 'create table never ()' })
  assert.deepEqual([pushed.status, versions(pushed.body.skipped)], [200, ['2']])
  assert.deepEqual(await project.tables(), [])
})

test('a table of records that another tool made with fewer columns is taken over', async () => {
  const project = await Project.create(platform)
  await project.asOwner(session =>
    session.script(`create schema supabase_migrations;
      create table supabase_migrations.schema_migrations (version text not null primary key);
      insert into supabase_migrations.schema_migrations values ('1')`),
  )
  const listed = await project.manage('GET', '/db/migrations')
  assert.deepEqual(listed.body.migrations, [{ version: '1', name: '', checksum: null, applied_at: null }])
  const pushed = await project.push({ version: '1', sql: 'x' }, { version: '2', sql: 'create table t ()' })
  assert.deepEqual(versions(pushed.body.applied), ['2'])
})

test('a record that the owner has bent is read as far as it can be, and never an error of ours', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', name: 'one', sql: 'select 1' })
  await project.asOwner(session =>
    session.script(`alter table supabase_migrations.schema_migrations alter column applied_at type text;
      update supabase_migrations.schema_migrations set applied_at = 'yesterday', checksum = null, statements = null, name = null`),
  )
  const listed = await project.manage('GET', '/db/migrations?statements=true')
  assert.deepEqual(listed.body.migrations, [
    { version: '1', name: '', checksum: null, applied_at: null, statements: null },
  ])
  await project.asOwner(session =>
    session.script(`drop table supabase_migrations.schema_migrations;
      create view supabase_migrations.schema_migrations as select 1 / 0 as version`),
  )
  for (const [method, path, body] of [
    ['GET', '/db/migrations', undefined],
    ['POST', '/db/push', { migrations: [{ version: '2', sql: 'select 1' }] }],
    ['POST', '/db/reset', { reapply: true }],
    ['GET', '/db/schema?beyond_migrations=true', undefined],
  ] as const) {
    const { status, body: answer } = await project.manage(method, path, body)
    assert.equal(status, 400, `${method} ${path} ${JSON.stringify(answer)}`)
    assert.match(answer.error.message, /division by zero/)
  }
})

test('a changed migration is refused before anything is applied', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', name: 'one', sql: 'create table a ();' })
  const changed = await project.push(
    { version: '1', name: 'one', sql: 'create table a (id int);' },
    { version: '0', sql: 'create table before ()' },
    { version: '2', sql: 'create table after ()' },
  )
  assert.deepEqual([changed.status, changed.body.error.code], [409, 'migration_changed'])
  assert.match(changed.body.error.message, /1 \(one\)/)
  assert.deepEqual(await project.tables(), ['a'])
  assert.deepEqual(await project.applied(), ['1'])
  // Line ends, a byte order mark and what stands after the last statement are no change.
  const same = await project.push({ version: '1', sql: '\uFEFFcreate table a ();\r\n-- done\r\n' })
  assert.deepEqual([same.status, versions(same.body.skipped)], [200, ['1']])
})

test('one that is older than the newest applied is applied, and said to be out of order', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '20', sql: 'create table a ()' })
  const late = { version: '15', sql: 'create table b ()' }
  const plan = await project.plan(late, { version: '30', sql: 'select 1' })
  assert.deepEqual(
    plan.body.pending.map((each: any) => [each.version, each.out_of_order]),
    [
      ['15', true],
      ['30', false],
    ],
  )
  assert.deepEqual(versions(plan.body.missing), ['20'])
  const pushed = await project.push(late)
  assert.equal(pushed.body.applied[0].out_of_order, true)
})

test('a plan tells what a push would do and changes nothing', async () => {
  const project = await Project.create(platform)
  await project.push({ version: '1', sql: 'select 1' }, { version: '2', sql: 'select 2' })
  const { status, body } = await project.plan(
    { version: '1', sql: 'select 1' },
    { version: '2', sql: 'select 2.5' },
    { version: '3', name: 'new', sql: '-- no-transaction\ncreate table x (); create table y ()' },
  )
  assert.equal(status, 200)
  assert.deepEqual(body, {
    pending: [{ version: '3', name: 'new', out_of_order: false, has_transaction: false, statements: 2 }],
    skipped: [{ version: '1', name: '' }],
    changed: [{ version: '2', name: '' }],
    missing: [],
  })
  assert.deepEqual(await project.tables(), [])
})

test('a failing migration is undone and told with version, name, line and statement', async () => {
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

test('errors while a statement runs are told with its line and where in a function they happened', async () => {
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

test('what a commit finds out undoes the migration, too', async () => {
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

test('a migration of its own transactions is one transaction all the same', async () => {
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

test('without a transaction an index can be built concurrently', async () => {
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

test('one that fails without a transaction says what stays done', async () => {
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

test('what a migration does to its session reaches neither the record nor the next one', async () => {
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

test('two pushes at once end as one would', async () => {
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

test('a push that waits does not stand in the way of an index built concurrently', async () => {
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

test('a body of many megabytes is taken, a larger one and a wrong one are refused', async () => {
  const project = await Project.create(platform)
  const row = `insert into t values ('${'x'.repeat(1960)}');\n`
  const pushed = await project.push({ version: '1', sql: `create table t (a text);\n${row.repeat(4000)}` })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const huge = await project.push({ version: '2', sql: 'x'.repeat(21 * 1024 * 1024) })
  assert.equal(huge.status, 413)
  for (const wrong of [
    { version: 'one', sql: '' },
    { version: '3' },
    { version: '3', sql: 'select 1', extra: 1 },
  ])
    assert.equal((await project.push(wrong as Sent)).status, 400)
  const twice = await project.push({ version: '3', sql: '' }, { version: '3', sql: '' })
  assert.deepEqual([twice.status, twice.body.error.code], [400, 'invalid_request'])
  assert.equal((await project.push({ version: '3', sql: 'select \0' })).status, 400)
})

test('what a statement answers is dropped, and bounded', async () => {
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

test('killed in the middle, a platform leaves a migration applied and recorded, or nothing of it', async () => {
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
    let said = ''
    for await (const chunk of child.stderr) {
      said += chunk
      if (/http:\/\/127\.0\.0\.1:\d+/.test(said)) break
    }
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)![0]
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
    // The server notices within seconds that nobody is there any more, and undoes what was open.
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

test('scopes: deploy pushes and plans, read lists, admin resets', async () => {
  const project = await Project.create(platform)
  const tokens = await Promise.all(
    (['read', 'deploy'] as const).map(scope => platform.platform.mintToken({ body: { name: scope, scope } })),
  )
  const [read, deploy] = tokens.map(({ token }) => token)
  const status = async (token: string | undefined, method: string, path: string, body?: unknown) =>
    (await platform.call(method, `/api/v1/projects/${project.id}${path}`, { ...(token && { token }), body }))
      .status
  const none = { migrations: [] }
  assert.equal(await status(undefined, 'POST', '/db/push', none), 401)
  assert.equal(await status(read, 'POST', '/db/push', none), 403)
  assert.equal(await status(read, 'POST', '/db/plan', none), 403)
  assert.equal(await status(read, 'GET', '/db/migrations'), 200)
  assert.equal(await status(read, 'GET', '/db/schema'), 200)
  assert.equal(await status(deploy, 'POST', '/db/push', none), 200)
  assert.equal(await status(deploy, 'POST', '/db/plan', none), 200)
  assert.equal(await status(deploy, 'POST', '/db/reset', {}), 403)
  assert.equal(await status(deploy, 'GET', '/db/data'), 403)
  assert.equal(await status(platform.adminToken, 'POST', '/db/reset', {}), 200)
  const { body } = await platform.call('GET', `/api/v1/admin/audit?project_id=${project.id}`, {
    token: platform.adminToken,
  })
  assert.deepEqual(body.entries.map((entry: any) => entry.action).sort(), [
    'db.push_planned',
    'db.pushed',
    'db.reset',
    'project.created',
  ])
  const stranger = await platform.call('POST', `/api/v1/projects/${crypto.randomUUID()}/db/push`, {
    token: platform.adminToken,
    body: none,
  })
  assert.deepEqual([stranger.status, stranger.body.error.code], [404, 'project_not_found'])
})
