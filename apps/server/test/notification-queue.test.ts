// All databases of a server share one notification queue, which any project can fill. The platform works without it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

let server: OwnServer
let platform: TestPlatform
let beside: TestPlatform
const clients: pg.Client[] = []

before(async () => {
  // The smallest possible queue: 64 pages.
  server = await startOwnServer({ max_notify_queue_pages: '64' })
  platform = await startPlatform({ server })
  // A test polls this node.
  beside = await startPlatform({ beside: platform, settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
})
after(async () => {
  await Promise.all(clients.map(client => client.end().catch(() => {})))
  try {
    await beside?.stop()
    await platform?.stop()
  } finally {
    await server?.stop()
  }
})

async function logIn(ref: string): Promise<pg.Client> {
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const { host, port, user, password } = logins.address(ref, 'owner')
  const client = new pg.Client({ host, port, user, password, database: ref })
  client.on('error', () => {}) // the watchdog ends some of them
  await client.connect()
  clients.push(client)
  return client
}

const usage = () =>
  platform.asSuperuser('postgres', async session => {
    const { used } = (await session.row<{ used: number }>(sql`select pg_notification_queue_usage() as used`))!
    return used
  })

/** Fills the queue while a listening session with an open transaction prevents its cleanup. */
async function fill(ref: string): Promise<void> {
  const listener = await logIn(ref)
  await listener.query('listen c')
  await listener.query('begin')
  await listener.query('select 1')
  const sender = await logIn(ref)
  const send = () =>
    sender.query(`select pg_notify('c', repeat('x', 7000) || i) from generate_series(1, 8) i`).then(
      () => false,
      (error: { code?: string }) => error.code === '54000',
    )
  while (!(await send())) assert.ok((await listener.query('select 1')).rowCount)
}

test('notification queue: management requests work with a full queue and reach every node', async () => {
  const [culprit, other] = await Promise.all([platform.createProject(), platform.createProject()])
  await fill(await platform.refOf(culprit.id))
  const act = (method: string, path: string, body?: object) =>
    platform.call(method, `/api/v1/projects${path}`, { token: platform.adminToken, body })
  const seenThere = (apikey: string) => beside.call('GET', `/v1/whoami/${other.id}`, { apikey })
  const reachesStatus = (apikey: string, status: number) =>
    eventually(async () => (await seenThere(apikey)).status === status, `the other node answers ${status}`)
  assert.equal((await seenThere(other.anon_key)).status, 200)

  assert.equal((await act('POST', `/${other.id}/suspend`)).status, 200)
  await reachesStatus(other.anon_key, 403)
  assert.equal((await act('POST', `/${other.id}/resume`)).status, 200)
  await reachesStatus(other.anon_key, 200)
  const rotated = await act('POST', `/${other.id}/rotate/api-keys`)
  assert.equal(rotated.status, 200)
  await reachesStatus(other.anon_key, 401)
  await reachesStatus(rotated.body.anon_key, 200)
  const made = await act('POST', '', { name: 'made while the queue is full' })
  assert.equal(made.status, 201)
  assert.equal((await act('DELETE', `/${other.id}`)).status, 204)
  await reachesStatus(rotated.body.anon_key, 401)
  assert.equal((await act('POST', `/${culprit.id}/suspend`)).status, 200)
})

test('notification queue: a session that blocks a half full queue is terminated, and the queue is emptied', async () => {
  const culprit = await platform.createProject()
  await fill(await platform.refOf(culprit.id))
  await eventually(async () => (await usage()) < 0.5, 'the queue is emptied')
  const ended = platform.logged.filter(line => line.includes('notification queue'))
  assert.ok(ended.length > 0, 'the termination is logged')
})
