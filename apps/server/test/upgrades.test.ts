// A release with new project migrations: the platform listens at once and upgrades projects in the background.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import { projectGrants } from '#src/app.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import type { OwnSession } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { grantsOf } from '#src/tenancy/project-grants.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { openUpgrades } from '#src/tenancy/upgrades.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'
import {
  failMigration,
  holdTable,
  outdatedProject as makeOutdated,
  type OutdatedProject,
} from './outdated-project.ts'

let here: TestPlatform
before(async () => {
  here = await startPlatform()
})
after(() => here?.stop())

const outdatedProject = () => makeOutdated(here)
const outdatedProjects = (count: number) => Promise.all(Array.from({ length: count }, outdatedProject))
const hold = (project: OutdatedProject) => holdTable(here, project)

const isUpgraded = async ({ id }: OutdatedProject) =>
  (await here.app.control.row(
    sql`select from projects where id = ${id} and schema_version = ${here.app.cluster.projectVersion}`,
  )) !== undefined

const rowsOnce = (node: TestPlatform, { id, anon_key }: OutdatedProject) =>
  node.call('GET', `/v1/rest/${id}/`, { apikey: anon_key })
/** A call waits only for some seconds, and a slow machine may take longer for the backup. */
async function rows(node: TestPlatform, project: OutdatedProject): Promise<Reply> {
  for (;;) {
    const reply = await rowsOnce(node, project)
    if (reply.body.code !== 'project_upgrading') return reply
  }
}
/** For tests that poll with the anon key. */
const withoutRateLimit = { PLATFORM_RATE_LIMIT_ANON: '0' }

const upgradesWaiting = (session: OwnSession) =>
  session.rows<{ datname: string }>(
    raw(`
    select distinct datname from pg_stat_activity
     where application_name = 'plinth' and wait_event_type = 'Lock' and query like '%platform.migrations%'`),
  )

/** The status of a WebSocket handshake, 101 for success. */
const socketStatus = (node: TestPlatform, { id, anon_key }: OutdatedProject) =>
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

const snapshotsOf = (id: string) =>
  here.app.control.rows(
    sql`select status, schema_version from backups where project_id = ${id} and kind = 'upgrade' order by created_at`,
  )

const appliedAt = async ({ ref }: OutdatedProject) =>
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
    // Before one of them has failed because its lock was not free for long.
    assert.match((await warningsOf(node)).join(), /5 projects are waiting to be upgraded/)
    await here.asSuperuser('postgres', session =>
      eventually(async () => (await upgradesWaiting(session)).length === 3, 'three upgrades wait'),
    )
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
  await failMigration(here, failing)
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
  await failMigration(here, failing)
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
    const left = sql`
      select datname as name from pg_database where datname = ${stuck.ref}
      union all select rolname from pg_roles where starts_with(rolname, ${stuck.ref})`
    await here.asSuperuser('postgres', session =>
      eventually(async () => (await session.rows(left)).length === 0, 'its removal'),
    )
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
    const reply = await rowsOnce(node, stuck)
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
    for (const { id } of projects)
      assert.deepEqual(await snapshotsOf(id), [{ status: 'done', schema_version: 'old' }])
  } finally {
    for (const node of nodes) await node.stop()
  }
})

test('upgrades: a project that cannot be backed up is not upgraded and answers 503 with the reason', async () => {
  const [failing, other] = [await outdatedProject(), await outdatedProject()]
  await here.asSuperuser(failing.ref, session =>
    session.script('select lo_create(0) from generate_series(1, 10001)'),
  )
  const node = await startPlatform({ beside: here, settings: withoutRateLimit })
  try {
    await rows(node, failing)
    const refused = await node.call('GET', `/v1/rest/${failing.id}/`, { apikey: failing.service_role_key })
    assert.deepEqual([refused.status, refused.body.code], [503, 'project_upgrade_failed'])
    assert.match(refused.body.message, /the backup before it could not be made: .*10000 large objects/)
    assert.equal(await isUpgraded(failing), false)
    await eventually(async () => (await rows(node, other)).status === 200, 'the other one is served')
    await here.asSuperuser(failing.ref, session =>
      session.script('select lo_unlink(oid) from pg_largeobject_metadata'),
    )
    await eventually(async () => (await rows(node, failing)).status === 200, 'the retry succeeds')
    assert.deepEqual((await snapshotsOf(failing.id)).at(-1), { status: 'done', schema_version: 'old' })
  } finally {
    await node.stop()
  }
})

test('upgrades: those that are started while others are held begin afterwards', async () => {
  const project = await outdatedProject()
  const { control, cluster } = here.app
  const logins = createLogins(here.address, keyring(here.controlPlaneSecret))
  const provisioner = createProvisioner(control, cluster, logins, grantsOf(projectGrants))
  const log = createLog('silent')
  const upgrades = await openUpgrades({ control, cluster, provisioner, log })
  const done: string[] = []
  const steps = {
    async before() {
      done.push('background')
    },
    async after() {},
  }
  try {
    await upgrades.hold(async () => {
      upgrades.start(steps)
      await upgrades.hold(async () => void done.push('inner'))
      await control.script('select pg_sleep(0.5)')
      done.push('outer')
    })
    await eventually(() => isUpgraded(project), 'the project is upgraded')
    assert.deepEqual([...new Set(done)], ['inner', 'outer', 'background'])
  } finally {
    await upgrades.close()
  }
})
