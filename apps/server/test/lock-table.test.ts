// With default settings the lock table of a server has 6400 entries. One session can fill it in milliseconds.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

let server: OwnServer
let platform: TestPlatform
let culprit: CreatedProject
let other: CreatedProject

before(async () => {
  server = await startOwnServer({ max_locks_per_transaction: '64', max_connections: '100' })
  platform = await startPlatform({ server })
  culprit = await platform.createProject()
  other = await platform.createProject()
  await execSql(other, 'create table notes (id int); create policy everybody on notes using (true)')
  await execSql(
    culprit,
    `create function hoard(many int) returns bigint language sql as
       $$ select count(pg_advisory_lock(i)) from generate_series(1, many) i $$`,
  )
})
after(async () => {
  try {
    await platform?.stop()
  } finally {
    await server?.stop()
  }
})

const execSql = ({ id, service_role_key }: CreatedProject, sql: string) =>
  platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, { apikey: service_role_key, body: { sql } })

/** Takes locks in a session of the owner until the table is full, and keeps them. Returns whether it was full. */
async function fillLockTable(): Promise<boolean> {
  const ref = await platform.refOf(culprit.id)
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const { host, port, user, password } = logins.address(ref, 'owner')
  const client = new pg.Client({ host, port, user, password, database: ref })
  client.on('error', () => {}) // the watchdog ends it
  const ended = new Promise(resolve => client.once('end', resolve))
  await client.connect()
  const isFull = await client.query('select pg_advisory_lock(i) from generate_series(1, 50000) i').then(
    () => false,
    (error: { code?: string }) => error.code === '53200',
  )
  await ended
  return isFull
}

/** Requests of another project and of the operator, on existing and on new connections. */
const acts: [string, () => Promise<Reply>][] = [
  ['read', () => platform.call('GET', `/v1/rest/${other.id}/notes`, { apikey: other.anon_key })],
  [
    'write',
    () =>
      platform.call('POST', `/v1/rest/${other.id}/notes`, {
        apikey: other.service_role_key,
        body: { id: 1 },
      }),
  ],
  ['SQL', () => execSql(other, 'select 1')],
  [
    'sign-up',
    () =>
      platform.call('POST', `/v1/auth/${other.id}/signup`, {
        apikey: other.anon_key,
        body: { email: `${crypto.randomUUID()}@example.com`, password: 'long enough for anybody' },
      }),
  ],
  ['management', () => platform.call('GET', `/api/v1/projects/${other.id}`, { token: platform.adminToken })],
]

test('lock table: while one project fills the lock table, statements of others do not fail', async () => {
  for (const [, act] of acts) assert.ok((await act()).status < 300)
  const failures: string[] = []
  let isOver = false
  let passed: () => void = () => {}
  /** Resolves after a full round of requests. */
  const nextPass = () => new Promise<void>(resolve => (passed = resolve))
  const neighbours = (async () => {
    while (!isOver) {
      // Also tests new connections.
      platform.app.databases.disconnect(other.id)
      for (let round = 0; round < 3; round++)
        await Promise.all(
          acts.map(async ([name, act]) => {
            const reply = await act()
            if (reply.status >= 500) failures.push(`${name}: ${reply.status} ${JSON.stringify(reply.body)}`)
          }),
        )
      passed()
    }
  })()
  let full = 0
  try {
    for (let round = 0; round < 6 || (full === 0 && round < 40); round++) {
      if (await fillLockTable()) full++
      await Promise.race([nextPass(), neighbours])
    }
  } finally {
    isOver = true
    await neighbours
  }
  assert.ok(full > 0, 'the lock table was full at least once')
  assert.deepEqual(failures, [])
})

test('lock table: health names the settings that are too small and a sufficient value', async () => {
  const { body } = await platform.call('GET', '/api/v1/health/services', { token: platform.adminToken })
  const warning = body.warnings.find((line: string) => line.includes('max_locks_per_transaction'))
  assert.match(warning, /6400 locks.*max_connections 100.*to 1024 or more/)
})
