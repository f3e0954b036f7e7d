// The feed of row changes: when tables are captured, the order of delivery, and faults of nodes, connections and databases.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { RawSocket } from '#test/realtime-raw.ts'
import {
  projectDatabase,
  receivesChange,
  receivesStatus,
  subscribe,
  unsubscribeAll,
} from '#test/realtime-subscriber.ts'

let platform: TestPlatform
let project: CreatedProject
let database: Awaited<ReturnType<typeof projectDatabase>>

before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
  database = await projectDatabase(platform, project)
  await database.run(`
    create table notes (id int primary key, text text);
    create policy everybody on notes for select using (true);
    create table others (id int primary key);
    create policy everybody on others for select using (true)`)
})
after(async () => {
  await unsubscribeAll()
  await platform.stop()
})

test('realtime feed: triggers are enabled while a table has subscribers, and disabled soon after', async () => {
  assert.deepEqual(await database.captured(), [])
  const one = await subscribe(platform, project, { table: 'notes' })
  assert.deepEqual(await database.captured(), ['notes'])
  const all = await subscribe(platform, project)
  assert.deepEqual(await database.captured(), ['notes', 'others'])
  await one.leave()
  await all.leave()
  await eventually(async () => (await database.captured()).length === 0, 'the triggers are disabled')
  const [left] = await database.rows<{ count: number }>(
    'select count(*)::int as count from platform.listening',
  )
  assert.equal(left!.count, 0)
})

test('realtime feed: writes without subscribers are not captured, even if a trigger is still enabled', async () => {
  await platform.asSuperuser(database.ref, session =>
    session.script('alter table public.others enable trigger all'),
  )
  await database.run('insert into others values (-1); delete from others')
  assert.deepEqual(
    await database.rows("select 1 from platform.changes where relid = 'public.others'::regclass"),
    [],
  )
})

test('realtime feed: the next node disables the triggers of a killed node', async () => {
  await eventually(async () => (await database.captured()).length <= 1, 'no registration is left')
  await platform.asSuperuser(database.ref, session =>
    session.script('alter table public.others enable trigger all'),
  )
  await platform.app.control.run(sql`
    insert into realtime_captures values (${project.id}, now() - interval '1 second')
    on conflict (project_id) do update set until = excluded.until`)
  const next = await startPlatform({ beside: platform })
  await eventually(async () => (await database.captured()).length === 0, 'the triggers are disabled')
  await next.stop()
})

test('realtime feed: a table locked by a transaction is captured and confirmed when the transaction ends', async () => {
  await platform.asSuperuser(database.ref, async session => {
    await session.script('begin; insert into public.notes values (-1)')
    let isConfirmed = false
    const subscriptions = subscribe(platform, project, { table: 'notes' }).then(one => {
      isConfirmed = true
      return one
    })
    // Long enough for several attempts.
    await sleep(1500)
    assert.equal(isConfirmed, false)
    await session.script('rollback')
    const one = await subscriptions
    await database.run('insert into notes values (-2)')
    await receivesChange(one, 'INSERT -2')
    await one.leave()
  })
})

test('realtime feed: changes arrive in commit order, not in write order', async () => {
  const one = await subscribe(platform, project, { table: 'notes' })
  await platform.asSuperuser(database.ref, async early => {
    await early.script('begin; insert into public.notes values (101)')
    await database.run('insert into notes values (102)')
    await receivesChange(one, 'INSERT 102')
    await early.script('insert into public.notes values (103); commit')
  })
  await receivesChange(one, 'INSERT 103')
  assert.deepEqual(one.changes, ['INSERT 102', 'INSERT 101', 'INSERT 103'])
  await one.leave()
})

test('realtime feed: a statement on thousands of rows is delivered completely and in order', async () => {
  const one = await subscribe(platform, project, { table: 'notes' })
  await database.run(`insert into notes select i, 'x' from generate_series(1000, 4999) i`)
  await eventually(() => one.changes.length >= 4000, 'all changes arrive')
  assert.deepEqual(
    one.changes,
    Array.from({ length: 4000 }, (_, index) => `INSERT ${index + 1000}`),
  )
  await one.leave()
})

test('realtime feed: each row of a large transaction is read once, over several batches', async () => {
  const rows = 20_000
  const fetched = async () => {
    const [found] = await database.rows<{ count: number }>(
      "select (idx_tup_fetch + seq_tup_read)::int as count from pg_stat_all_tables where relid = 'platform.changes'::regclass",
    )
    return found!.count
  }
  await database.run('create table many (id int primary key)')
  const one = await subscribe(platform, project, { table: 'many', apikey: project.service_role_key })
  const before = await fetched()
  await database.run(`insert into many select generate_series(1, ${rows})`)
  await receivesChange(one, `INSERT ${rows}`)
  await one.leave()
  await eventually(async () => (await fetched()) - before >= rows, 'Postgres has counted')
  // Read once, and deleted in one or a few passes. Forty batches that start over would read twenty times as many.
  const count = (await fetched()) - before
  assert.ok(count < 6 * rows, `${count} rows were read`)
})

test('realtime feed: a table created or recreated after the subscription is captured', async () => {
  const all = await subscribe(platform, project)
  const named = await subscribe(platform, project, {
    table: 'late',
    until: /^error There is no table public.late/,
  })
  const make =
    'create table late (id int primary key); create policy everybody on late for select using (true)'
  for (const id of [1, 2]) {
    await database.run(make)
    await eventually(async () => (await database.captured()).includes('late'), 'it is captured')
    await database.run(`insert into late values (${id})`)
    await receivesChange(all, `INSERT ${id}`)
    await receivesChange(named, `INSERT ${id}`)
    await database.run('drop table late')
  }
  await all.leave()
  await named.leave()
})

test('realtime feed: delivered changes are deleted from the outbox', async () => {
  const one = await subscribe(platform, project, { table: 'notes' })
  await database.run('insert into notes values (5000)')
  await receivesChange(one, 'INSERT 5000')
  await eventually(
    async () => (await database.rows('select 1 from platform.changes')).length === 0,
    'nothing is left',
  )
  await one.leave()
})

test('realtime feed: each node delivers to its own subscribers, without contact to other nodes', async () => {
  const second = await startPlatform({ beside: platform })
  const here = await subscribe(platform, project, { table: 'notes' })
  const there = await subscribe(second, project, { table: 'notes' })
  await database.run('insert into notes values (6001)')
  await Promise.all([receivesChange(here, 'INSERT 6001'), receivesChange(there, 'INSERT 6001')])
  await there.leave()
  await second.stop()
  await database.run('insert into notes values (6002)')
  await receivesChange(here, 'INSERT 6002')
  assert.deepEqual(await database.captured(), ['notes'])
  await here.leave()
})

test('realtime feed: after a lost connection the feed reconnects and notifies subscribers of a possible loss', async () => {
  const one = await subscribe(platform, project, { table: 'notes' })
  await platform.asSuperuser('postgres', session =>
    session.run(sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where usename = ${`${database.ref}_svc`} and datname = ${database.ref}`),
  )
  await receivesStatus(one, /^error Changes may have been lost/)
  await database.run('insert into notes values (7001)')
  await receivesChange(one, 'INSERT 7001')
  await one.leave()
})

test('realtime feed: subscribers are notified when a crash has emptied the outbox', async () => {
  const one = await subscribe(platform, project, { table: 'notes' })
  await platform.asSuperuser(database.ref, session =>
    session.script('truncate platform.changes, platform.listening'),
  )
  await receivesStatus(one, /^error Changes may have been lost: the database has forgotten them/)
  await database.run('insert into notes values (8001)')
  await receivesChange(one, 'INSERT 8001')
  await one.leave()
})

test('realtime feed: a replayed message is not delivered again by the feed', async () => {
  await database.run('create policy everybody on realtime.messages for select using (true)')
  const room = 'realtime:again'
  const observer = await RawSocket.open(platform, project)
  await observer.join(room, { private: true })
  for (const event of ['one', 'two', 'three']) {
    await database.run(`select realtime.send('{}'::jsonb, '${event}', 'again')`)
    const late = await RawSocket.open(platform, project)
    await late.join(room, { private: true, broadcast: { replay: { since: Date.now() - 60_000 } } })
    await observer.next(frame => frame[4].event === event, `${event} is delivered`)
    await late.settled()
    const statuses = late.frames.filter(frame => frame[3] === 'broadcast' && frame[4].event === event)
    assert.deepEqual(
      statuses.map(frame => frame[4].meta.replayed),
      [true],
    )
    await late.close()
  }
  await observer.close()
})

test('realtime feed: a client that leaves before its replay keeps no subscription', async () => {
  const messages = { private: true, broadcast: { replay: { since: 0 } } }
  const bindings = { postgres_changes: [{ event: '*', schema: 'public', table: 'notes' }] }
  await platform.asSuperuser(database.ref, async session => {
    await session.script('begin; lock table realtime.messages in access exclusive mode')
    const hasty = await RawSocket.open(platform, project, project.service_role_key)
    hasty.push('realtime:hasty', 'phx_join', { config: { ...messages, ...bindings } })
    await eventually(async () => {
      const waiting = await database.rows(
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%realtime.messages%'",
      )
      return waiting.length > 0
    }, 'the replay waits for the lock')
    await hasty.close()
    await session.script('rollback')
  })
  const one = await subscribe(platform, project, { table: 'notes' })
  await one.leave()
  await eventually(async () => (await database.captured()).length === 0, 'the triggers are disabled')
})

test('realtime feed: a read that times out is skipped with a notice, and later changes are delivered', async () => {
  const one = await subscribe(platform, project, { table: 'notes' })
  // Replaces the outbox with a view on which reading existing rows never ends.
  await platform.asSuperuser(database.ref, session =>
    session.script(`
      begin;
      alter table platform.changes rename to heavy;
      insert into platform.heavy (relid, kind, new) values ('public.notes'::regclass, 'I', '{"id": 0}');
      do $$ declare last bigint := (select max(id) from platform.heavy); begin
        execute format('create view platform.changes as select * from platform.heavy
          where case when id <= %s then pg_sleep(10) is not null else true end', last);
      end $$;
      grant select, insert, delete on platform.changes to service_role, supabase_realtime_admin;
      commit`),
  )
  await receivesStatus(one, /^error Changes may have been lost: there was more than could be read in time/)
  // The feed reads rows again that were written since the oldest transaction of the cluster began, and other tests run long
  // ones. A change that is read together with such rows is skipped with them.
  let id = 7777
  await eventually(async () => {
    await database.run(`insert into notes values (${id++})`)
    await sleep(200)
    return one.changes.some(change => /^INSERT 7\d\d\d$/.test(change))
  }, 'a later change is delivered')
  await one.leave()
})
