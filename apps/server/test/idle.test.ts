// Thousands of projects may be asleep at once: an idle one holds no connection. In a file of its own, because
// it has to wait.
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Role } from '@plinth/contract/route.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

const pidOf = statement('select pg_backend_pid()', true)

async function ask(id: string, role: Role): Promise<string | undefined> {
  const tenant = (await platform.app.directory.find(id))!
  const facts = { method: 'GET', path: '/', headers: '{}' }
  const caller = { tenant, role, claims: '{}', userId: '', sessionId: '' }
  const { rows } = await platform.app.databases.asCaller(caller, facts, pidOf, [])
  return rows[0]?.[0]?.toString()
}

const sessionsOf = (ref: string) =>
  platform.asSuperuser('postgres', session =>
    session.rows(sql`select from pg_stat_activity where datname = ${ref}`),
  )

it('a project asked nothing for a while holds no connection, one in use keeps its own', async () => {
  const [asleep, awake] = await Promise.all([platform.createProject(), platform.createProject()])
  const asleepRef = await platform.refOf(asleep.id)
  const asked = Date.now()
  for (const role of ['anon', 'service_role'] as const)
    for (let run = 0; run < 8; run++) await ask(asleep.id, role)
  assert.ok((await sessionsOf(asleepRef)).length >= 2)
  const pids = new Set<string | undefined>()

  while (Date.now() - asked < 12_000) {
    pids.add(await ask(awake.id, 'anon'))
    await sleep(500)
  }
  const stillOpen = (await sessionsOf(asleepRef)).length
  // A machine may have been too busy to look in time.
  if (Date.now() - asked < 15_000) assert.ok(stillOpen >= 2, 'not before fifteen seconds')
  while ((await sessionsOf(asleepRef)).length > 0) {
    assert.ok(Date.now() - asked < 40_000, 'gone after fifteen seconds and the next sweep')
    pids.add(await ask(awake.id, 'anon'))
    await sleep(500)
  }

  assert.ok(pids.size <= 3, `one slow and two fast connections at most, not ${pids.size}`)
  const open = await sessionsOf(await platform.refOf(awake.id))
  assert.equal(platform.app.databases.connections(), open.length)
  assert.match((await ask(asleep.id, 'anon'))!, /^\d+$/)
})
