// 1 §6 rule 8 and §8: rows of more than about 7900 bytes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Change, newOf, type RealtimeApi, realtimeProject } from '../realtime.ts'
import { ada, bob } from '../storage.ts'
import { type Target, target } from '../target.ts'

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
const mine = (table: string) => `create policy mine on public.${table} for select using (owner = auth.uid())`
const large = `repeat('x', 9000)`
const tooLarge = ['payload_too_large']
const outline = ({ eventType, new: now, old, errors }: Change) => [eventType, now, old, errors]

test('1 §8 a row below the limit is sent completely, one above it as its key', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const [anon, service] = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(
    `insert into public.${table} values (1, repeat('x', 7000)), (2, repeat('x', 8200)), (3, repeat('漢', 2900)), (4, repeat('y', 300000)), (5, 'z')`,
  )
  for (const changes of await realtime.newChanges(anon, service)) {
    assert.deepEqual(newOf(changes), [1, 2, 3, 4, 5])
    assert.deepEqual(
      changes.map(({ errors }) => errors),
      [null, tooLarge, tooLarge, tooLarge, null],
    )
    assert.equal(changes[0]!.new.body.length, 7000)
    for (const { new: now, text } of changes.slice(1, 4)) {
      assert.deepEqual(Object.keys(now), ['id'])
      assert.ok(text.length < 4000, `${text.length} bytes`)
    }
  }
})

test('1 §6 rule 8: each kind of oversized event has only key columns', async () => {
  const table = await realtime.table('a int, b text, body text, primary key (a, b)', everybody)
  const [anon, service] = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'k', ${large})`)
  await realtime.sql(`update public.${table} set body = body || 'y'`)
  await realtime.sql(`delete from public.${table}`)
  const key = { a: 1, b: 'k' }
  const [anons, services] = await realtime.newChanges(anon, service)
  for (const [inserted, updated, deleted] of [anons!, services!]) {
    assert.deepEqual(outline(inserted!), ['INSERT', key, null, tooLarge])
    assert.deepEqual(outline(updated!), ['UPDATE', key, key, tooLarge])
    assert.deepEqual([deleted!.eventType, deleted!.new, deleted!.old], ['DELETE', null, key])
  }
  assert.deepEqual(services![2]!.errors, tooLarge)
})

test('1 §6 rule 8: an update to or from a large row sends only keys', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const service = await realtime.subscribe('service_role', { event: 'UPDATE', table })
  await realtime.sql(`insert into public.${table} values (1, 'small')`)
  await realtime.sql(`update public.${table} set body = ${large}`)
  await realtime.sql(`update public.${table} set body = 'small'`)
  const [[grown, shrunk] = []] = await realtime.newChanges(service)
  assert.deepEqual([grown!.new, grown!.errors], [{ id: 1 }, tooLarge])
  assert.deepEqual([shrunk!.old, shrunk!.errors], [{ id: 1 }, tooLarge])
})

test('1 §6 rule 8: policies are checked on both rows of an oversized change', async () => {
  const table = await realtime.table('id int primary key, owner uuid, body text', mine)
  const [anon, adas, bobs] = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe(bob, { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', ${large})`)
  const first = await realtime.newChanges(anon, adas, bobs)
  assert.deepEqual(
    first.map(changes => changes.map(outline)),
    [[], [['INSERT', { id: 1 }, null, tooLarge]], []],
  )
  await realtime.sql(`update public.${table} set owner = '${bob.sub}'`)
  const [anons, , theirs] = await realtime.newChanges(anon, adas, bobs)
  assert.deepEqual(anons, [])
  assert.deepEqual(theirs!.map(outline), [['UPDATE', { id: 1 }, null, tooLarge]])
})

test('1 §6 rule 8: a policy on the large column is checked with its whole value', async () => {
  const table = await realtime.table(
    'id int primary key, body text',
    name =>
      `create policy ends on public.${name} for select using (body like '%end of ' || (auth.jwt() ->> 'email'))`,
  )
  const [adas, bobs] = [await realtime.subscribe(ada, { table }), await realtime.subscribe(bob, { table })]
  await realtime.sql(
    `insert into public.${table} values (1, ${large} || 'end of ${ada.email}'), (2, ${large} || 'end of ${bob.email}')`,
  )
  const newChanges = await realtime.newChanges(adas, bobs)
  assert.deepEqual(
    newChanges.map(changes => newOf(changes)),
    [[1], [2]],
  )
})

test('1 §6 rule 8: policies are checked for a row of several megabytes', async () => {
  const table = await realtime.table('id int primary key, owner uuid, body text', mine)
  const [adas, bobs, service] = [
    await realtime.subscribe(ada, { table }),
    await realtime.subscribe(bob, { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(
    `insert into public.${table} values (1, '${ada.sub}', repeat('x', 2000000)), (2, '${bob.sub}', 'small')`,
  )
  const [ofAda, ofBob, ofAll] = await realtime.newChanges(adas, bobs, service)
  assert.deepEqual(newOf(ofBob!), [2])
  assert.deepEqual(ofAll!.map(outline), [
    ['INSERT', { id: 1 }, null, tooLarge],
    ['INSERT', { id: 2, owner: bob.sub, body: 'small' }, null, null],
  ])
  assert.deepEqual(ofAda!.map(outline), [['INSERT', { id: 1 }, null, tooLarge]])
  await realtime.sql(`update public.${table} set owner = '${bob.sub}' where id = 1`)
  const [noMore, now, both] = await realtime.newChanges(adas, bobs, service)
  assert.deepEqual(noMore, [])
  assert.deepEqual(now!.map(outline), [['UPDATE', { id: 1 }, null, tooLarge]])
  assert.deepEqual(both!.map(outline), [['UPDATE', { id: 1 }, { id: 1 }, tooLarge]])
})

test('1 §6 rule 8: a row of several megabytes is looked up by its key, of any type', async () => {
  await realtime.sql(
    `create type mood as enum ('glad', 'sad'); create domain code as text check (value <> '')`,
  )
  const key = `name code, felt mood, at timestamptz, list int[], few numeric(6, 2)`
  const table = await realtime.table(
    `${key}, owner uuid, body text, primary key (felt, name, at, list, few)`,
    mine,
  )
  const [adas, bobs] = [await realtime.subscribe(ada, { table }), await realtime.subscribe(bob, { table })]
  const row = (name: string, felt: string, owner: string) =>
    `('${name}', '${felt}', '2026-01-02 03:04:05+00', '{1,2}', 1.5, '${owner}', repeat('x', 1500000))`
  await realtime.sql(
    `insert into public.${table} values ${row('"a, b"', 'glad', ada.sub)}, ${row('"a, b"', 'sad', bob.sub)}`,
  )
  const newChanges = await realtime.newChanges(adas, bobs)
  assert.deepEqual(
    newChanges.map(changes => changes.map(({ new: { name, felt }, errors }) => [name, felt, errors])),
    [[['"a, b"', 'glad', tooLarge]], [['"a, b"', 'sad', tooLarge]]],
  )
})

test('1 §6 rule 8: for a row of several megabytes the current row decides, also with an unusual table name', async () => {
  await realtime.sql(`create table public.live (id int primary key, owner uuid, body text); ${mine('live')}`)
  const [adas, service] = [
    await realtime.subscribe(ada, { table: 'live' }),
    await realtime.subscribe('service_role', { table: 'live' }),
  ]
  await realtime.sql(`insert into public.live values (1, '${bob.sub}', repeat('x', 1500000)), (2, '${ada.sub}', 'small'),
      (3, '${ada.sub}', repeat('x', 1500000)), (4, '${ada.sub}', repeat('x', 1500000));
    delete from public.live where id = 4`)
  const [ofAda, ofAll] = await realtime.newChanges(adas, service)
  assert.deepEqual(
    ofAda!.map(({ eventType, new: now, old }) => [eventType, (now ?? old).id]),
    [
      ['INSERT', 2],
      ['INSERT', 3],
      ['DELETE', 4],
    ],
  )
  assert.deepEqual(newOf(ofAll!.filter(({ eventType }) => eventType === 'INSERT')), [1, 2, 3, 4])
})

test('1 §6 rule 8: a filter on a key column receives an oversized change, a filter on another column does not', async () => {
  const table = await realtime.table('id int primary key, region text, body text', everybody)
  const binding = (filter: string) => ({ event: 'INSERT', table, filter })
  const subscriptions = [
    await realtime.subscribe('anon', binding('id=eq.1')),
    await realtime.subscribe('anon', binding('id=eq.2')),
    await realtime.subscribe('anon', binding('region=eq.a')),
    await realtime.subscribe('anon', binding('id=eq.1,region=eq.a')),
    await realtime.subscribe('service_role', binding('region=eq.a')),
    await realtime.subscribe('service_role', binding('id=eq.1')),
    await realtime.subscribe('anon', binding('region=gte.a')),
    await realtime.subscribe('anon', binding('region=neq.z')),
    await realtime.subscribe('service_role', binding('body=like.%')),
    await realtime.subscribe('anon', binding('id=lt.2')),
  ]
  await realtime.sql(`insert into public.${table} values (1, 'a', ${large}), (3, 'a', 'small')`)
  const newChanges = await realtime.newChanges(...subscriptions)
  assert.deepEqual(
    newChanges.map(changes => newOf(changes)),
    [[1], [], [3], [], [3], [1], [3], [3], [3], [1]],
  )
})

test('1 §6 rule 8: filters on the key of a row of several megabytes work with every operator', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const [anon, service] = [
    await realtime.subscribe('anon', { event: 'DELETE', table, filter: 'id=gt.1' }),
    await realtime.subscribe('service_role', { table, filter: 'id=gt.1' }),
  ]
  await realtime.sql(`insert into public.${table} select id, repeat('x', 2000000) from generate_series(1, 2) id;
    delete from public.${table}`)
  const [anons, services] = await realtime.newChanges(anon, service)
  const deleted = ['DELETE', null, { id: 2 }, tooLarge]
  assert.deepEqual(anons!.map(outline), [deleted])
  assert.deepEqual(services!.map(outline), [['INSERT', { id: 2 }, null, tooLarge], deleted])
})

test('1 §6 rules 8 and 10: a row whose key cannot be read is not sent, and a loss is reported', async () => {
  const table = await realtime.table('id int primary key, body text', everybody)
  const service = await realtime.subscribe('service_role', { table })
  await realtime.sql('revoke usage on schema public from authenticated, public')
  await realtime.sql(`insert into public.${table} values (1, ${large})`)
  const [changes] = await realtime.newChanges(service)
  await realtime.sql('grant usage on schema public to authenticated')
  if (changes!.length === 0) await service.system('error')
  else assert.deepEqual(changes!.map(outline), [['INSERT', { id: 1 }, null, tooLarge]])
})

test('1 §6 rule 8: without a key only service_role receives an oversized change', async () => {
  const table = await realtime.table('a int, body text', everybody)
  const [anon, adas, service] = [
    await realtime.subscribe('anon', { event: 'INSERT', table }),
    await realtime.subscribe(ada, { event: 'INSERT', table }),
    await realtime.subscribe('service_role', { event: 'INSERT', table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, ${large}), (2, 'small')`)
  const [anons, users, services] = await realtime.newChanges(anon, adas, service)
  for (const changes of [anons, users]) assert.deepEqual(newOf(changes!, 'a'), [2])
  assert.deepEqual(
    services!.map(({ errors }) => errors),
    [tooLarge, null],
  )
  assert.deepEqual(services![0]!.new ?? {}, {})
})

test('1 §6 rule 8: an oversized change of a table without RLS reaches only service_role', async () => {
  const table = await realtime.table(
    'id int primary key, body text',
    name => `alter table public.${name} disable row level security`,
  )
  const [anon, service] = [
    await realtime.subscribe('anon', { table }),
    await realtime.subscribe('service_role', { table }),
  ]
  await realtime.sql(`insert into public.${table} values (1, ${large})`)
  const [anons, services] = await realtime.newChanges(anon, service)
  assert.deepEqual(anons, [])
  assert.deepEqual(services!.map(outline), [['INSERT', { id: 1 }, null, tooLarge]])
})
