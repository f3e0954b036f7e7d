// 1 §6 rule 9: which tables are captured, and the management routes that opt one out or in.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, mintToken, someId } from '../people.ts'
import { type RealtimeApi, realtimeProject, topicOf } from '../realtime.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(it)
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

const everybody = (table: string) => `create policy everybody on public.${table} for select using (true)`
const call = (method: string, path = '', body?: unknown, token = it.adminToken): Promise<Reply> =>
  it.call(method, `/api/v1/projects/${realtime.project.id}/realtime/tables${path}`, { token, body })
const setTable = async (table: string, body: unknown) => {
  const reply = await call('PUT', `/${encodeURIComponent(table)}`, body)
  assert.equal(reply.status, 200, reply.text)
  return reply.body
}
async function listed(): Promise<Map<string, any>> {
  const reply = await call('GET', '?limit=100')
  assert.equal(reply.status, 200, reply.text)
  return new Map(reply.body.tables.map((each: any) => [each.table ?? each.name, each]))
}
const flags = ({ cdc_enabled, rls_enabled, realtime_public }: any) => [
  cdc_enabled,
  rls_enabled,
  realtime_public,
]

/** Whether anon and service_role receive a new row. The server may reject a binding on a table that is opted out. */
let rows = 1000
async function receivesChange(table: string): Promise<boolean[]> {
  const callers = ['anon', 'service_role'] as const
  const channels = await Promise.all(
    callers.map(async as => {
      const socket = await realtime.connect({ as })
      const marker = await realtime.subscribeOn(socket, [])
      const binding = { event: '*', schema: 'public', table }
      const channel = await socket.join(topicOf(), { postgres_changes: [binding] })
      await channel.find('a word of the database', ({ event }) => event === 'system')
      return { socket, marker, channel }
    }),
  )
  const id = ++rows
  await realtime.sql(`insert into public.${table} (id) values (${id})`)
  await realtime.newChanges(...channels.map(({ marker }) => marker))
  return Promise.all(
    channels.map(async ({ socket, channel }) => {
      await socket.heartbeat()
      await socket.close()
      return channel.received().some(({ payload }) => payload.data?.new?.id === id)
    }),
  )
}

test('1 §6 rule 9: every public base table is listed, and captured from its creation on', async () => {
  const [plain, made] = [await realtime.table('id int primary key', everybody), 'made_as']
  await realtime.sql(`create table public.${made} as select 1 as id; ${everybody(made)}`)
  await it.manage('POST', `/projects/${realtime.project.id}/schema/tables`, {
    name: 'made_by_route',
    columns: [{ name: 'id', type: 'int', primary_key: true }],
  })
  await realtime.sql(everybody('made_by_route'))
  await it.manage('POST', `/projects/${realtime.project.id}/db/push`, {
    migrations: [
      {
        version: '20260101000000',
        name: 'made',
        sql: `create table public.made_by_migration (id int primary key); ${everybody('made_by_migration')}`,
      },
    ],
  })
  const tables = await listed()
  for (const table of [plain, made, 'made_by_route', 'made_by_migration']) {
    assert.deepEqual(flags(tables.get(table) ?? {}), [true, true, false], table)
    assert.deepEqual(await receivesChange(table), [true, true], table)
  }
})

test('1 §6 rule 9: views and tables of other schemas are not listed', async () => {
  await realtime.sql(
    'create schema hidden; create table hidden.away (id int); create view public.looking as select 1 as id',
  )
  const tables = await listed()
  for (const name of ['away', 'looking', 'messages', 'objects']) assert.ok(!tables.has(name), name)
})

test('1 §6 rule 9: rls_enabled is that of the table', async () => {
  const table = await realtime.table('id int primary key')
  assert.equal((await listed()).get(table).rls_enabled, true)
  await realtime.sql(`alter table public.${table} disable row level security`)
  assert.equal((await listed()).get(table).rls_enabled, false)
})

test('1 §6 rule 9: a table opted out emits no events until it is opted in again', async () => {
  const table = await realtime.table('id int primary key', everybody)
  await setTable(table, { cdc_enabled: false })
  assert.deepEqual(flags((await listed()).get(table)), [false, true, false])
  assert.deepEqual(await receivesChange(table), [false, false])
  await setTable(table, { cdc_enabled: true })
  assert.deepEqual(flags((await listed()).get(table)), [true, true, false])
  assert.deepEqual(await receivesChange(table), [true, true])
})

test('1 §6 rule 9: opting out and in also applies to existing subscribers', async () => {
  const table = await realtime.table('id int generated by default as identity primary key', everybody)
  const subscription = await realtime.subscribe('anon', { table })
  const comes = async () => {
    await realtime.sql(`insert into public.${table} default values`)
    const [changes] = await realtime.newChanges(subscription)
    return changes!.length > 0
  }
  assert.equal(await comes(), true)
  await setTable(table, { cdc_enabled: false })
  await until('changes no longer come', async () => !(await comes()))
  await setTable(table, { cdc_enabled: true })
  await until('changes come again', comes)
})

test('1 §6 rule 9: setting one field keeps the other, and both may be set at once', async () => {
  const table = await realtime.table('id int primary key')
  await setTable(table, { realtime_public: true })
  assert.deepEqual(flags((await listed()).get(table)), [true, true, true])
  await setTable(table, { cdc_enabled: false })
  assert.deepEqual(flags((await listed()).get(table)), [false, true, true])
  await setTable(table, { cdc_enabled: true, realtime_public: false })
  assert.deepEqual(flags((await listed()).get(table)), [true, true, false])
})

test('1 §6 rule 9: the settings are lost when a table is dropped and recreated', async () => {
  const table = await realtime.table('id int primary key')
  await setTable(table, { cdc_enabled: false, realtime_public: true })
  await realtime.sql(`drop table public.${table}`)
  assert.ok(!(await listed()).has(table))
  await realtime.sql(`create table public.${table} (id int primary key); ${everybody(table)}`)
  assert.deepEqual(flags((await listed()).get(table)), [true, true, false])
  assert.deepEqual(await receivesChange(table), [true, true])
})

test('1 §6 rule 9: the settings stay when a table is altered, renamed or truncated', async () => {
  const table = await realtime.table('id int primary key')
  await setTable(table, { cdc_enabled: false })
  await realtime.sql(`alter table public.${table} add column n int; truncate public.${table}`)
  assert.equal((await listed()).get(table).cdc_enabled, false)
  await realtime.sql(`alter table public.${table} rename to ${table}_renamed`)
  assert.equal((await listed()).get(`${table}_renamed`).cdc_enabled, false)
  assert.deepEqual(await receivesChange(`${table}_renamed`), [false, false])
})

test('1 §6 rule 9: a table recreated during a subscription by name is captured', async () => {
  const columns = 'id int generated by default as identity primary key'
  const table = await realtime.table(columns, everybody)
  const subscription = await realtime.subscribe('anon', { table })
  await realtime.sql(`drop table public.${table}`)
  await realtime.sql(`create table public.${table} (${columns}); ${everybody(table)}`)
  await until('changes of the new table come', async () => {
    await realtime.sql(`insert into public.${table} default values`)
    const [changes] = await realtime.newChanges(subscription)
    return changes!.length > 0
  })
})

test('1 §6 changes of a renamed table have its new name', async () => {
  const table = await realtime.table('id int generated by default as identity primary key', everybody)
  const [byName, all] = [await realtime.subscribe('anon', { table }), await realtime.subscribe('anon', {})]
  await realtime.sql(`alter table public.${table} rename to ${table}_anew`)
  await until('rows come under the new name', async () => {
    await realtime.sql(`insert into public.${table}_anew default values`)
    const [named, some] = await realtime.newChanges(byName, all)
    assert.deepEqual(named, [])
    return some!.length > 0 && some!.every(change => change.table === `${table}_anew`)
  })
})

test('1 §6 dropping the column of a filter does not affect other subscribers', async () => {
  const table = await realtime.table(
    'id int generated by default as identity primary key, region text, n int',
    everybody,
  )
  const filters = ['region=eq.a', 'region=gt.a', 'n=gt.0']
  const subscriptions = await Promise.all(
    filters.map(filter => realtime.subscribe('anon', { table, filter })),
  )
  const open = await realtime.subscribe('anon', { table })
  await realtime.sql(`alter table public.${table} drop column region`)
  await realtime.sql(`insert into public.${table} (n) values (1)`)
  const [eq, gt, other, all] = await realtime.newChanges(...subscriptions, open)
  assert.deepEqual([eq, gt], [[], []])
  assert.deepEqual([other!.length, all!.length], [1, 1])
})

test('1 §6 rule 9: a table of any name can be set', async () => {
  const name = 'An "odd" näme/with: all'
  await realtime.sql(`create table public."${name.replaceAll('"', '""')}" (id int)`)
  await setTable(name, { cdc_enabled: false })
  assert.equal((await listed()).get(name).cdc_enabled, false)
})

test('1 §6 rule 9: PUT returns the updated table', async () => {
  const table = await realtime.table('id int primary key')
  const answer = await setTable(table, { realtime_public: true })
  assert.deepEqual(flags(answer), [true, true, true])
})

test('3 §7 an unknown table is 404, an invalid body 400', async () => {
  const table = await realtime.table('id int primary key')
  for (const name of ['nothing', 'pg_class'])
    assert.equal((await call('PUT', `/${name}`, { cdc_enabled: false })).status, 404, name)
  for (const body of [{ cdc_enabled: 'yes' }, { realtime_public: 1 }, { cdc_enabled: null }, [], 'x'])
    assert.equal((await call('PUT', `/${table}`, body)).status, 400, JSON.stringify(body))
  assert.deepEqual(flags((await listed()).get(table)), [true, true, false])
  const unknown = `/projects/${someId}/realtime/tables`
  assert.equal((await it.manage('GET', unknown)).status, 404)
  assert.equal((await it.manage('PUT', `${unknown}/${table}`, { cdc_enabled: false })).status, 404)
})

test('3 §5 reading needs read, setting needs more, and project keys are rejected', async () => {
  const table = await realtime.table('id int primary key')
  const read = await mintToken(it, 'read')
  assert.equal((await call('GET', '', undefined, read.token)).status, 200)
  const denied = await call('PUT', `/${table}`, { cdc_enabled: false }, read.token)
  assert.equal(denied.status, 403, denied.text)
  assertNeedsScope(denied, '(deploy|admin)')
  for (const key of [realtime.project.service_role_key, realtime.project.anon_key]) {
    assertManagementError(await call('GET', '', undefined, key), 'unauthorized')
    assertManagementError(await call('PUT', `/${table}`, { cdc_enabled: false }, key), 'unauthorized')
  }
  assert.equal((await listed()).get(table).cdc_enabled, true)
})

test('3 §1 setting a table writes an audit entry', async () => {
  const table = await realtime.table('id int primary key')
  const reply = await call('PUT', `/${table}`, { cdc_enabled: false })
  const requestId = reply.headers.get('x-request-id')
  await until('an audit entry of the request', async () => {
    const { body } = await it.manage('GET', '/admin/audit?limit=100')
    return body.entries.some((entry: any) => entry.request_id === requestId)
  })
})

test('3 §4 the list is paginated', async () => {
  const own = await createProject(it)
  const sql = 'create table a (id int); create table b (id int); create table c (id int)'
  const version = '20260101000000'
  await it.manage('POST', `/projects/${own.id}/db/push`, { migrations: [{ version, name: 'abc', sql }] })
  const page = async (query: string) =>
    (await it.manage('GET', `/projects/${own.id}/realtime/tables${query}`)).body
  const first = await page('?limit=2')
  assert.deepEqual([first.tables.length, first.total, first.limit, first.offset], [2, 3, 2, 0])
  const second = await page('?limit=2&offset=2')
  assert.equal(second.tables.length, 1)
  const names = [...first.tables, ...second.tables].map((each: any) => each.table ?? each.name)
  assert.deepEqual(names.toSorted(), ['a', 'b', 'c'])
})
