// Two platforms on one control database behave as one.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Reply, startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'

let here: TestPlatform
let there: TestPlatform
before(async () => {
  here = await startPlatform()
  there = await startPlatform({ beside: here })
})
after(async () => {
  await there.stop()
  await here.stop()
})

/** Asks until the answer has the given status: a second is all it may take, the rest is for a busy machine. */
async function within(second: () => Promise<Reply>, status: number): Promise<Reply> {
  const end = performance.now() + 20_000
  for (;;) {
    const reply = await second()
    if (reply.status === status || performance.now() > end) return reply
    await sleep(10)
  }
}

test('a project made on one node is served by the other at once', async () => {
  const { id, anon_key } = await here.createProject()
  assert.equal((await there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })).status, 200)
})

test('suspension, resumption and deletion reach the other node within a second', async () => {
  const { id, anon_key } = await here.createProject()
  const ask = () => there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.equal((await ask()).status, 200)
  await here.projects.suspend({ params: { id } })
  assert.equal((await within(ask, 403)).body.code, 'project_suspended')
  await here.projects.resume({ params: { id } })
  assert.equal((await within(ask, 200)).status, 200)
  await here.projects.remove({ params: { id } })
  assert.equal((await within(ask, 401)).status, 401)
})

test('rotated keys and secrets count on the other node within a second', async () => {
  const { id, anon_key } = await here.createProject()
  const ask = (apikey: string) => () => there.call('GET', `/v1/whoami/${id}`, { apikey })
  assert.equal((await ask(anon_key)()).status, 200)
  const rotated = await here.projects.rotateApiKeys({ params: { id } })
  assert.equal((await within(ask(anon_key), 401)).status, 401)
  assert.equal((await within(ask(rotated.anon_key), 200)).status, 200)
})

test('a project unknown a moment ago is found as soon as it exists', async () => {
  const id = crypto.randomUUID()
  assert.equal((await there.call('GET', `/v1/whoami/${id}`, { apikey: 'x' })).status, 401)
  const { id: made, anon_key } = await here.createProject()
  assert.equal((await there.call('GET', `/v1/whoami/${made}`, { apikey: anon_key })).status, 200)
})

test('while a node cannot poll for changes it trusts its memory for a second only', async () => {
  const { id, anon_key } = await here.createProject()
  const ask = () => there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.equal((await ask()).status, 200)
  // The column that polls read is not there, and the trigger that sets it is off.
  await here.asSuperuser(here.control, session =>
    session.script(`
      alter table public.projects disable trigger note_project_change;
      alter table public.projects rename column changed to hidden;
      update public.projects set status = 'suspended' where id = '${id}'`),
  )
  try {
    assert.equal((await within(ask, 403)).status, 403)
  } finally {
    await here.asSuperuser(here.control, session =>
      session.script(`
        alter table public.projects rename column hidden to changed;
        alter table public.projects enable trigger note_project_change`),
    )
  }
})

test('a change that commits after later ones is not missed', async () => {
  const [first, second] = await Promise.all([here.createProject(), here.createProject()])
  const ask = ({ id, anon_key }: typeof first) => there.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
  assert.deepEqual([(await ask(first)).status, (await ask(second)).status], [200, 200])
  await here.asSuperuser(here.control, async session => {
    await session.script('begin')
    await session.run(sql`update public.projects set status = 'suspended' where id = ${first.id}`)
    await here.projects.suspend({ params: { id: second.id } })
    assert.equal((await within(() => ask(second), 403)).status, 403)
    assert.equal((await ask(first)).status, 200)
    await session.script('commit')
  })
  assert.equal((await within(() => ask(first), 403)).status, 403)
})

test('a node that starts brings projects of an older version up to date', async () => {
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
