// Which migrations db/push applies and db/plan lists, how they are recorded, and who may call the routes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project, type Sent } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const versions = (list: { version: string }[]) => list.map(({ version }) => version)

test('migrations: each is applied once, in order of version', async () => {
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

test('migrations: before the first push there is no record table and the list is empty', async () => {
  const project = await Project.create(platform)
  assert.deepEqual((await project.manage('GET', '/db/migrations')).body.migrations, [])
  const plan = await project.plan({ version: '1', sql: 'select 1' })
  assert.deepEqual(versions(plan.body.pending), ['1'])
  const schemas = await project.look<{ nspname: string }>(
    sql`select nspname from pg_namespace where nspname = 'supabase_migrations'`,
  )
  assert.deepEqual(schemas, [])
})

test('migrations: the record table belongs to the owner and has the layout of other tools', async () => {
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

  // A migration that another tool has recorded counts as applied, even with another text.
  await project.asOwner(session =>
    session.script(
      `insert into supabase_migrations.schema_migrations (version, name) values ('2', 'theirs')`,
    ),
  )
  const pushed = await project.push({ version: '2', sql: 'create table never ()' })
  assert.deepEqual([pushed.status, versions(pushed.body.skipped)], [200, ['2']])
  assert.deepEqual(await project.tables(), [])
})

test('migrations: a record table of another tool with fewer columns is extended', async () => {
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

test('migrations: a record table that the owner has changed is read where possible and never causes a 500', async () => {
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

test('migrations: a changed migration is rejected before anything is applied', async () => {
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
  // Line ends, a byte order mark and text after the last statement do not count as a change.
  const same = await project.push({ version: '1', sql: '\uFEFFcreate table a ();\r\n-- done\r\n' })
  assert.deepEqual([same.status, versions(same.body.skipped)], [200, ['1']])
})

test('migrations: one older than the newest applied is applied and reported as out of order', async () => {
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

test('migrations: a plan lists what a push would do and changes nothing', async () => {
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

test('migrations: a body of many megabytes is accepted, an oversized or invalid one is rejected', async () => {
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

test('migrations: push and plan need deploy scope, list needs read, reset needs admin', async () => {
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
  const unknown = await platform.call('POST', `/api/v1/projects/${crypto.randomUUID()}/db/push`, {
    token: platform.adminToken,
    body: none,
  })
  assert.deepEqual([unknown.status, unknown.body.error.code], [404, 'project_not_found'])
})
