// Redis down, emptied, restarted, frozen or full: the cache returns 503 at once and recovers by itself. Each test has its
// own Redis.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { createRedisUsers } from '#src/services/cache/redis/users.ts'
import { type CacheProject, cacheProject } from '#test/cache-project.ts'
import { eventually } from '#test/eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from '#test/harness.ts'
import { type RedisServer, startRedis } from '#test/redis-server.ts'

let redis: RedisServer
let platform: TestPlatform
let project: CacheProject
before(async () => {
  redis = await startRedis()
  platform = await startPlatform({ settings: { REDIS_URL: redis.url } })
})
beforeEach(async () => {
  project = await cacheProject(platform)
})
after(async () => {
  await platform?.stop()
  await redis?.stop()
})

const nameOf = (id: string) => createRedisUsers(keyring(platform.controlPlaneSecret)).login(id).user

async function asOperator(...commands: string[][]): Promise<unknown[]> {
  const connection = await redis.connect()
  try {
    return await Promise.all(commands.map(command => connection.send(command)))
  } finally {
    connection.close()
  }
}
const userNames = async () => ((await asOperator(['ACL', 'USERS']))[0] as string[]).sort()
const keysOf = async (id: string) => (await asOperator(['KEYS', `${id}:*`]))[0] as string[]

function assertUnavailable({ status, body, headers }: Reply): void {
  assert.equal(status, 503, JSON.stringify(body))
  assert.equal(body.code ?? body.error.code, 'cache_unavailable')
  assert.equal(headers.get('retry-after'), '1')
}
const warnings = async () => (await platform.call('GET', '/api/v1/health/services')).body.warnings as string[]
const serves = () =>
  eventually(async () => (await project.cache('GET', 'exists/a')).status === 200, 'the cache serves')

test('cache faults: creating a project creates its Redis user', async () => {
  assert.ok((await userNames()).includes(nameOf(project.id)))
})

test('cache faults: after FLUSHALL and removal of users the next request works', async () => {
  await project.set('a', '1')
  await asOperator(['FLUSHALL'], ['ACL', 'DELUSER', nameOf(project.id)])
  // Deleting the user closes its connection. A request on it may fail, the next one must not.
  await serves()
  assert.equal(await project.get('a'), null)
  await project.set('a', '2')
  assert.equal(await project.get('a'), '2')
  assert.ok((await userNames()).includes(nameOf(project.id)))
})

test('cache faults: a modified Redis user is repaired, on open and on new connections', async () => {
  await project.set('a', '1')
  await asOperator(['ACL', 'SETUSER', nameOf(project.id), '-get', 'resetkeys'])
  assert.equal(await project.get('a'), '1')
  await asOperator(
    ['ACL', 'SETUSER', nameOf(project.id), 'off', 'resetpass'],
    ['CLIENT', 'KILL', 'USER', nameOf(project.id)],
  )
  await serves()
  assert.equal(await project.get('a'), '1')
})

test('cache faults: users are created again after Redis restarts without data', async () => {
  await project.set('a', '1')
  await redis.kill()
  await redis.start()
  await serves()
  assert.equal(await project.get('a'), null)
  await project.set('a', '2')
  assert.equal(await project.get('a'), '2')
})

test('cache faults: without Redis only the cache returns 503, and it recovers by itself', async () => {
  await project.set('a', '1')
  assert.deepEqual(await warnings(), [])
  await redis.kill()
  try {
    for (const reply of [
      await project.cache('GET', 'get/a'),
      await project.cache('POST', 'set', { key: 'a', value: '2' }),
      await project.cache('GET', 'scan'),
      await project.cache('POST', 'mget', { keys: ['a'] }),
      await project.manage('GET', 'keys'),
      await project.manage('GET', 'keys/a'),
      await project.manage('POST', 'flush'),
    ])
      assertUnavailable(reply)
    const { service_role_key: token } = project
    assert.equal((await platform.call('GET', `/v1/whoami/${project.id}`, { token })).status, 200)
    const { body } = await platform.call('GET', '/api/v1/health/services')
    assert.equal(body.status, 'degraded')
    assert.match(body.warnings.join(), /Redis cannot be reached/)
    assert.match(platform.logged.join(''), /"warn".*Redis cannot be reached/)
  } finally {
    await redis.start()
  }
  await serves()
  await eventually(async () => (await warnings()).length === 0, 'health has nothing to warn of')
})

test('cache faults: health notices that Redis is back even if nobody uses the cache', async () => {
  await redis.kill()
  assertUnavailable(await project.cache('GET', 'get/a'))
  assert.equal((await warnings()).length, 1)
  await redis.start()
  await eventually(async () => (await warnings()).length === 0, 'health has nothing to warn of')
})

test('cache faults: a Redis that accepts connections but does not respond counts as down', async () => {
  await project.set('a', '1')
  redis.signal('SIGSTOP')
  try {
    assertUnavailable(await project.cache('GET', 'get/a'))
    assertUnavailable(await project.cache('GET', 'get/a'))
    assertUnavailable(await project.manage('GET', 'keys'))
  } finally {
    redis.signal('SIGCONT')
  }
  await serves()
  assert.equal(await project.get('a'), '1')
})

test('cache faults: a Redis that is out of memory rejects writes with a message', async () => {
  await project.set('a', '1')
  await asOperator(['CONFIG', 'SET', 'maxmemory-policy', 'noeviction'], ['CONFIG', 'SET', 'maxmemory', '1'])
  try {
    const refused = await project.cache('POST', 'set', { key: 'b', value: 'x' })
    assertUnavailable(refused)
    assert.match(refused.body.message, /no memory left/)
    assert.equal(await project.get('a'), '1')
    assert.deepEqual((await project.cache('POST', 'del', { keys: ['a'] })).body, { deleted: 1 })
  } finally {
    await asOperator(['CONFIG', 'SET', 'maxmemory', '0'])
  }
  await project.set('b', 'x')
})

test('cache faults: a project created without Redis has a cache once Redis is back', async () => {
  await redis.kill()
  let made: CacheProject
  try {
    made = await cacheProject(platform)
    assertUnavailable(await made.cache('GET', 'get/a'))
  } finally {
    await redis.start()
  }
  assert.match(platform.logged.join(''), /"warn".*retries on first use/)
  await eventually(async () => (await made.cache('GET', 'exists/a')).status === 200, 'the cache serves')
  await made.set('a', '1')
  assert.equal(await made.get('a'), '1')
  assert.ok((await userNames()).includes(nameOf(made.id)))
})

test('cache faults: deleting a project removes its keys and user from Redis, and no others', async () => {
  const other = await cacheProject(platform)
  await other.set('a', 'theirs')
  const pairs = Object.fromEntries(Array.from({ length: 3000 }, (_, number) => [`key ${number}`, 'x']))
  await project.cache('POST', 'mset', { pairs })
  assert.equal((await keysOf(project.id)).length, 3000)
  await platform.projects.remove({ params: { id: project.id } })
  assert.deepEqual(await keysOf(project.id), [])
  const users = await userNames()
  assert.ok(!users.includes(nameOf(project.id)))
  assert.ok(users.includes(nameOf(other.id)))
  assert.equal(await other.get('a'), 'theirs')
})

test('cache faults: a project deleted without Redis is removed from Redis once it is back', async () => {
  await project.set('a', '1')
  redis.signal('SIGSTOP')
  try {
    const reply = await platform.call('DELETE', `/api/v1/projects/${project.id}`, {
      token: platform.adminToken,
    })
    assertUnavailable(reply)
  } finally {
    redis.signal('SIGCONT')
  }
  await eventually(async () => (await keysOf(project.id)).length === 0, 'its keys are gone')
  await eventually(async () => !(await userNames()).includes(nameOf(project.id)), 'its user is gone')
  await eventually(async () => {
    const row = await platform.app.control.row<{ status: string }>(
      sql`select status from projects where id = ${project.id}`,
    )
    return row?.status === 'deleted'
  }, 'it is deleted')
})

test('cache faults: suspending a project disconnects it, and resuming it restores the cache', async () => {
  await project.set('a', '1')
  const connections = async () => {
    const [list] = (await asOperator(['CLIENT', 'LIST'])) as [string]
    return list.split('\n').filter(line => line.includes(`user=${nameOf(project.id)} `)).length
  }
  assert.equal(await connections(), 1)
  await platform.projects.suspend({ params: { id: project.id } })
  await eventually(async () => (await connections()) === 0, 'its connection is closed')
  await platform.projects.resume({ params: { id: project.id } })
  await eventually(async () => (await project.cache('GET', 'get/a')).status === 200, 'it is back')
  assert.equal(await project.get('a'), '1')
})

test('cache faults: all requests of a project share one connection', async () => {
  await Promise.all(Array.from({ length: 200 }, (_, number) => project.set(`key ${number}`, 'x')))
  const [list] = (await asOperator(['CLIENT', 'LIST'])) as [string]
  assert.equal(list.split('\n').filter(line => line.includes(`user=${nameOf(project.id)} `)).length, 1)
})
