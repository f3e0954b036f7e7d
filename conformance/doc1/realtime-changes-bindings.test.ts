// 1 §6 subscription options and Realtime contract §4–§5: several wishes of one channel, their ids, all tables, and
// lists of columns.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newOf, type RealtimeApi, realtimeProject, told, topicOf } from '../realtime.ts'
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

test('Realtime contract §4: the reply has one entry per wish, in their order, each as it was asked for', async () => {
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
      asked.map(wish => ({ table: undefined, filter: undefined, ...wish })),
    )
    const ids = entries.map(({ id }) => id)
    for (const id of ids) assert.ok(typeof id === 'string' ? id !== '' : Number.isInteger(id) && id !== 0)
    assert.equal(new Set(ids).size, ids.length, `ids are unique: ${ids}`)
  }
})

test('Realtime contract §5: one frame per channel and change lists all wishes that match', async () => {
  const table = await realtime.table('id int primary key, region text', everybody)
  const listener = await realtime.listen('anon', [
    { event: 'INSERT', table },
    { event: '*', table },
    { event: '*', table, filter: 'id=eq.1' },
    { event: 'UPDATE', table },
    { event: 'INSERT' },
    { event: '*', table, filter: 'region=eq.x' },
  ])
  const [inserts, all, first, updates, anyTable, byRegion] = listener.ids
  await realtime.sql(`insert into public.${table} values (1, 'x')`)
  await realtime.sql(`insert into public.${table} values (2, 'y')`)
  await realtime.sql(`update public.${table} set region = 'x' where id = 2`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(
    changes!.map(({ ids }) => new Set(ids)),
    [
      [inserts, all, first, anyTable, byRegion],
      [inserts, all, anyTable],
      [all, updates, byRegion],
    ].map(ids => new Set(ids)),
  )
})

test('Realtime contract §5: what matches no wish of a channel does not come', async () => {
  const [one, two] = [
    await realtime.table('id int primary key', everybody),
    await realtime.table('id int primary key', everybody),
  ]
  const listener = await realtime.listen('anon', [
    { event: 'INSERT', table: one, filter: 'id=gt.5' },
    { event: 'DELETE', table: two },
  ])
  await realtime.sql(`insert into public.${one} values (1), (6); insert into public.${two} values (1);
    delete from public.${one}; delete from public.${two}`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(
    changes!.map(({ table, eventType, ids }) => [table, eventType, ids]),
    [
      [one, 'INSERT', [listener.ids[0]]],
      [two, 'DELETE', [listener.ids[1]]],
    ],
  )
})

test('Realtime contract §5: channels with equal wishes each get their own, on one socket and on several', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const socket = await realtime.connect()
  const listeners = [
    await realtime.listenOn(socket, { table }),
    await realtime.listenOn(socket, { table }),
    await realtime.listen('anon', { table }, { version: '1.0.0' }),
    await realtime.listen(ada, { table }, { shape: 'alias' }),
  ]
  await realtime.sql(`insert into public.${table} values (1)`)
  const seen = await realtime.seen(...listeners)
  for (const [i, changes] of seen.entries()) {
    assert.deepEqual(newOf(changes), [1])
    assert.deepEqual(changes[0]!.ids, listeners[i]!.ids)
  }
})

test('Realtime contract §5: without a table all tables of the schema are meant, each behind its own policies', async () => {
  const open = await realtime.table('id int primary key', everybody)
  const shut = await realtime.table('id int primary key')
  const [anon, service] = [await realtime.listen('anon', {}), await realtime.listen('service_role', {})]
  await realtime.sql(`insert into public.${open} values (1); insert into public.${shut} values (2)`)
  const [anons, services] = await realtime.seen(anon, service)
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
  test(`Realtime contract §5: the schema * is everything visible (${shape} address)`, async () => {
    const table = await realtime.table('id int primary key', everybody)
    const listener = await realtime.listen('anon', { schema: '*' }, { shape })
    await realtime.sql(`insert into public.${table} values (1)`)
    const [changes] = await realtime.seen(listener)
    assert.deepEqual(
      changes!.map(({ schema, table, new: now }) => [schema, table, now]),
      [['public', table, { id: 1 }]],
    )
  })

test('1 §6 rule 9: a table made while somebody listens to the schema is heard of', async () => {
  const listener = await realtime.listen('anon', {})
  const table = await realtime.table('id int generated always as identity primary key', everybody)
  await until('a row of the new table comes', async () => {
    await realtime.sql(`insert into public.${table} default values`)
    const [changes] = await realtime.seen(listener)
    return changes!.some(change => change.table === table)
  })
})

test('1 §6 another schema’s table of the same name is not meant', async () => {
  const table = await realtime.table('id int primary key', everybody)
  await realtime.sql(`create schema if not exists aside; create table aside.${table} (id int primary key)`)
  const [listener, all] = [
    await realtime.listen('service_role', { table }),
    await realtime.listen('service_role', { schema: 'public' }),
  ]
  await realtime.sql(`insert into aside.${table} values (1); insert into public.${table} values (2)`)
  const seen = await realtime.seen(listener, all)
  for (const changes of seen) assert.deepEqual(newOf(changes), [2])
})

test('Realtime contract §5: a list of columns limits what is told; the key is always kept', async () => {
  const table = await realtime.table('id int primary key, a text, b text, c text', everybody)
  const [some, none] = [
    await realtime.listen('anon', { table, select: ['a', 'b'] }),
    await realtime.listen('service_role', { table, select: ['c'] }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'a1', 'b1', 'c1')`)
  await realtime.sql(`update public.${table} set a = 'a2', c = 'c2'`)
  const [somes, nones] = await realtime.seen(some, none)
  assert.deepEqual(somes!.map(told), [
    ['INSERT', { id: 1, a: 'a1', b: 'b1' }, null],
    ['UPDATE', { id: 1, a: 'a2', b: 'b1' }, { id: 1, a: 'a1', b: 'b1' }],
  ])
  for (const { text } of somes!) assert.doesNotMatch(text, /c[12]"/)
  assert.deepEqual(nones!.map(told), [
    ['INSERT', { id: 1, c: 'c1' }, null],
    ['UPDATE', { id: 1, c: 'c2' }, { id: 1, c: 'c1' }],
  ])
})

test('Realtime contract §5: lists of columns are told apart, whatever the names', async () => {
  const table = await realtime.table('id int primary key, "a,b" int, a int, b int', everybody)
  const listener = await realtime.listen('anon', [
    { table, select: ['a,b'] },
    { table, select: ['a', 'b'] },
  ])
  await realtime.sql(`insert into public.${table} values (1, 2, 3, 4)`)
  const [changes] = await realtime.seen(listener)
  const [whole, parts] = listener.ids
  assert.deepEqual(
    changes!.map(({ ids, new: now }) => [ids, now]),
    [
      [[whole], { id: 1, 'a,b': 2 }],
      [[parts], { id: 1, a: 3, b: 4 }],
    ],
  )
})

test('Realtime contract §5: a list of columns does not narrow what a filter may ask', async () => {
  const table = await realtime.table('id int primary key, a text, b text', everybody)
  const listener = await realtime.listen('anon', { table, select: ['a'], filter: 'b=eq.yes' })
  await realtime.sql(`insert into public.${table} values (1, 'x', 'yes'), (2, 'y', 'no')`)
  const [changes] = await realtime.seen(listener)
  assert.deepEqual(changes!.map(told), [['INSERT', { id: 1, a: 'x' }, null]])
})

test('Realtime contract §3: a channel that was left gets no more changes, others go on', async () => {
  const table = await realtime.table('id int primary key', everybody)
  const socket = await realtime.connect()
  const [left, stays] = [
    await realtime.listenOn(socket, { table }),
    await realtime.listenOn(socket, { table }),
  ]
  await left.leave()
  const before = left.received().length
  await realtime.sql(`insert into public.${table} values (1)`)
  const [changes] = await realtime.seen(stays)
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
