// Redis away, emptied, restarted, frozen, full: told as 503 at once, and put right without anybody's help. Each test has
// a Redis of its own to mistreat.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { createRedisUsers } from '#src/services/cache/redis/users.ts'
import { type CacheProject, cacheProject, until } from '#test/cache-project.ts'
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
  until('the cache serves', async () => (await project.cache('GET', 'exists/a')).status === 200)

test('a user comes with its project', async () => {
  assert.ok((await userNames()).includes(nameOf(project.id)))
})

test('a Redis that was emptied of keys and users serves the next request', async () => {
  await project.set('a', '1')
  await asOperator(['FLUSHALL'], ['ACL', 'DELUSER', nameOf(project.id)])
  // The connection was ended with the user: a request that was on it may be told so, the next one not.
  await serves()
  assert.equal(await project.get('a'), null)
  await project.set('a', '2')
  assert.equal(await project.get('a'), '2')
  assert.ok((await userNames()).includes(nameOf(project.id)))
})

test('a user that was changed is put right, on a connection that is open and on a new one', async () => {
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

test('a Redis that was restarted and knows nothing any more is told of the users again', async () => {
  await project.set('a', '1')
  await redis.kill()
  await redis.start()
  await serves()
  assert.equal(await project.get('a'), null)
  await project.set('a', '2')
  assert.equal(await project.get('a'), '2')
})

test('without Redis the cache answers 503 and everything else as always; with it, again by itself', async () => {
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
  await until('health has nothing to warn of', async () => (await warnings()).length === 0)
})

test('health notices by itself that Redis is back, though nobody uses the cache', async () => {
  await redis.kill()
  assertUnavailable(await project.cache('GET', 'get/a'))
  assert.equal((await warnings()).length, 1)
  await redis.start()
  await until('health has nothing to warn of', async () => (await warnings()).length === 0)
})

test('a Redis that takes connections and says nothing is away, too', async () => {
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

test('a Redis without memory refuses what needs some, and says so', async () => {
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

test('a project made while Redis is away has a cache once Redis is back', async () => {
  await redis.kill()
  let made: CacheProject
  try {
    made = await cacheProject(platform)
    assertUnavailable(await made.cache('GET', 'get/a'))
  } finally {
    await redis.start()
  }
  assert.match(platform.logged.join(''), /"warn".*made on first use/)
  await until('the cache serves', async () => (await made.cache('GET', 'exists/a')).status === 200)
  await made.set('a', '1')
  assert.equal(await made.get('a'), '1')
  assert.ok((await userNames()).includes(nameOf(made.id)))
})

test('a deleted project leaves neither keys nor a user in Redis, and those of others stay', async () => {
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

test('a project deleted while Redis is away is gone from Redis once it is back', async () => {
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
  await until('its keys are gone', async () => (await keysOf(project.id)).length === 0)
  await until('its user is gone', async () => !(await userNames()).includes(nameOf(project.id)))
  await until('it is deleted', async () => {
    const row = await platform.app.control.row<{ status: string }>(
      sql`select status from projects where id = ${project.id}`,
    )
    return row?.status === 'deleted'
  })
})

test('a project that is suspended is disconnected, and back when it is resumed', async () => {
  await project.set('a', '1')
  const connections = async () => {
    const [list] = (await asOperator(['CLIENT', 'LIST'])) as [string]
    return list.split('\n').filter(line => line.includes(`user=${nameOf(project.id)} `)).length
  }
  assert.equal(await connections(), 1)
  await platform.projects.suspend({ params: { id: project.id } })
  await until('its connection is closed', async () => (await connections()) === 0)
  await platform.projects.resume({ params: { id: project.id } })
  await until('it is back', async () => (await project.cache('GET', 'get/a')).status === 200)
  assert.equal(await project.get('a'), '1')
})

test('all requests of a project share one connection', async () => {
  await Promise.all(Array.from({ length: 200 }, (_, number) => project.set(`key ${number}`, 'x')))
  const [list] = (await asOperator(['CLIENT', 'LIST'])) as [string]
  assert.equal(list.split('\n').filter(line => line.includes(`user=${nameOf(project.id)} `)).length, 1)
})
