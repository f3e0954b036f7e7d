// The feed of row changes from behind: when tables are captured, in which order changes come, and what happens when
// somebody is slow, gone, or too many.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { until } from '#test/cache-project.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { behind, everybodyStops, hears, isTold, listen } from '#test/realtime-listener.ts'
import { RawSocket } from '#test/realtime-raw.ts'

let platform: TestPlatform
let project: CreatedProject
let database: Awaited<ReturnType<typeof behind>>

before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
  database = await behind(platform, project)
  await database.run(`
    create table notes (id int primary key, text text);
    create policy everybody on notes for select using (true);
    create table others (id int primary key);
    create policy everybody on others for select using (true)`)
})
after(async () => {
  await everybodyStops()
  await platform.stop()
})

test('triggers are on while somebody listens to the table, and off again soon after', async () => {
  assert.deepEqual(await database.captured(), [])
  const one = await listen(platform, project, { table: 'notes' })
  assert.deepEqual(await database.captured(), ['notes'])
  const all = await listen(platform, project)
  assert.deepEqual(await database.captured(), ['notes', 'others'])
  await one.leave()
  await all.leave()
  await until('the triggers are off', async () => (await database.captured()).length === 0, 60)
  const [left] = await database.look<{ count: number }>(
    'select count(*)::int as count from platform.listening',
  )
  assert.equal(left!.count, 0)
})

test('what is written while nobody listens is not noted, not even when a trigger was left on', async () => {
  await platform.asSuperuser(database.ref, session =>
    session.script('alter table public.others enable trigger all'),
  )
  await database.run('insert into others values (-1); delete from others')
  assert.deepEqual(
    await database.look("select 1 from platform.changes where relid = 'public.others'::regclass"),
    [],
  )
})

test('triggers that a killed node has left on are switched off by the next one', async () => {
  await until('nobody listens', async () => (await database.captured()).length <= 1, 60)
  await platform.asSuperuser(database.ref, session =>
    session.script('alter table public.others enable trigger all'),
  )
  await platform.app.control.run(sql`
    insert into realtime_captures values (${project.id}, now() - interval '1 second')
    on conflict (project_id) do update set until = excluded.until`)
  const next = await startPlatform({ beside: platform })
  await until('the triggers are off', async () => (await database.captured()).length === 0, 60)
  await next.stop()
})

test('a table that a long transaction holds is captured when that ends, and only then is it confirmed', async () => {
  await platform.asSuperuser(database.ref, async session => {
    await session.script('begin; insert into public.notes values (-1)')
    let isConfirmed = false
    const listening = listen(platform, project, { table: 'notes' }).then(one => {
      isConfirmed = true
      return one
    })
    // Long enough for several tries.
    await new Promise(resolve => setTimeout(resolve, 1500))
    assert.equal(isConfirmed, false)
    await session.script('rollback')
    const one = await listening
    await database.run('insert into notes values (-2)')
    await hears(one, 'INSERT -2')
    await one.leave()
  })
})

test('changes come in the order of commits, whatever the order of writes', async () => {
  const one = await listen(platform, project, { table: 'notes' })
  await platform.asSuperuser(database.ref, async early => {
    await early.script('begin; insert into public.notes values (101)')
    await database.run('insert into notes values (102)')
    await hears(one, 'INSERT 102')
    await early.script('insert into public.notes values (103); commit')
  })
  await hears(one, 'INSERT 103')
  assert.deepEqual(one.heard, ['INSERT 102', 'INSERT 101', 'INSERT 103'])
  await one.leave()
})

test('a statement that changes thousands of rows is told whole, in order', async () => {
  const one = await listen(platform, project, { table: 'notes' })
  await database.run(`insert into notes select i, 'x' from generate_series(1000, 4999) i`)
  await until('all are heard', async () => one.heard.length >= 4000, 120)
  assert.deepEqual(
    one.heard,
    Array.from({ length: 4000 }, (_, index) => `INSERT ${index + 1000}`),
  )
  await one.leave()
})

test('what a large transaction has changed is looked at once, however many looks that takes', async () => {
  const rows = 20_000
  const fetched = async () => {
    const [found] = await database.look<{ count: number }>(
      "select (idx_tup_fetch + seq_tup_read)::int as count from pg_stat_all_tables where relid = 'platform.changes'::regclass",
    )
    return found!.count
  }
  await database.run('create table many (id int primary key)')
  const one = await listen(platform, project, { table: 'many', apikey: project.service_role_key })
  const before = await fetched()
  await database.run(`insert into many select generate_series(1, ${rows})`)
  await hears(one, `INSERT ${rows}`)
  await one.leave()
  await until('Postgres has counted', async () => (await fetched()) - before >= rows)
  assert.ok((await fetched()) - before < 3 * rows)
})

test('a table that is made later, or made again, is captured, too', async () => {
  const all = await listen(platform, project)
  const named = await listen(platform, project, {
    table: 'late',
    until: /^error There is no table public.late/,
  })
  const make =
    'create table late (id int primary key); create policy everybody on late for select using (true)'
  for (const id of [1, 2]) {
    await database.run(make)
    await until('it is captured', async () => (await database.captured()).includes('late'), 60)
    await database.run(`insert into late values (${id})`)
    await hears(all, `INSERT ${id}`)
    await hears(named, `INSERT ${id}`)
    await database.run('drop table late')
  }
  await all.leave()
  await named.leave()
})

test('what has been read is removed', async () => {
  const one = await listen(platform, project, { table: 'notes' })
  await database.run('insert into notes values (5000)')
  await hears(one, 'INSERT 5000')
  await until(
    'nothing is left',
    async () => (await database.look('select 1 from platform.changes')).length === 0,
    90,
  )
  await one.leave()
})

test('every node tells its own subscribers, with nothing between them but the database', async () => {
  const second = await startPlatform({ beside: platform })
  const here = await listen(platform, project, { table: 'notes' })
  const there = await listen(second, project, { table: 'notes' })
  await database.run('insert into notes values (6001)')
  await Promise.all([hears(here, 'INSERT 6001'), hears(there, 'INSERT 6001')])
  await there.leave()
  await second.stop()
  await database.run('insert into notes values (6002)')
  await hears(here, 'INSERT 6002')
  assert.deepEqual(await database.captured(), ['notes'])
  await here.leave()
})

test('a listener that is cut off is connected again, and those who may have missed something are told', async () => {
  const one = await listen(platform, project, { table: 'notes' })
  await platform.asSuperuser('postgres', session =>
    session.run(sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where usename = ${`${database.ref}_svc`} and datname = ${database.ref}`),
  )
  await isTold(one, /^error Changes may have been lost/)
  await database.run('insert into notes values (7001)')
  await hears(one, 'INSERT 7001')
  await one.leave()
})

test('an outbox that a crash has emptied is told', async () => {
  const one = await listen(platform, project, { table: 'notes' })
  await platform.asSuperuser(database.ref, session =>
    session.script('truncate platform.changes, platform.listening'),
  )
  await isTold(one, /^error Changes may have been lost: the database has forgotten them/)
  await database.run('insert into notes values (8001)')
  await hears(one, 'INSERT 8001')
  await one.leave()
})

test('what is replayed to who joins is not told again when the feed comes to it', async () => {
  await database.run('create policy everybody on realtime.messages for select using (true)')
  const room = 'realtime:again'
  const witness = await RawSocket.open(platform, project)
  await witness.join(room, { private: true })
  for (const event of ['one', 'two', 'three']) {
    await database.run(`select realtime.send('{}'::jsonb, '${event}', 'again')`)
    const late = await RawSocket.open(platform, project)
    await late.join(room, { private: true, broadcast: { replay: { since: Date.now() - 60_000 } } })
    await witness.next(frame => frame[4].event === event, `${event} as it is sent`)
    await late.settled()
    const told = late.frames.filter(frame => frame[3] === 'broadcast' && frame[4].event === event)
    assert.deepEqual(
      told.map(frame => frame[4].meta.replayed),
      [true],
    )
    await late.close()
  }
  await witness.close()
})

test('who has gone before its messages are replayed is listened for no more', async () => {
  const messages = { private: true, broadcast: { replay: { since: 0 } } }
  const wishes = { postgres_changes: [{ event: '*', schema: 'public', table: 'notes' }] }
  await platform.asSuperuser(database.ref, async session => {
    await session.script('begin; lock table realtime.messages in access exclusive mode')
    const hasty = await RawSocket.open(platform, project, project.service_role_key)
    hasty.push('realtime:hasty', 'phx_join', { config: { ...messages, ...wishes } })
    await until('the messages are waited for', async () => {
      const waiting = await database.look(
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%realtime.messages%'",
      )
      return waiting.length > 0
    })
    await hasty.close()
    await session.script('rollback')
  })
  const one = await listen(platform, project, { table: 'notes' })
  await one.leave()
  await until('the triggers are off', async () => (await database.captured()).length === 0, 20)
})

test('what cannot be read in time is let go of and told; what comes after it is heard', async () => {
  const one = await listen(platform, project, { table: 'notes' })
  // In place of the outbox, one in which everything up to now takes for ever to read.
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
  await isTold(one, /^error Changes may have been lost: there was more than could be read in time/)
  // Whatever was written since the oldest transaction of the cluster began is looked at again, and other tests have long ones.
  const areOver = 'select 1 from platform.heavy having pg_snapshot_xmin(pg_current_snapshot()) > max(xid)'
  await until('older transactions have ended', async () => (await database.look(areOver)).length > 0, 240)
  await database.run('insert into notes values (7777)')
  await hears(one, 'INSERT 7777')
  await one.leave()
})
