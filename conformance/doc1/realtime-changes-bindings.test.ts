// 1 §6 subscription options and Realtime contract §4–§5: several bindings of one channel, their ids, all tables, and
// column lists.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newOf, type RealtimeApi, realtimeProject, summary, topicOf } from '../realtime.ts'
import { shapes } from '../service.ts'
import { ada } from '../storage.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

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

test('Realtime contract §4: the reply echoes each requested binding in order', async () => {
  const table = await realtime.table('id int primary key, region text', everybody)
  const asked = [
    { event: 'INSERT', schema: 'public', table },
    { event: '*', schema: 'public' },
    { event: 'UPDATE', schema: 'public', table, filter: 'id=eq.1' },
    { event: 'DELETE', schema: 'public', table, filter: 'id=in.(1,2)' },
    { event: '*', schema: '*' },
    { event: 'INSERT', schema: 'public', table: 'no_such_table' },
  ]
  for (const version of ['1.0.0', '2.0.0'] as const) {
    const socket = await realtime.connect({ version })
    const { response } = await socket.join(topicOf(), { postgres_changes: asked })
    const entries: any[] = response.postgres_changes
    assert.deepEqual(
      entries.map(({ event, schema, table, filter }) => ({ event, schema, table, filter })),
      asked.map(binding => ({ table: undefined, filter: undefined, ...binding })),
    )
    const ids = entries.map(({ id }) => id)
    for (const id of ids) assert.ok(typeof id === 'string' ? id !== '' : Number.isInteger(id) && id !== 0)
    assert.equal(new Set(ids).size, ids.length, `ids are unique: ${ids}`)
  }
})

test('Realtime contract §5: one frame per channel and change lists all matching bindings', async () => {
  const table = await realtime.table('id int primary key, region text', everybody)
  const subscription = await realtime.subscribe('anon', [
    { event: 'INSERT', table },
    { event: '*', table },
    { event: '*', table, filter: 'id=eq.1' },
    { event: 'UPDATE', table },
    { event: 'INSERT' },
    { event: '*', table, filter: 'region=eq.x' },
  ])
  const [inserts, all, first, updates, anyTable, byRegion] = subscription.ids
  await realtime.sql(`insert into public.${table} values (1, 'x')`)
  await realtime.sql(`insert into public.${table} values (2, 'y')`)
  await realtime.sql(`update public.${table} set region = 'x' where id = 2`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(
    changes!.map(({ ids }) => new Set(ids)),
    [
      [inserts, all, first, anyTable, byRegion],
      [inserts, all, anyTable],
      [all, updates, byRegion],
    ].map(ids => new Set(ids)),
  )
})

test('Realtime contract §5: a change that matches no binding is not sent', async () => {
  const [one, two] = [
    await realtime.table('id int primary key', everybody),
    await realtime.table('id int primary key', everybody),
  ]
  const subscription = await realtime.subscribe('anon', [
    { event: 'INSERT', table: one, filter: 'id=gt.5' },
    { event: 'DELETE', table: two },
  ])
  await realtime.sql(`insert into public.${one} values (1), (6); insert into public.${two} values (1);
    delete from public.${one}; delete from public.${two}`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(
    changes!.map(({ table, eventType, ids }) => [table, eventType, ids]),
    [
      [one, 'INSERT', [subscription.ids[0]]],
      [two, 'DELETE', [subscription.ids[1]]],
    ],
  )
})

test('Realtime contract §5: channels with equal bindings each get the change, on one socket and on several', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const socket = await realtime.connect()
  const subscriptions = [
    await realtime.subscribeOn(socket, { table }),
    await realtime.subscribeOn(socket, { table }),
    await realtime.subscribe('anon', { table }, { version: '1.0.0' }),
    await realtime.subscribe(ada, { table }, { shape: 'alias' }),
  ]
  await realtime.sql(`insert into public.${table} values (1)`)
  const newChanges = await realtime.newChanges(...subscriptions)
  for (const [i, changes] of newChanges.entries()) {
    assert.deepEqual(newOf(changes), [1])
    assert.deepEqual(changes[0]!.ids, subscriptions[i]!.ids)
  }
})

test('Realtime contract §5: without a table a binding covers all tables of the schema, each with its own policies', async () => {
  const open = await realtime.table('id int primary key', everybody)
  const shut = await realtime.table('id int primary key')
  const [anon, service] = [await realtime.subscribe('anon', {}), await realtime.subscribe('service_role', {})]
  await realtime.sql(`insert into public.${open} values (1); insert into public.${shut} values (2)`)
  const [anons, services] = await realtime.newChanges(anon, service)
  assert.deepEqual(
    anons!.map(({ table, new: now }) => [table, now]),
    [[open, { id: 1 }]],
  )
  assert.deepEqual(
    services!.map(({ table, new: now }) => [table, now]),
    [
      [open, { id: 1 }],
      [shut, { id: 2 }],
    ],
  )
})

for (const shape of shapes)
  test(`Realtime contract §5: the schema * covers everything visible (${shape} address)`, async () => {
    const table = await realtime.table('id int primary key', everybody)
    const subscription = await realtime.subscribe('anon', { schema: '*' }, { shape })
    await realtime.sql(`insert into public.${table} values (1)`)
    const [changes] = await realtime.newChanges(subscription)
    assert.deepEqual(
      changes!.map(({ schema, table, new: now }) => [schema, table, now]),
      [['public', table, { id: 1 }]],
    )
  })

test('1 §6 rule 9: a table created during a subscription to the schema is captured', async () => {
  const subscription = await realtime.subscribe('anon', {})
  const table = await realtime.table('id int generated always as identity primary key', everybody)
  await until('a row of the new table comes', async () => {
    await realtime.sql(`insert into public.${table} default values`)
    const [changes] = await realtime.newChanges(subscription)
    return changes!.some(change => change.table === table)
  })
})

test('1 §6 a table of the same name in another schema is not covered', async () => {
  const table = await realtime.table('id int primary key', everybody)
  await realtime.sql(`create schema if not exists aside; create table aside.${table} (id int primary key)`)
  const [subscription, all] = [
    await realtime.subscribe('service_role', { table }),
    await realtime.subscribe('service_role', { schema: 'public' }),
  ]
  await realtime.sql(`insert into aside.${table} values (1); insert into public.${table} values (2)`)
  const newChanges = await realtime.newChanges(subscription, all)
  for (const changes of newChanges) assert.deepEqual(newOf(changes), [2])
})

test('Realtime contract §5: a column list limits the columns sent, and always includes the key', async () => {
  const table = await realtime.table('id int primary key, a text, b text, c text', everybody)
  const [some, none] = [
    await realtime.subscribe('anon', { table, select: ['a', 'b'] }),
    await realtime.subscribe('service_role', { table, select: ['c'] }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'a1', 'b1', 'c1')`)
  await realtime.sql(`update public.${table} set a = 'a2', c = 'c2'`)
  const [somes, nones] = await realtime.newChanges(some, none)
  assert.deepEqual(somes!.map(summary), [
    ['INSERT', { id: 1, a: 'a1', b: 'b1' }, null],
    ['UPDATE', { id: 1, a: 'a2', b: 'b1' }, { id: 1, a: 'a1', b: 'b1' }],
  ])
  for (const { text } of somes!) assert.doesNotMatch(text, /c[12]"/)
  assert.deepEqual(nones!.map(summary), [
    ['INSERT', { id: 1, c: 'c1' }, null],
    ['UPDATE', { id: 1, c: 'c2' }, { id: 1, c: 'c1' }],
  ])
})

test('Realtime contract §5: different column lists get different frames, also with unusual names', async () => {
  const table = await realtime.table('id int primary key, "a,b" int, a int, b int', everybody)
  const subscription = await realtime.subscribe('anon', [
    { table, select: ['a,b'] },
    { table, select: ['a', 'b'] },
  ])
  await realtime.sql(`insert into public.${table} values (1, 2, 3, 4)`)
  const [changes] = await realtime.newChanges(subscription)
  const [whole, parts] = subscription.ids
  assert.deepEqual(
    changes!.map(({ ids, new: now }) => [ids, now]),
    [
      [[whole], { id: 1, 'a,b': 2 }],
      [[parts], { id: 1, a: 3, b: 4 }],
    ],
  )
})

test('Realtime contract §5: a filter may use columns outside of the column list', async () => {
  const table = await realtime.table('id int primary key, a text, b text', everybody)
  const subscription = await realtime.subscribe('anon', { table, select: ['a'], filter: 'b=eq.yes' })
  await realtime.sql(`insert into public.${table} values (1, 'x', 'yes'), (2, 'y', 'no')`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(changes!.map(summary), [['INSERT', { id: 1, a: 'x' }, null]])
})

test('Realtime contract §3: a left channel gets no more changes, the others do', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const socket = await realtime.connect()
  const [left, stays] = [
    await realtime.subscribeOn(socket, { table }),
    await realtime.subscribeOn(socket, { table }),
  ]
  await left.leave()
  const before = left.received().length
  await realtime.sql(`insert into public.${table} values (1)`)
  const [changes] = await realtime.newChanges(stays)
  assert.deepEqual(newOf(changes!), [1])
  await socket.heartbeat()
  const late = left
    .received()
    .slice(before)
    .map(({ event }) => event)
  assert.deepEqual(
    late.filter(event => event !== 'phx_close'),
    [],
  )
})
