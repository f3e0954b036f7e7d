// Schema changes while a project is served: every node uses the new schema at once, and no request uses an outdated
// one.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { startOwnServer } from './own-server.ts'

let first: TestPlatform
let second: TestPlatform
let project: CreatedProject

before(async () => {
  const settings = { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_RATE_LIMIT_ANON: '0' }
  first = await startPlatform({ settings })
  second = await startPlatform({ settings, beside: first })
  project = await first.createProject()
})
after(async () => {
  await second?.stop()
  await first?.stop()
})

const rows = (
  platform: TestPlatform,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Reply> =>
  platform.call(method, `/v1/rest/${project.id}/${path}`, {
    apikey: project.service_role_key,
    body,
    headers,
  })
const get = (platform: TestPlatform, path: string) => rows(platform, 'GET', path)

async function ddl(text: string): Promise<void> {
  const { status, body } = await rows(first, 'POST', 'rpc/exec_sql', { sql: text })
  assert.equal(status, 200, JSON.stringify(body))
}

const version = async () => {
  const ref = await first.refOf(project.id)
  const [row] = await first.asSuperuser(ref, session =>
    session.rows<{ version: string }>(sql`select max(version) as version from platform.catalog_version`),
  )
  return Number(row!.version)
}

test('schema changes: new tables, columns, functions and relationships are served by every node at once', async () => {
  for (const node of [first, second]) assert.equal((await get(node, 'later')).status, 404)
  await ddl('create table later (id int primary key, label text); insert into later values (1, $$one$$)')
  for (const node of [second, first])
    assert.deepEqual((await get(node, 'later')).body, [{ id: 1, label: 'one' }])

  for (const node of [first, second]) assert.equal((await get(node, 'later?select=extra')).status, 400)
  await ddl('alter table later add column extra int default 5')
  for (const node of [second, first])
    assert.deepEqual((await get(node, 'later?select=extra')).body, [{ extra: 5 }])

  for (const node of [first, second])
    assert.equal((await rows(node, 'POST', 'rpc/double', { n: 2 })).status, 404)
  await ddl('create function double(n int) returns int language sql immutable as $$ select n * 2 $$')
  for (const node of [second, first]) assert.equal((await rows(node, 'POST', 'rpc/double', { n: 2 })).body, 4)

  for (const node of [first, second]) assert.equal((await get(node, 'later?select=notes(*)')).status, 400)
  await ddl('create table notes (id int primary key, later_id int references later)')
  for (const node of [second, first])
    assert.deepEqual((await get(node, 'later?select=notes(*)')).body, [{ notes: [] }])
})

test('schema changes: a renamed column is rejected with a hint, and a dropped table is 404', async () => {
  await ddl('create table moving (id int primary key, label text); insert into moving values (1, $$x$$)')
  for (const node of [first, second])
    for (let run = 0; run < 6; run++) assert.equal((await get(node, 'moving?id=eq.1')).body.length, 1)
  await ddl('alter table moving rename column label to labels')
  for (const node of [second, first]) {
    const { status, body } = await get(node, 'moving?select=label&id=eq.1')
    assert.deepEqual([status, body.code], [400, '42703'])
    assert.match(body.hint, /labels/)
    assert.deepEqual((await get(node, 'moving?id=eq.1')).body, [{ id: 1, labels: 'x' }])
  }
  await ddl('drop table moving')
  for (const node of [second, first]) assert.equal((await get(node, 'moving?id=eq.1')).status, 404)
})

test('schema changes: a filter uses the new type of its column', async () => {
  await ddl("create table days (id int primary key, at date); insert into days values (1, '2024-01-01')")
  const atNoon = 'days?at=eq.2024-01-01T12:00:00Z&select=id'
  // Repeated until the statement is prepared on the shared connections.
  for (const node of [first, second])
    for (let run = 0; run < 8; run++) assert.deepEqual((await get(node, atNoon)).body, [{ id: 1 }])
  await ddl("alter table days alter column at type timestamptz using at::timestamptz at time zone 'UTC'")
  for (const node of [second, first]) assert.deepEqual((await get(node, atNoon)).body, [])
})

test('schema changes: a write during a type change is stored with the old or the new type, never truncated', async () => {
  await ddl('create table cut (id int generated always as identity, at date)')
  let isDone = false
  const seen: Record<string, number> = {}
  const writer = async (node: TestPlatform) => {
    while (!isDone) {
      const written = await rows(
        node,
        'POST',
        'cut?select=at',
        { at: '2024-01-01T10:00:00Z' },
        {
          prefer: 'return=representation',
        },
      )
      assert.equal(written.status, 201, JSON.stringify(written.body))
      const [{ at }] = written.body
      seen[at] = (seen[at] ?? 0) + 1
    }
  }
  const writers = [writer(first), writer(second), writer(second)]
  for (let round = 0; round < 10; round++) {
    await ddl(`alter table cut alter column at type timestamptz using at::timestamp at time zone 'UTC'`)
    await sleep(20)
    await ddl(`alter table cut alter column at type date using (at at time zone 'UTC')::date`)
    await sleep(20)
  }
  isDone = true
  await Promise.all(writers)
  assert.deepEqual(
    Object.keys(seen).sort(),
    ['2024-01-01', '2024-01-01T10:00:00+00:00'],
    JSON.stringify(seen),
  )
})

test('schema changes: rows, temporary tables and rolled back changes do not change the catalog version', async () => {
  await ddl('create table still (id int primary key)')
  const before = await version()
  await rows(first, 'POST', 'still', { id: 1 })
  await ddl('create temporary table passing (id int); drop table passing')
  await ddl('begin; create table never (id int); rollback')
  assert.equal(await version(), before)
  await ddl('create table counted (id int)')
  assert.equal(await version(), before + 1)
})

/** Takes a number, as a change does that is not committed yet, or never. */
const takeNumber = async () =>
  first.asSuperuser(await first.refOf(project.id), session =>
    session.rows(
      sql`select setval('platform.catalog_versions', max(version) + 1) from platform.catalog_version`,
    ),
  )

test('schema changes: requests are served while a change has a number but is not committed, and use it afterwards', async () => {
  await ddl('create table waiting (id int primary key); insert into waiting values (1)')
  for (const node of [first, second]) assert.equal((await get(node, 'waiting?id=eq.1')).status, 200)
  const before = await version()
  await takeNumber()
  for (const node of [first, second]) {
    for (let run = 0; run < 6; run++) assert.deepEqual((await get(node, 'waiting?id=eq.1')).body, [{ id: 1 }])
    assert.equal((await rows(node, 'PATCH', 'waiting?id=eq.1', { id: 1 })).status, 204)
  }
  assert.equal(await version(), before)
  await ddl('alter table waiting add column late int default 3')
  for (const node of [second, first])
    assert.deepEqual((await get(node, 'waiting?id=eq.1')).body, [{ id: 1, late: 3 }])
})

test('schema changes: after a crash of Postgres the last number is that of the version, so that statements compare only the number', async t => {
  const server = await startOwnServer()
  t.after(() => server.stop())
  const platform = await startPlatform({ server })
  t.after(() => platform.stop())
  const { id } = await platform.createProject()
  const tenant = (await platform.app.directory.find(id))!
  await platform.app.databases.asOwner(tenant, session => session.script('create table made (id int)'))
  await server.kill()
  const numbers = await eventually(
    () =>
      platform
        .asSuperuser(tenant.ref, session =>
          session.rows<{ version: number; last: number }>(sql`
            select max(version)::int as version, pg_sequence_last_value('platform.catalog_versions')::int as last
              from platform.catalog_version`),
        )
        .catch(() => undefined),
    'Postgres runs again',
  )
  assert.equal(numbers[0]!.last, numbers[0]!.version)
})

test('schema changes: concurrent changes do not wait for each other to commit', async () => {
  const tenant = (await first.app.directory.find(project.id))!
  await first.app.databases.asOwner(tenant, async slow => {
    await slow.script('begin')
    await slow.script('create table slow_change (id int)')
    await first.app.databases.asOwner(tenant, quick =>
      quick.script(`set lock_timeout = '2s'; create table quick_change (id int)`),
    )
    await slow.script('commit')
  })
  for (const name of ['slow_change', 'quick_change']) assert.equal((await get(second, name)).status, 200)
})

test('schema changes: twenty concurrent requests that each change the schema all succeed', async () => {
  await ddl(`
    create table events (id int generated always as identity, day date);
    create function make_room() returns trigger language plpgsql security definer set search_path = public as $$ begin
      execute format('create table events_%s (id int)', replace(gen_random_uuid()::text, '-', '')); return new; end $$;
    create trigger make_room before insert on events for each row execute function make_room()`)
  const inserts = Array.from({ length: 20 }, (_, n) =>
    rows(n % 2 ? first : second, 'POST', 'events', { day: '2024-01-01' }),
  )
  const statuses = (await Promise.all(inserts)).map(({ status, body }) => `${status} ${body?.code ?? ''}`)
  assert.deepEqual([...new Set(statuses)], ['201 '])
  assert.equal((await get(first, 'events?select=count()')).body[0].count, 20)
})

test('schema changes: exposed schemas change without a restart', async () => {
  await ddl(`create schema api; grant usage on schema api to service_role; create table api.inside (id int);
             grant select on api.inside to service_role`)
  const profile = { 'accept-profile': 'api' }
  const inside = () => rows(second, 'GET', 'inside', undefined, profile)
  assert.equal((await inside()).status, 406)
  await first.projects.update({
    params: { id: project.id },
    body: { settings: { exposed_schemas: ['public', 'api'] } },
  })
  await eventually(async () => (await inside()).status === 200, 'the new schema is exposed')
  assert.equal((await get(second, 'inside')).status, 404)
})
