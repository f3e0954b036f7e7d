// REST contract §1, §6 row 23 and the setting exposed_schemas: which schemas the API serves.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sleep } from '../people.ts'
import { type Ask, assertRefused, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.things (id int primary key, place text default 'public');
    insert into public.things values (1);
    create schema sales;
    grant usage on schema sales to anon, authenticated, service_role;
    create table sales.things (id int primary key, place text default 'sales');
    create table sales.orders (id int primary key, thing_id int references sales.things);
    insert into sales.things values (1);
    insert into sales.orders values (1, 1);
    grant all on all tables in schema sales to anon, authenticated, service_role;
    create function sales.where_am_i() returns text language sql stable as $$ select 'sales' $$;
    create function public.where_am_i() returns text language sql stable as $$ select 'public' $$;
    create schema hidden;
    grant usage on schema hidden to anon, authenticated, service_role;
    create table hidden.things (id int primary key, place text default 'hidden');
    grant all on all tables in schema hidden to anon, authenticated, service_role;
    `,
  )
})
after(() => it.stop())

async function expose(schemas: unknown): Promise<Reply> {
  const reply = await it.manage('PATCH', `/projects/${rows.project.id}`, {
    settings: { exposed_schemas: schemas },
  })
  // A changed setting takes effect on every node within a second.
  await sleep(1100)
  return reply
}
const reading = (schema: string, more: Ask = {}): Ask => ({ ...more, headers: { 'accept-profile': schema } })
const writing = (schema: string, more: Ask = {}): Ask => ({ ...more, headers: { 'content-profile': schema } })
const place = async (options?: Ask) => (await rows.read('things?select=place&id=eq.1', options))[0].place

test('REST contract §6 row 23: only public is exposed by default, with or without a profile header', async () => {
  assert.equal(await place(), 'public')
  assert.equal(await place(reading('public')), 'public')
  for (const schema of ['sales', 'hidden', 'nowhere', 'Public', 'public,sales'])
    for (const options of [
      reading(schema),
      reading(schema, { as: 'service_role' }),
      reading(schema, { shape: 'alias' }),
    ])
      assertRefused(await rows.get('things', options), 406, 'PGRST106')
})

test('REST contract §6 row 23: this also applies to writes and calls', async () => {
  for (const schema of ['sales', 'hidden', 'nowhere']) {
    assertRefused(await rows.post('things', { id: 5 }, writing(schema)), 406, 'PGRST106')
    assertRefused(await rows.patch('things?id=eq.1', { place: 'x' }, writing(schema)), 406, 'PGRST106')
    assertRefused(await rows.delete('things?id=eq.1', writing(schema)), 406, 'PGRST106')
    assertRefused(await rows.post('rpc/where_am_i', {}, writing(schema)), 406, 'PGRST106')
    assertRefused(await rows.get('rpc/where_am_i', reading(schema)), 406, 'PGRST106')
    assert.equal((await rows.head('things', reading(schema))).status, 406)
  }
  assert.equal(await place(), 'public')
})

test('REST contract §1: Accept-Profile applies to reads, Content-Profile to all other methods', async () => {
  const get = await rows.get('things', {
    headers: { 'accept-profile': 'public', 'content-profile': 'nowhere' },
  })
  assert.equal(get.status, 200, get.text)
  const post = await rows.post(
    'things',
    { id: 9 },
    { headers: { 'accept-profile': 'nowhere', 'content-profile': 'public' } },
  )
  assert.equal(post.status, 201, post.text)
})

test('the platform’s own schemas are never exposed', async () => {
  const platform = [
    'auth',
    'storage',
    'realtime',
    'platform',
    'pgmq',
    'extensions',
    'pg_catalog',
    'information_schema',
    'pg_toast',
  ]
  for (const schema of platform) {
    // The platform may reject the setting or ignore it.
    await it.manage('PATCH', `/projects/${rows.project.id}`, {
      settings: { exposed_schemas: ['public', schema] },
    })
  }
  await sleep(1100)
  for (const schema of platform)
    for (const table of ['users', 'objects', 'pg_class', 'tables', 'seen', 'migrations'])
      for (const as of ['anon', 'service_role'] as const)
        assertRefused(await rows.get(table, reading(schema, { as })), 406, 'PGRST106')
  assertRefused(await rows.get('rpc/jwt', reading('auth')), 406, 'PGRST106')
  for (const table of ['pg_class', 'pg_roles', 'seen', 'migrations', 'users'])
    assertRefused(await rows.get(table, { as: 'service_role' }), 404, 'PGRST205')
  await expose(['public'])
})

test('Issue: exposed_schemas exposes a schema, and its first entry is the default', async () => {
  const reply = await expose(['public', 'sales'])
  assert.equal(reply.status, 200, reply.text)
  assert.equal(await place(), 'public')
  assert.equal(await place(reading('sales')), 'sales')
  assert.equal(await place(reading('sales', { shape: 'alias' })), 'sales')
  assert.equal(await place(reading('public')), 'public')
  assertRefused(await rows.get('things', reading('hidden')), 406, 'PGRST106')
  assertRefused(await rows.get('orders'), 404, 'PGRST205')
  assert.deepEqual(await rows.read('orders?select=id,things(place)', reading('sales')), [
    { id: 1, things: { place: 'sales' } },
  ])
})

test('Issue: writes and calls work in another exposed schema', async () => {
  await expose(['public', 'sales'])
  const inserted = await rows.post('things', { id: 2 }, writing('sales', { prefer: 'return=representation' }))
  assert.equal(inserted.status, 201, inserted.text)
  assert.deepEqual(inserted.body, [{ id: 2, place: 'sales' }])
  assert.equal((await rows.patch('things?id=eq.2', { place: 'moved' }, writing('sales'))).status, 204)
  assert.deepEqual(await rows.read('things?id=eq.2', reading('sales')), [{ id: 2, place: 'moved' }])
  assert.equal((await rows.delete('things?id=eq.2', writing('sales'))).status, 204)
  assert.equal((await rows.post('rpc/where_am_i', {}, writing('sales'))).body, 'sales')
  assert.equal(await rows.read('rpc/where_am_i', reading('sales')), 'sales')
  assert.equal((await rows.post('rpc/where_am_i', {})).body, 'public')
})

test('Issue: the order of the setting determines the default, and public can be omitted', async () => {
  await expose(['sales', 'public'])
  assert.equal(await place(), 'sales')
  assert.equal(await place(reading('public')), 'public')
  assert.equal((await rows.post('rpc/where_am_i', {})).body, 'sales')
  await expose(['sales'])
  assert.equal(await place(), 'sales')
  assertRefused(await rows.get('things', reading('public')), 406, 'PGRST106')
  await expose(['public'])
  assert.equal(await place(), 'public')
  assertRefused(await rows.get('things', reading('sales')), 406, 'PGRST106')
})

test('Issue: the setting can be reset', async () => {
  await expose(['sales'])
  assert.equal((await expose(null)).status, 200)
  assert.equal(await place(), 'public')
})

test('Issue: a schema that is exposed before it exists is served once it exists', async () => {
  await expose(['public', 'later'])
  assert.equal(await place(), 'public')
  await rows.ddl(`
    create schema later; grant usage on schema later to anon;
    create table later.things (id int primary key, place text); insert into later.things values (1, 'later'); grant select on later.things to anon;
    create policy everybody on later.things using (true)`)
  assert.equal(await place(reading('later')), 'later')
  await expose(['public'])
})

test('Issue: a role without USAGE on an exposed schema gets no information about it', async () => {
  await rows.ddl(`
    create schema closed; create table closed.things (id int primary key); insert into closed.things values (42);
    grant select on closed.things to anon, authenticated`)
  await expose(['public', 'closed'])
  const reply = await rows.get('things', reading('closed'))
  assert.ok([403, 404].includes(reply.status), `${reply.status} ${reply.text}`)
  assert.doesNotMatch(reply.text, /42,|"id":42/)
  await expose(['public'])
})
