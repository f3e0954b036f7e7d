// Starting with a Redis that is down, rejects the login or forbids it to manage users, and the log lines for that.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createRedisUsers } from '#src/services/cache/redis/users.ts'
import { cacheProject } from '#test/cache-project.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform } from '#test/harness.ts'
import { startRedis } from '#test/redis-server.ts'

const undo: (() => Promise<void>)[] = []
after(async () => {
  for (const step of undo.reverse()) await step()
})

async function start(redisUrl: string) {
  const platform = await startPlatform({ settings: { REDIS_URL: redisUrl } })
  undo.push(() => platform.stop())
  const services = async () => (await platform.call('GET', '/api/v1/health/services')).body
  return { platform, services }
}

test('cache start: the platform starts without Redis, warns, and serves caches once Redis is up', async () => {
  const redis = await startRedis()
  undo.push(() => redis.stop())
  await redis.kill()
  const { platform, services } = await start(redis.url)
  assert.match(platform.logged.join(''), /"warn".*Redis cannot be reached/)
  assert.deepEqual((await services()).status, 'degraded')
  const project = await cacheProject(platform)
  assert.equal((await project.cache('GET', 'get/a')).status, 503)
  await redis.start()
  await eventually(async () => (await project.cache('GET', 'get/a')).status === 404, 'the cache serves')
  assert.deepEqual((await services()).warnings, [])
})

test('cache start: a rejected Redis login is reported, and the log has no password', async () => {
  const redis = await startRedis()
  undo.push(() => redis.stop())
  const connection = await redis.connect()
  await connection.send(['ACL', 'SETUSER', 'plinth', 'on', '>correct-horse', '~*', '&*', '+@all'])
  const url = (password: string) => redis.url.replace('//', `//plinth:${password}@`)

  const refused = await start(url('battery-staple'))
  assert.match((await refused.services()).warnings.join(), /refuses the login of REDIS_URL/)
  const project = await cacheProject(refused.platform)
  assert.equal((await project.cache('GET', 'get/a')).status, 503)
  assert.equal((await project.manage('GET', 'keys')).status, 503)

  const served = await start(url('correct-horse'))
  const other = await cacheProject(served.platform)
  await other.set('a', '1')
  await connection.send(['ACL', 'SETUSER', 'plinth', '-acl'])
  await connection.send([
    'ACL',
    'DELUSER',
    createRedisUsers(keyring(served.platform.controlPlaneSecret)).login(other.id).user,
  ])
  // The first error may come from the connection that DELUSER closed. The request after it shows the cause.
  await eventually(async () => {
    const { status } = await other.cache('GET', 'get/a')
    const { warnings } = await served.services()
    return status === 503 && /does not let the login of REDIS_URL manage users/.test(warnings.join())
  }, 'the request is rejected, and health has the reason')
  await connection.send(['ACL', 'SETUSER', 'plinth', '+acl'])
  await eventually(async () => (await other.cache('GET', 'get/a')).status === 200, 'it is served')
  assert.deepEqual((await served.services()).warnings, [])
  connection.close()

  for (const { platform } of [refused, served]) {
    const log = platform.logged.join('')
    const { password } = createRedisUsers(keyring(platform.controlPlaneSecret)).login(other.id)
    for (const secret of ['battery-staple', 'correct-horse', password]) assert.ok(!log.includes(secret))
  }
})
