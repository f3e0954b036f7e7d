// Access of members, other users and hostile owners to caches, with the engine of this run. Expensive patterns and large
// answers are in cache.test.ts.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { MemberRole } from '@plinth/contract/team.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type CacheProject, cacheProject } from './cache-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CacheProject
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_TRUSTED_PROXIES: '127.0.0.1/32' } })
  project = await cacheProject(platform)
})
after(() => platform.stop())

let userCount = 0
/** The session token of a new user who logs in from a separate IP address. */
async function logInAs(role: PlatformRole, seat?: MemberRole): Promise<string> {
  const login = { email: `person${++userCount}@example.test`, password: 'a long enough password' }
  const { id } = await platform.admin.createUser({ body: { ...login, role } })
  if (seat)
    await platform.app.control.run(
      sql`insert into members (project_id, user_id, role) values (${project.id}, ${id}, ${seat})`,
    )
  const headers = { 'x-forwarded-for': `10.0.0.${userCount}` }
  const { body } = await platform.call('POST', '/api/v1/platform/login', { body: login, headers })
  return body.token
}

const reads = ['cache/keys', 'cache/keys/kept', 'cache/stats', 'cron/jobs', 'cron/jobs/tidy/runs']
const writes: [method: string, path: string, body?: unknown][] = [
  ['POST', 'cache/keys', { key: 'kept', value: 'changed' }],
  ['DELETE', 'cache/keys/kept'],
  ['POST', 'cache/flush'],
]

test('cache, cron: members can do what their role allows, other callers are rejected', async () => {
  await project.set('kept', 'as it was')
  const scheduled = await platform.call('POST', `/v1/cron/${project.id}/jobs`, {
    token: project.service_role_key,
    body: { name: 'tidy', schedule: '0 0 29 2 *', command: 'select 1' },
  })
  assert.equal(scheduled.status, 201)
  const ask = (token: string, method: string, path: string, body?: unknown) =>
    platform.call(method, `/api/v1/projects/${project.id}/${path}`, { token, body })
  const expected: Record<string, [reading: number, writing: number]> = {
    read_only: [200, 403],
    editor: [200, 403],
    'a viewer as owner': [200, 403],
    'a user without membership': [403, 403],
    'the service_role key': [401, 401],
    'the anon key': [401, 401],
  }
  const tokens: Record<string, string> = {
    read_only: await logInAs('project_admin', 'read_only'),
    editor: await logInAs('developer', 'editor'),
    'a viewer as owner': await logInAs('viewer', 'owner'),
    'a user without membership': await logInAs('project_admin'),
    'the service_role key': project.service_role_key,
    'the anon key': project.anon_key,
  }
  for (const [who, [reading, writing]] of Object.entries(expected)) {
    for (const path of reads)
      assert.equal((await ask(tokens[who]!, 'GET', path)).status, reading, `${who}: GET ${path}`)
    for (const [method, path, body] of writes)
      assert.equal((await ask(tokens[who]!, method, path, body)).status, writing, `${who}: ${method} ${path}`)
  }
  assert.equal(await project.get('kept'), 'as it was')
  const admin = await logInAs('project_admin', 'admin')
  for (const [method, path, body] of writes) assert.ok((await ask(admin, method, path, body)).status < 300)
  assert.equal(await project.get('kept'), null)
  // The answer does not show whether the project exists.
  const [here, nowhere] = await Promise.all(
    [project.id, crypto.randomUUID()].map(id =>
      platform.call('POST', `/api/v1/projects/${id}/cache/flush`, {
        token: tokens['a user without membership']!,
      }),
    ),
  )
  assert.deepEqual([here!.status, here!.body], [nowhere!.status, nowhere!.body])
})

test('cache: every key change is in the audit log, without values', async () => {
  const own = await cacheProject(platform)
  const value = `secret-${crypto.randomUUID()}`
  const keys = ['nul\0key', '\0', 'k'.repeat(2048), '😀', '\u202e', `'; drop table audit; --`, '%00']
  for (const key of keys) {
    assert.equal((await own.manage('POST', 'keys', { key, value })).status, 201)
    assert.equal((await own.manage('DELETE', `keys/${encodeURIComponent(key)}`)).status, 204)
  }
  const entries = await platform.app.control.rows<{ action: string; text: string }>(
    sql`select action, audit::text as text from audit where project_id = ${own.id} and action like 'cache.%'`,
  )
  assert.equal(entries.filter(({ action }) => action === 'cache.key_deleted').length, keys.length)
  assert.equal(entries.filter(({ action }) => action === 'cache.key_set').length, keys.length)
  assert.ok(!entries.some(({ text }) => text.includes(value)))
  assert.ok(!platform.logged.some(line => line.includes(value)))
})

/** The status of a request with this exact path, which fetch would normalize. */
const statusOfRawPath = (path: string) =>
  new Promise<number>((resolve, reject) => {
    const { hostname, port } = new URL(platform.url)
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${project.service_role_key}\r\nConnection: close\r\n\r\n`,
      ),
    )
    let text = ''
    socket.on('data', bytes => {
      text += bytes
    })
    socket.on('end', () => resolve(Number(text.split(' ')[1])))
    socket.on('error', reject)
  })

test('cache: a key in a path is decoded once, and an invalid encoding is 400', async () => {
  for (const key of ['a/b', 'a%2Fb', 'a%252Fb', '%', '%25', 'a;b', 'a?b', 'a#b', 'a+b', 'a b', '.', '..'])
    await project.set(key, key)
  const found: Record<string, string> = {
    'a%2Fb': 'a/b',
    'a%252Fb': 'a%2Fb',
    'a%25252Fb': 'a%252Fb',
    '%25': '%',
    '%2525': '%25',
    'a;b': 'a;b',
    'a%3Fb': 'a?b',
    'a%23b': 'a#b',
    'a+b': 'a+b',
    'a%20b': 'a b',
    '%2e': '.',
    '%2E%2e': '..',
  }
  for (const [path, key] of Object.entries(found)) {
    await platform.call('POST', `/v1/cache/${project.id}/del`, {
      token: project.service_role_key,
      body: { keys: [key] },
    })
    assert.equal(await statusOfRawPath(`/v1/cache/${project.id}/get/${path}`), 404, `${path} is ${key}`)
    await project.set(key, key)
    assert.equal(await statusOfRawPath(`/v1/cache/${project.id}/get/${path}`), 200, `${path} is ${key}`)
  }
  for (const path of ['%', '%f', '%zz', '%ff', '%c0%af', '%ed%a0%80', '%f4%90%80%80', '%c3%28', 'a%00%ff'])
    for (const address of [`/v1/cache/${project.id}/get/`, `/v1/${project.id}/cache/v1/get/`])
      assert.equal(await statusOfRawPath(address + path), 400, path)
})

test('cache: deleting a project during requests removes its cache', async () => {
  const own = await cacheProject(platform)
  const statuses = new Set<number>()
  let isOver = false
  const users = Array.from({ length: 8 }, async (_, user) => {
    for (let number = 0; !isOver; number++) {
      const { status } = await own.cache('POST', 'set', { key: `${user} ${number}`, value: 'v' })
      statuses.add(status)
    }
  })
  await eventually(() => statuses.has(200), 'the cache is used')
  await platform.projects.remove({ params: { id: own.id } })
  await eventually(async () => (await own.cache('GET', 'exists/x')).status === 401, 'the project is deleted')
  isOver = true
  await Promise.all(users)
  for (const status of statuses) assert.ok([200, 401, 403, 503].includes(status), `${status}`)
  assert.equal((await own.manage('GET', 'stats')).status, 404)
})
