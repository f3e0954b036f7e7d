// Two platforms on one control database behave as one.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'

let here: TestPlatform
let there: TestPlatform
before(async () => {
  // The tests poll until a change takes effect.
  const settings = { PLATFORM_RATE_LIMIT_ANON: '0' }
  here = await startPlatform({ settings })
  there = await startPlatform({ beside: here, settings })
})
after(async () => {
  await there.stop()
  await here.stop()
})

/** Repeats the request until it has this status. */
const replyWith = (status: number, ask: () => Promise<Reply>): Promise<Reply> =>
  eventually(async () => {
    const reply = await ask()
    return reply.status === status ? reply : undefined
  }, `status ${status}`)

test('nodes: a project created on one node is served by the other at once', async () => {
  const { id, anon_key } = await here.createProject()
  assert.equal((await there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })).status, 200)
})

test('nodes: suspend, resume and delete reach the other node within a second', async () => {
  const { id, anon_key } = await here.createProject()
  const ask = () => there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.equal((await ask()).status, 200)
  await here.projects.suspend({ params: { id } })
  assert.equal((await replyWith(403, ask)).body.code, 'project_suspended')
  await here.projects.resume({ params: { id } })
  assert.equal((await replyWith(200, ask)).status, 200)
  await here.projects.remove({ params: { id } })
  assert.equal((await replyWith(401, ask)).status, 401)
})

test('nodes: rotated keys and secrets apply on the other node within a second', async () => {
  const { id, anon_key } = await here.createProject()
  const ask = (apikey: string) => () => there.call('GET', `/v1/whoami/${id}`, { apikey })
  assert.equal((await ask(anon_key)()).status, 200)
  const rotated = await here.projects.rotateApiKeys({ params: { id } })
  assert.equal((await replyWith(401, ask(anon_key))).status, 401)
  assert.equal((await replyWith(200, ask(rotated.anon_key))).status, 200)
})

test('nodes: a recently unknown project is found as soon as it exists', async () => {
  const id = crypto.randomUUID()
  assert.equal((await there.call('GET', `/v1/whoami/${id}`, { apikey: 'x' })).status, 401)
  const { id: made, anon_key } = await here.createProject()
  assert.equal((await there.call('GET', `/v1/whoami/${made}`, { apikey: anon_key })).status, 200)
})

test('nodes: a node that cannot poll uses its cache for one second only', async () => {
  const { id, anon_key } = await here.createProject()
  const ask = () => there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.equal((await ask()).status, 200)
  // Polls fail without the column that they read, and the trigger that sets it is disabled.
  await here.asSuperuser(here.control, session =>
    session.script(`
      alter table public.projects disable trigger note_project_change;
      alter table public.projects rename column changed to hidden;
      update public.projects set status = 'suspended' where id = '${id}'`),
  )
  try {
    assert.equal((await replyWith(403, ask)).status, 403)
  } finally {
    await here.asSuperuser(here.control, session =>
      session.script(`
        alter table public.projects rename column hidden to changed;
        alter table public.projects enable trigger note_project_change`),
    )
  }
})

test('nodes: a late commit is not missed', async () => {
  const [first, second] = await Promise.all([here.createProject(), here.createProject()])
  const ask = ({ id, anon_key }: typeof first) => there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.deepEqual([(await ask(first)).status, (await ask(second)).status], [200, 200])
  await here.asSuperuser(here.control, async session => {
    await session.script('begin')
    await session.run(sql`update public.projects set status = 'suspended' where id = ${first.id}`)
    await here.projects.suspend({ params: { id: second.id } })
    assert.equal((await replyWith(403, () => ask(second))).status, 403)
    assert.equal((await ask(first)).status, 200)
    await session.script('commit')
  })
  assert.equal((await replyWith(403, () => ask(first))).status, 403)
})

test('nodes: a poll that waits for a lock ends at its timeout and leaves no session', async () => {
  const waiting = () =>
    here.app.control.rows<{ pid: number }>(sql`
      select pid from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%pg_current_snapshot()%'`)
  await here.asSuperuser(here.control, async session => {
    await session.script('begin; lock table public.projects in access exclusive mode')
    const { pid } = await eventually(async () => (await waiting())[0], 'a poll waits')
    await eventually(async () => !(await waiting()).some(each => each.pid === pid), 'it has ended')
    await session.script('rollback')
  })
})

test('nodes: a starting node upgrades projects of an older version', async () => {
  const { id } = await here.createProject()
  const ref = await here.refOf(id)
  await here.asSuperuser(ref, async session => {
    await session.script(
      `drop function auth.email(); update platform.migrations set hash = 'old' where name = 'auth_claims'`,
    )
  })
  await here.app.control.run(sql`update projects set schema_version = 'old' where id = ${id}`)
  const later = await startPlatform({ beside: here })
  await untilUpgraded(later)
  try {
    const found = await here.asSuperuser(ref, session =>
      session.row<{ there: boolean }>(sql`select to_regprocedure('auth.email()') is not null as there`),
    )
    assert.equal(found?.there, true)
    const row = await here.app.control.row<{ schema_version: string }>(
      sql`select schema_version from projects where id = ${id}`,
    )
    assert.equal(row?.schema_version, here.app.cluster.projectVersion)
  } finally {
    await later.stop()
  }
})
