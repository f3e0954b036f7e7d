// The gate under policies that are slow, fail or are too many to be asked: whoever cannot be judged sees nothing and is
// told, and nobody else is touched.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { behind, everybodyStops, hears, isTold, listen } from '#test/realtime-listener.ts'

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
  await everybodyStops()
  await platform.stop()
})

/** A project in which rows are seen by whoever the expression lets. */
async function projectWith(expression: string) {
  const project = await platform.createProject()
  const database = await behind(platform, project)
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

test('whose policy fails hears nothing and is told; all others hear', async () => {
  const { project, database, as } = await projectWith(`
    if auth.jwt() ->> 'name' = 'bad' then raise 'no'; end if; return true`)
  const bad = await listen(platform, project, { token: as('bad'), table: 'notes' })
  const good = await listen(platform, project, { token: as('good'), table: 'notes' })
  await database.run('insert into notes values (1)')
  await isTold(bad, /^error Changes of notes were not delivered: its policies failed/)
  await hears(good, 'INSERT 1')
  assert.deepEqual(bad.heard, [])
  // A DELETE is not judged by policies.
  await database.run('delete from notes')
  await Promise.all([hears(good, 'DELETE 1'), hears(bad, 'DELETE 1')])
  await everybodyStops()
})

test('whose policy takes too long is left out, and holds up nobody for long', async () => {
  const { project, database, as } = await projectWith(`
    if auth.jwt() ->> 'name' = 'slow' then perform pg_sleep(10); end if; return true`)
  const slow = await listen(platform, project, { token: as('slow'), table: 'notes' })
  const quick = await listen(platform, project, { token: as('quick'), table: 'notes' })
  for (const id of [1, 2, 3]) {
    await database.run(`insert into notes values (${id})`)
    await hears(quick, `INSERT ${id}`)
  }
  await isTold(slow, /^error Changes of notes were not delivered/)
  assert.deepEqual(slow.heard, [])
  await everybodyStops()
})

test('when nobody is free to ask, changes are not delivered, and that is told', async () => {
  const busy = await projectWith('perform pg_sleep(10); return true')
  const other = await projectWith('return true')
  const slow = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      listen(platform, busy.project, { token: busy.as(`slow ${index}`), table: 'notes' }),
    ),
  )
  const one = await listen(platform, other.project, { table: 'notes' })
  await busy.database.run('insert into notes values (1)')
  let id = 0
  const writing = setInterval(
    () => void other.database.run(`insert into notes values (${++id})`).catch(() => {}),
    300,
  )
  await isTold(one, /^error Changes may have been lost: policies or filters could not be asked in time/)
  await isTold(slow[11]!, /^error Changes of notes were not delivered/)
  clearInterval(writing)
  await other.database.run('insert into notes values (1000)')
  await hears(one, 'INSERT 1000')
  await everybodyStops()
})

test('projects beyond the ceiling wait for their turn, and are told', async () => {
  const three = await Promise.all([1, 2, 3].map(() => projectWith('return true')))
  const first = await listen(platform, three[0]!.project, { table: 'notes' })
  await listen(platform, three[1]!.project, { table: 'notes' })
  const third = await listen(platform, three[2]!.project, {
    table: 'notes',
    until: /^error Changes are deferred/,
  })
  await first.leave()
  await isTold(third, /^ok /)
  await three[2]!.database.run('insert into notes values (1)')
  await hears(third, 'INSERT 1')
})
