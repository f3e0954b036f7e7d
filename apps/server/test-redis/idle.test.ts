// Thousands of projects may be idle at once, so an idle one holds no connection to Redis. A separate file, because the test
// has to wait.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cacheProject } from '#test/cache-project.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { type RedisServer, startRedis } from '#test/redis-server.ts'

let redis: RedisServer
let platform: TestPlatform
before(async () => {
  redis = await startRedis()
  platform = await startPlatform({ settings: { REDIS_URL: redis.url } })
})
after(async () => {
  await platform?.stop()
  await redis?.stop()
})

/** Connections by user, without the one that asks. */
async function connections(): Promise<string[]> {
  const operator = await redis.connect()
  const list = String(await operator.send(['CLIENT', 'LIST']))
  const own = String(await operator.send(['CLIENT', 'ID']))
  operator.close()
  return list
    .split('\n')
    .filter(line => line !== '' && !line.startsWith(`id=${own} `))
    .map(line => / user=(\S+) /.exec(line)![1]!)
}

test('cache: idle projects hold no Redis connection, an active one keeps its own, and all work', async () => {
  const [asleep, awake] = [await cacheProject(platform), await cacheProject(platform)]
  await asleep.set('a', '1')
  await awake.set('a', '1')
  assert.equal((await connections()).filter(user => user.startsWith('plinth-')).length, 2)
  await eventually(async () => {
    await awake.get('a')
    return (await connections()).join() === `plinth-${awake.id}`
  }, 'one is left')
  assert.equal(await asleep.get('a'), '1')
  await eventually(async () => (await connections()).length === 0, 'none is left')
  assert.equal(await awake.get('a'), '1')
})
