// Thousands of projects may be idle at once, so an idle one holds no connection. A separate file, because the test has to
// wait.
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

it('databases: idle projects hold no connection, and an active one keeps its own', async () => {
  const [idle, active] = await Promise.all([platform.createProject(), platform.createProject()])
  const idleRef = await platform.refOf(idle.id)
  const startedAt = Date.now()
  for (const role of ['anon', 'service_role'] as const)
    for (let run = 0; run < 8; run++) await ask(idle.id, role)
  assert.ok((await sessionsOf(idleRef)).length >= 2)
  const pids = new Set<string | undefined>()

  while (Date.now() - startedAt < 12_000) {
    pids.add(await ask(active.id, 'anon'))
    await sleep(500)
  }
  const stillOpen = (await sessionsOf(idleRef)).length
  // On a busy machine this check may run too late.
  if (Date.now() - startedAt < 15_000) assert.ok(stillOpen >= 2, 'connections stay open for 15 seconds')
  while ((await sessionsOf(idleRef)).length > 0) {
    assert.ok(Date.now() - startedAt < 120_000, 'connections are closed after 15 seconds and the next sweep')
    pids.add(await ask(active.id, 'anon'))
    await sleep(500)
  }

  assert.ok(pids.size <= 3, `one slow and two fast connections at most, not ${pids.size}`)
  const open = await sessionsOf(await platform.refOf(active.id))
  assert.equal(platform.app.databases.connections(), open.length)
  assert.match((await ask(idle.id, 'anon'))!, /^\d+$/)
})
