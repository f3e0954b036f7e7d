// A release with new project migrations: the platform listens at once and upgrades projects in the background.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { guardedSettings, type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'

let here: TestPlatform
before(async () => {
  here = await startPlatform()
})
after(() => here?.stop())

interface Project extends CreatedProject {
  ref: string
}

/** A project with the schema of an older release, without auth.email(). */
async function outdatedProject(): Promise<Project> {
  const project = await here.createProject()
  const ref = await here.refOf(project.id)
  await here.asSuperuser(ref, session =>
    session.script(
      `drop function auth.email(); update platform.migrations set hash = 'old' where name = 'auth_claims'`,
    ),
  )
  await here.app.control.run(sql`update projects set schema_version = 'old' where id = ${project.id}`)
  return { ...project, ref }
}

const outdatedProjects = (count: number) => Promise.all(Array.from({ length: count }, outdatedProject))

const isUpgraded = async ({ id }: Project) =>
  (await here.app.control.row(
    sql`select from projects where id = ${id} and schema_version = ${here.app.cluster.projectVersion}`,
  )) !== undefined

const rows = (node: TestPlatform, { id, anon_key }: Project) =>
  node.call('GET', `/v1/rest/${id}/`, { apikey: anon_key })
/** For tests that poll with the anon key. */
const withoutRateLimit = { PLATFORM_RATE_LIMIT_ANON: '0' }

/** Takes a lock as superuser, which an upgrade does not terminate. */
async function hold({ ref }: Project): Promise<() => Promise<void>> {
  const released = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = withClient(here.address, ref, guardedSettings, async session => {
    await session.script('begin; lock table platform.migrations in access exclusive mode')
    held.resolve()
    await released.promise
  })
  holding.catch(held.reject)
  await held.promise
  return async () => {
    released.resolve()
    await holding.catch(() => {})
  }
}

const upgradesWaiting = (session: OwnSession) =>
  session.rows<{ datname: string }>(
    raw(`
    select distinct datname from pg_stat_activity
     where application_name = 'plinth' and wait_event_type = 'Lock' and query like '%platform.migrations%'`),
  )

/** The status of a WebSocket handshake, 101 for success. */
const socketStatus = (node: TestPlatform, { id, anon_key }: Project) =>
  new Promise<number | undefined>((resolve, reject) => {
    const handshake = request(`${node.url}/v1/realtime/${id}/socket/websocket?apikey=${anon_key}&vsn=1.0.0`, {
      headers: {
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': randomBytes(16).toString('base64'),
      },
    })
    handshake.on('response', reply => resolve(reply.resume().statusCode))
    handshake.on('upgrade', (reply, socket) => {
      socket.destroy()
      resolve(reply.statusCode)
    })
    handshake.on('error', reject)
    handshake.end()
  })

const appliedAt = async ({ ref }: Project) =>
  (await here.asSuperuser(ref, session =>
    session.row<{ at: string }>(
      sql`select applied_at::text as at from platform.migrations where name = 'auth_claims'`,
    ),
  ))!.at

const warningsOf = async (node: TestPlatform): Promise<string[]> =>
  (await node.call('GET', '/api/v1/health/services', { token: node.adminToken })).body.warnings

test('upgrades: the platform serves while it upgrades several projects at once, requested projects first', async () => {
  const stuck = await outdatedProjects(3)
  const [uncalled, called] = [await outdatedProject(), await outdatedProject()]
  const release = await Promise.all(stuck.map(hold))
  const node = await startPlatform({ beside: here })
  try {
    await here.asSuperuser('postgres', session =>
      eventually(async () => (await upgradesWaiting(session)).length === 3, 'three upgrades wait'),
    )
    assert.match((await warningsOf(node)).join(), /5 projects are waiting to be upgraded/)
    // Several callers share one upgrade.
    for (const reply of await Promise.all([1, 2, 3].map(() => rows(node, called))))
      assert.equal(reply.status, 200, JSON.stringify(reply.body))
    assert.ok(await isUpgraded(called))
    assert.equal((await node.projects.read({ params: { id: stuck[0]!.id } })).id, stuck[0]!.id)
    for (const each of release) await each()
    await untilUpgraded(node)
    assert.ok((await appliedAt(called)) < (await appliedAt(uncalled)))
    await eventually(async () => (await warningsOf(node)).length === 0, 'no warning is left')
    for (const each of [...stuck, uncalled]) assert.equal((await rows(node, each)).status, 200)
  } finally {
    for (const each of release) await each()
    await node.stop()
  }
})

test('upgrades: a failed upgrade gives 503 with the reason, is retried, and does not block other projects', async () => {
  const [failing, other] = [await outdatedProject(), await outdatedProject()]
  await here.asSuperuser(failing.ref, session =>
    session.script('create function auth.email() returns int language sql as $$ select 1 $$'),
  )
  const reason = 'cannot change return type of existing function'
  const node = await startPlatform({ beside: here, settings: withoutRateLimit })
  try {
    const refused = await rows(node, failing)
    assert.equal(refused.status, 503)
    assert.equal(refused.body.code, 'project_upgrade_failed')
    assert.ok(Number(refused.headers.get('retry-after')) >= 1)
    assert.ok(!JSON.stringify(refused.body).includes(reason), 'anonymous callers get no internals')
    const signUp = await node.call('POST', `/v1/auth/${failing.id}/sign-up`, {
      apikey: failing.anon_key,
      body: { email: 'a@example.test', password: 'correct horse' },
    })
    assert.equal(signUp.status, 503)
    const tables = await node.call('GET', `/api/v1/projects/${failing.id}/schema/tables`, {
      token: node.adminToken,
    })
    assert.equal(tables.status, 503)
    assert.equal(tables.body.error.code, 'project_upgrade_failed')
    assert.ok(tables.body.error.message.includes(reason), tables.body.error.message)
    assert.equal(await socketStatus(node, failing), 503)
    const byService = await node.call('GET', `/v1/rest/${failing.id}/`, { apikey: failing.service_role_key })
    assert.ok(byService.body.message.includes(reason))
    assert.ok(node.logged.some(line => line.includes(reason) && line.includes(failing.id)))
    assert.match((await warningsOf(node)).join(), new RegExp(`could not be upgraded.*${failing.id}`))
    assert.equal((await node.projects.read({ params: { id: failing.id } })).status, 'active')
    assert.equal((await rows(node, other)).status, 200)

    await here.asSuperuser(failing.ref, session => session.script('drop function auth.email()'))
    await eventually(async () => (await rows(node, failing)).status === 200, 'the retry succeeds')
    assert.equal(await socketStatus(node, failing), 101)
    await eventually(async () => (await warningsOf(node)).length === 0, 'no warning is left')
  } finally {
    await node.stop()
  }
})

test('upgrades: a project whose upgrade fails can be suspended, resumed and deleted', async () => {
  const failing = await outdatedProject()
  await here.asSuperuser(failing.ref, session =>
    session.script('create function auth.email() returns int language sql as $$ select 1 $$'),
  )
  const node = await startPlatform({ beside: here })
  try {
    assert.equal((await rows(node, failing)).status, 503)
    await node.projects.suspend({ params: { id: failing.id } })
    await node.projects.resume({ params: { id: failing.id } })
    const deleted = await node.call('DELETE', `/api/v1/projects/${failing.id}`, { token: node.adminToken })
    assert.equal(deleted.status, 204)
    await eventually(async () => (await warningsOf(node)).length === 0, 'no warning is left')
  } finally {
    await node.stop()
  }
})

test('upgrades: a project can be deleted while its upgrade waits for a lock', async () => {
  const stuck = await outdatedProject()
  const release = await hold(stuck)
  const node = await startPlatform({ beside: here })
  try {
    await here.asSuperuser('postgres', session =>
      eventually(
        async () => (await upgradesWaiting(session)).some(({ datname }) => datname === stuck.ref),
        'the upgrade waits',
      ),
    )
    const deleted = await node.call('DELETE', `/api/v1/projects/${stuck.id}`, { token: node.adminToken })
    assert.equal(deleted.status, 204)
    const left = await here.asSuperuser('postgres', session =>
      session.rows(sql`
        select datname as name from pg_database where datname = ${stuck.ref}
        union all select rolname from pg_roles where starts_with(rolname, ${stuck.ref})`),
    )
    assert.deepEqual(left, [])
  } finally {
    await release()
    await node.stop()
  }
})

test('upgrades: a request waits for an upgrade only for some seconds', async () => {
  const stuck = await outdatedProject()
  const release = await hold(stuck)
  const node = await startPlatform({ beside: here, settings: withoutRateLimit })
  try {
    const reply = await rows(node, stuck)
    assert.equal(reply.status, 503)
    assert.equal(reply.body.code, 'project_upgrading')
    assert.equal(reply.headers.get('retry-after'), '2')
    await release()
    await eventually(async () => (await rows(node, stuck)).status === 200, 'the project is upgraded')
  } finally {
    await release()
    await node.stop()
  }
})

test('upgrades: the next node continues an upgrade that was interrupted by shutdown', async () => {
  const stuck = await outdatedProject()
  const release = await hold(stuck)
  const node = await startPlatform({ beside: here })
  await here.asSuperuser('postgres', session =>
    eventually(
      async () => (await upgradesWaiting(session)).some(({ datname }) => datname === stuck.ref),
      'the upgrade waits',
    ),
  )
  await node.stop()
  assert.equal(await isUpgraded(stuck), false)
  await release()
  const next = await startPlatform({ beside: here })
  try {
    assert.equal((await rows(next, stuck)).status, 200)
    assert.ok(await isUpgraded(stuck))
  } finally {
    await next.stop()
  }
})

test('upgrades: of two starting nodes one applies each migration, and both serve', async () => {
  const projects = await outdatedProjects(3)
  for (const { ref } of projects)
    await here.asSuperuser(ref, session =>
      session.script(`
        create table platform.applications (name text);
        create function platform.note_application() returns trigger language plpgsql as
          $$ begin insert into platform.applications values (new.name); return null; end $$;
        create trigger note after insert or update on platform.migrations
          for each row execute function platform.note_application()`),
    )
  const nodes = await Promise.all([1, 2].map(() => startPlatform({ beside: here })))
  try {
    for (const node of nodes)
      for (const reply of await Promise.all(projects.map(each => rows(node, each))))
        assert.equal(reply.status, 200, JSON.stringify(reply.body))
    for (const { ref } of projects)
      assert.deepEqual(
        await here.asSuperuser(ref, session => session.rows(raw('select name from platform.applications'))),
        [{ name: 'auth_claims' }],
      )
  } finally {
    for (const node of nodes) await node.stop()
  }
})
