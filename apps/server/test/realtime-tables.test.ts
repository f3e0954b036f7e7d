// The management routes for the realtime settings of tables, and what happens to the settings when tables change.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
let project: Project
let other: Project

before(async () => {
  platform = await startPlatform()
  project = await Project.create(platform)
  other = await Project.create(platform)
})
after(() => platform.stop())

const script = (text: string, of = project) => of.asOwner(session => session.script(text))
const call = (
  method: string,
  path = '',
  body?: unknown,
  options: CallOptions = {},
  { id } = project,
): Promise<Reply> =>
  platform.call(method, `/api/v1/projects/${id}/realtime/tables${path}`, {
    token: platform.adminToken,
    ...(body !== undefined && { body }),
    ...options,
  })
const put = async (name: string, body: unknown, of = project) =>
  call('PUT', `/${encodeURIComponent(name)}`, body, {}, of)
const set = async (name: string, body: unknown, of = project) => {
  const reply = await put(name, body, of)
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  return reply.body
}
const shown = async (name: string, of = project) => {
  const { body } = await call('GET', '?limit=100', undefined, {}, of)
  return body.tables.find((each: { table: string }) => each.table === name)
}
const statusAndCode = ({ status, body }: Reply) => [status, body?.error?.code]
const noted = (of = project) =>
  of.look<{ relid: number; cdc_enabled: boolean; realtime_public: boolean }>(
    sql`select * from platform.realtime_tables order by relid`,
  )
const withDefaults = (table: string) => ({
  schema: 'public',
  table,
  cdc_enabled: true,
  rls_enabled: true,
  realtime_public: false,
})

test('realtime tables: lists the tables of public by name with defaults, without views, other schemas and extensions', async () => {
  await script(`
    create table list_b (id int); create table list_a (id int); create table "List ""C""" (id int);
    create table list_parts (id int) partition by range (id);
    create table list_part partition of list_parts for values from (0) to (10);
    create view list_view as select 1 as one; create materialized view list_mat as select 1 as one;
    create schema aside; create table aside.list_aside (id int);
    alter table list_a disable row level security`)
  await platform.asSuperuser(project.ref, session =>
    session.script(`
      create extension hstore schema extensions;
      create table public.list_of_extension (id int);
      alter extension hstore add table public.list_of_extension`),
  )
  const { status, body } = await call('GET')
  assert.equal(status, 200)
  assert.deepEqual(body.tables, [
    withDefaults('List "C"'),
    { ...withDefaults('list_a'), rls_enabled: false },
    withDefaults('list_b'),
    withDefaults('list_part'),
    withDefaults('list_parts'),
  ])
  assert.deepEqual([body.total, body.limit, body.offset], [5, 50, 0])
  const page = await call('GET', '?limit=1&offset=2')
  assert.deepEqual([page.body.tables.map((each: any) => each.table), page.body.total], [['list_b'], 5])
})

test('realtime tables: setting one field keeps the other, and default settings store no row', async () => {
  await script('create table switched (id int primary key); create table untouched (id int)')
  assert.deepEqual(await set('switched', { cdc_enabled: false }), {
    ...withDefaults('switched'),
    cdc_enabled: false,
  })
  assert.deepEqual(await set('switched', { realtime_public: true }), {
    ...withDefaults('switched'),
    cdc_enabled: false,
    realtime_public: true,
  })
  assert.deepEqual(await shown('switched'), {
    ...withDefaults('switched'),
    cdc_enabled: false,
    realtime_public: true,
  })
  assert.deepEqual(await shown('untouched'), withDefaults('untouched'))
  assert.equal((await noted()).length, 1)
  assert.deepEqual(
    await set('switched', { cdc_enabled: true, realtime_public: false }),
    withDefaults('switched'),
  )
  assert.deepEqual(await noted(), [])
})

test('realtime tables: table names are used literally', async () => {
  const names = [
    'Upper',
    'with space',
    'quo"te',
    "apo'strophe",
    'a.b',
    'ünïcode',
    'semi; drop table named; --',
  ]
  await script('create table named (id int)')
  for (const name of names) {
    await script(`create table "${name.replaceAll('"', '""')}" (id int)`)
    assert.equal((await set(name, { cdc_enabled: false })).table, name)
    assert.equal((await shown(name)).cdc_enabled, false)
  }
  assert.deepEqual(await shown('named'), withDefaults('named'))
})

test('realtime tables: settings are lost when a table is dropped, and kept when it is altered', async () => {
  await script('create table fleeting (id int)')
  await set('fleeting', { cdc_enabled: false, realtime_public: true })
  const before = (await noted()).length
  await script('alter table fleeting add column body text; alter table fleeting rename to lasting')
  assert.deepEqual(await shown('lasting'), {
    ...withDefaults('lasting'),
    cdc_enabled: false,
    realtime_public: true,
  })
  await script('drop table lasting; create table lasting (id int)')
  assert.deepEqual(await shown('lasting'), withDefaults('lasting'))
  assert.equal((await noted()).length, before - 1)
})

test('realtime tables: a relation that is not a table of the project is rejected with a hint', async () => {
  await script(`
    create table based (id int); create view seen_through as select * from based;
    create materialized view kept as select * from based;
    create schema beside; create table beside.hidden (id int)`)
  await platform.asSuperuser(project.ref, session =>
    session.script(`
      create extension if not exists postgres_fdw schema extensions; create server far foreign data wrapper postgres_fdw;
      create foreign table public.far_away (id int) server far`),
  )
  const unknown = await put('basde', { cdc_enabled: false })
  assert.deepEqual(statusAndCode(unknown), [404, 'table_not_found'])
  assert.match(unknown.body.error.message, /Perhaps you meant "based"/)
  assert.deepEqual(statusAndCode(await put('hidden', { cdc_enabled: false })), [404, 'table_not_found'])
  const cases: [string, RegExp][] = [
    [
      'seen_through',
      /is a view: only tables of the project send changes\. Set it for the tables that the view reads/,
    ],
    ['kept', /is a materialized view/],
    ['far_away', /is a foreign table/],
    ['list_of_extension', /part of an extension/],
  ]
  for (const [name, message] of cases) {
    const reply = await put(name, { cdc_enabled: false })
    assert.deepEqual(statusAndCode(reply), [400, 'invalid_request'], name)
    assert.match(reply.body.error.message, message)
  }
})

test('realtime tables: an empty body or unknown fields are rejected', async () => {
  await script('create table plain (id int)')
  for (const body of [
    {},
    [],
    null,
    { cdc_enabled: 'false' },
    { cdc_enabled: null },
    { cdc_enabled: false, enabled: false },
    { rls_enabled: false },
  ])
    assert.deepEqual(statusAndCode(await put('plain', body)), [400, 'invalid_request'], JSON.stringify(body))
  assert.deepEqual(await shown('plain'), withDefaults('plain'))
})

test('realtime tables: settings do not affect a table of the same name in another project', async () => {
  await script('create table shared (id int)')
  await script('create table shared (id int); create table only_there (id int)', other)
  await set('shared', { cdc_enabled: false })
  assert.equal((await shown('shared', other)).cdc_enabled, true)
  assert.deepEqual(statusAndCode(await put('only_there', { cdc_enabled: false })), [404, 'table_not_found'])
  const nobody = await call('PUT', '/shared', { cdc_enabled: false }, {}, {
    id: crypto.randomUUID(),
  } as Project)
  assert.deepEqual(statusAndCode(nobody), [404, 'project_not_found'])
})

test('realtime tables: listing needs read, setting needs admin and writes an audit entry', async () => {
  await script('create table guarded (id int)')
  const token = async (scope: 'read' | 'deploy' | 'admin') =>
    (await platform.platform.mintToken({ body: { name: scope, scope } })).token
  const body = { realtime_public: true }
  assert.equal((await call('GET', '', undefined, { token: await token('read') })).status, 200)
  for (const scope of ['read', 'deploy'] as const) {
    const reply = await call('PUT', '/guarded', body, { token: await token(scope) })
    assert.deepEqual(statusAndCode(reply), [403, 'insufficient_scope'])
  }
  const { serviceRoleKey } = (await platform.app.directory.find(project.id))!
  for (const wrong of ['nonsense', serviceRoleKey]) {
    assert.deepEqual(statusAndCode(await call('GET', '', undefined, { token: wrong })), [401, 'unauthorized'])
    assert.deepEqual(statusAndCode(await call('PUT', '/guarded', body, { token: wrong })), [
      401,
      'unauthorized',
    ])
  }
  assert.equal((await shown('guarded')).realtime_public, false)
  const done = await call('PUT', '/guarded', body, { token: await token('admin') })
  assert.equal(done.status, 200)
  const entries = await platform.app.control.rows(sql`
    select actor_label, action, target, project_id from audit where action = 'realtime.table_set' and request_id = ${done.headers.get('x-request-id')}`)
  assert.deepEqual(entries, [
    { actor_label: 'admin', action: 'realtime.table_set', target: 'guarded', project_id: project.id },
  ])
})

test('realtime tables: tenant SQL cannot change the settings', async () => {
  await script('create table kept_off (id int)')
  await set('kept_off', { cdc_enabled: false })
  for (const statement of [
    'delete from platform.realtime_tables',
    'update platform.realtime_tables set cdc_enabled = true',
    "insert into platform.realtime_tables values ('public.kept_off'::regclass, true, true) on conflict do nothing",
    'truncate platform.realtime_tables',
    'begin; lock table platform.realtime_tables in share mode',
  ])
    await assert.rejects(script(statement), { code: '42501' }, statement)
  assert.equal((await shown('kept_off')).cdc_enabled, false)
})

test('realtime tables: setting a locked table times out, and other tables are not affected', async () => {
  await script('create table held (id int); create table free (id int)')
  let pending!: Promise<Reply>
  await project.asOwner(async session => {
    await session.script('begin; lock table held in access exclusive mode')
    pending = put('held', { cdc_enabled: false })
    // Requests of one project run one after the other.
    const next = put('free', { cdc_enabled: false })
    assert.deepEqual(statusAndCode(await pending), [409, 'object_busy'])
    assert.equal((await next).status, 200)
    await session.script('rollback')
  })
  assert.equal((await shown('held')).cdc_enabled, true)
  assert.equal((await set('held', { cdc_enabled: false })).cdc_enabled, false)
})

test('realtime tables: a table dropped during the request leaves no settings', async () => {
  await script('create table doomed (id int)')
  const count = (await noted()).length
  let pending!: Promise<Reply>
  await project.asOwner(async session => {
    await session.script('begin; drop table doomed')
    pending = put('doomed', { cdc_enabled: false })
    await eventually(async () => {
      const waiting = await project.look(sql`
        select from pg_catalog.pg_locks l join pg_catalog.pg_database d on d.oid = l.database
         where not l.granted and d.datname = current_database()`)
      return waiting.length > 0
    }, 'the request waits for the drop')
    await session.script('commit')
  })
  assert.deepEqual(statusAndCode(await pending), [404, 'table_not_found'])
  assert.equal((await noted()).length, count)
})
