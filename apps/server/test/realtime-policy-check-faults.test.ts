// Policies that are slow or fail, and too few connections for the checks. A subscriber that cannot be checked gets no change
// but a notice, and other subscribers are not affected.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import {
  projectDatabase,
  receivesChange,
  receivesStatus,
  subscribe,
  unsubscribeAll,
} from '#test/realtime-subscriber.ts'

let platform: TestPlatform

before(async () => {
  platform = await startPlatform({
    settings: {
      PLATFORM_REALTIME_MAX_LISTENERS: '2',
      PLATFORM_REALTIME_MAX_DB_CONNECTIONS: '1',
      PLATFORM_REALTIME_QUERY_POOL_SIZE: '1',
    },
  })
})
after(async () => {
  await unsubscribeAll()
  await platform.stop()
})

/** A project whose table has a policy with this PL/pgSQL body. */
async function projectWith(expression: string) {
  const project = await platform.createProject()
  const database = await projectDatabase(platform, project)
  await database.run(`
    create table notes (id int primary key);
    create function judged() returns boolean language plpgsql as $$ begin ${expression}; end $$;
    create policy judged on notes for select using (judged())`)
  return {
    project,
    database,
    as: (name: string) => signJwt({ role: 'authenticated', sub: randomUUID(), name }, project.jwt_secret),
  }
}

test('policy check faults: a subscriber whose policy fails gets a notice, and the others get the change', async () => {
  const { project, database, as } = await projectWith(`
    if auth.jwt() ->> 'name' = 'bad' then raise 'no'; end if; return true`)
  const bad = await subscribe(platform, project, { token: as('bad'), table: 'notes' })
  const good = await subscribe(platform, project, { token: as('good'), table: 'notes' })
  await database.run('insert into notes values (1)')
  await receivesStatus(bad, /^error Changes of notes were not delivered: its policies failed/)
  await receivesChange(good, 'INSERT 1')
  assert.deepEqual(bad.changes, [])
  // Policies are not checked for DELETE.
  await database.run('delete from notes')
  await Promise.all([receivesChange(good, 'DELETE 1'), receivesChange(bad, 'DELETE 1')])
  await unsubscribeAll()
})

test('policy check faults: a subscriber whose policy times out is skipped, and delays others only briefly', async () => {
  const { project, database, as } = await projectWith(`
    if auth.jwt() ->> 'name' = 'slow' then perform pg_sleep(10); end if; return true`)
  const slow = await subscribe(platform, project, { token: as('slow'), table: 'notes' })
  const quick = await subscribe(platform, project, { token: as('quick'), table: 'notes' })
  for (const id of [1, 2, 3]) {
    await database.run(`insert into notes values (${id})`)
    await receivesChange(quick, `INSERT ${id}`)
  }
  await receivesStatus(slow, /^error Changes of notes were not delivered/)
  assert.deepEqual(slow.changes, [])
  await unsubscribeAll()
})

test('policy check faults: without a free connection changes are dropped with a notice', async () => {
  const busy = await projectWith('perform pg_sleep(10); return true')
  const other = await projectWith('return true')
  const slow = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      subscribe(platform, busy.project, { token: busy.as(`slow ${index}`), table: 'notes' }),
    ),
  )
  const one = await subscribe(platform, other.project, { table: 'notes' })
  await busy.database.run('insert into notes values (1)')
  let id = 0
  const writing = setInterval(
    () => void other.database.run(`insert into notes values (${++id})`).catch(() => {}),
    300,
  )
  await receivesStatus(
    one,
    /^error Changes may have been lost: policies or filters could not be asked in time/,
  )
  await receivesStatus(slow[11]!, /^error Changes of notes were not delivered/)
  clearInterval(writing)
  await other.database.run('insert into notes values (1000)')
  await receivesChange(one, 'INSERT 1000')
  await unsubscribeAll()
})

test('policy check faults: projects above the maximum number of feeds are deferred with a notice', async () => {
  const three = await Promise.all([1, 2, 3].map(() => projectWith('return true')))
  const first = await subscribe(platform, three[0]!.project, { table: 'notes' })
  await subscribe(platform, three[1]!.project, { table: 'notes' })
  const third = await subscribe(platform, three[2]!.project, {
    table: 'notes',
    until: /^error Changes are deferred/,
  })
  await first.leave()
  await receivesStatus(third, /^ok /)
  await three[2]!.database.run('insert into notes values (1)')
  await receivesChange(third, 'INSERT 1')
})
