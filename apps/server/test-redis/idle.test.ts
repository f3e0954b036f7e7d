// Thousands of projects may be asleep at once: an idle one holds no connection to Redis. In a file of its own, because
// it has to wait.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cacheProject, until } from '#test/cache-project.ts'
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

/** By user; without the one that asks. */
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

test('projects that are not used hold no connection, one that is keeps its own, and all serve', async () => {
  const [asleep, awake] = [await cacheProject(platform), await cacheProject(platform)]
  await asleep.set('a', '1')
  await awake.set('a', '1')
  assert.equal((await connections()).filter(user => user.startsWith('plinth-')).length, 2)
  await until(
    'one is left',
    async () => {
      await awake.get('a')
      return (await connections()).join() === `plinth-${awake.id}`
    },
    90,
  )
  assert.equal(await asleep.get('a'), '1')
  await until('none is left', async () => (await connections()).length === 0, 90)
  assert.equal(await awake.get('a'), '1')
})
