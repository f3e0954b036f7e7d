// Keys of all five types, written by a plain Redis client and read through the management plane.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { connectRedis, type RedisConnection } from '#src/kernel/redis/connection.ts'
import { type CacheProject, cacheProject } from '#test/cache-project.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'

let platform: TestPlatform
let project: CacheProject
let redis: RedisConnection
before(async () => {
  platform = await startPlatform()
  project = await cacheProject(platform)
  redis = await connectRedis(parseRedisUrl(platform.config.redisUrl!))
})
after(async () => {
  redis?.close()
  await platform?.stop()
})

const whole = (key: string) => `${project.id}:${key}`
const many = Array.from({ length: 1500 }, (_, number) => `m${number}`)

test('cache types: all five types are read with type, ttl and size', async () => {
  await redis.send(['SET', whole('string'), 'tèxt\0', 'EX', '100'])
  await redis.send(['HSET', whole('hash'), 'a', '1', '__proto__', '2'])
  await redis.send(['RPUSH', whole('list'), 'x', 'y', 'x'])
  await redis.send(['SADD', whole('set'), 'x', 'y'])
  await redis.send(['ZADD', whole('zset'), '1.5', 'b', '-2', 'a', 'inf', 'c'])
  const read = async (key: string) => {
    const { status, body } = await project.manage('GET', `keys/${key}`)
    assert.equal(status, 200)
    assert.equal(body.key, key)
    assert.equal(body.truncated, false)
    assert.ok(body.size > 0)
    return body
  }
  const string = await read('string')
  assert.deepEqual([string.type, string.value, string.size], ['string', 'tèxt\0', 6])
  assert.ok(string.ttl > 0 && string.ttl <= 100)
  const hash = await read('hash')
  assert.deepEqual(
    [hash.type, JSON.stringify(hash.value), hash.ttl],
    ['hash', '{"a":"1","__proto__":"2"}', -1],
  )
  const list = await read('list')
  assert.deepEqual([list.type, list.value], ['list', ['x', 'y', 'x']])
  const set = await read('set')
  assert.deepEqual([set.type, set.value.sort()], ['set', ['x', 'y']])
  const zset = await read('zset')
  assert.deepEqual(zset.type, 'zset')
  assert.deepEqual(zset.value, [
    { member: 'a', score: -2 },
    { member: 'b', score: 1.5 },
    { member: 'c', score: 'inf' },
  ])
  const { body } = await project.manage('GET', 'keys')
  assert.deepEqual(
    body.keys.map(({ key, type }: { key: string; type: string }) => [key, type]).sort(),
    ['hash', 'list', 'set', 'string', 'zset'].map(type => [type, type]),
  )
  assert.equal((await project.manage('GET', 'stats')).body.key_count, 5)
})

test('cache types: of more than 1000 elements the first 1000 are returned, marked as truncated', async () => {
  await redis.send(['HSET', whole('many hash'), ...many.flatMap(each => [each, each])])
  await redis.send(['RPUSH', whole('many list'), ...many])
  await redis.send(['SADD', whole('many set'), ...many])
  await redis.send(['ZADD', whole('many zset'), ...many.flatMap((each, number) => [String(number), each])])
  for (const type of ['hash', 'list', 'set', 'zset']) {
    const { body } = await project.manage('GET', `keys/many%20${type}`)
    assert.equal(body.truncated, true, type)
    assert.equal(Object.keys(body.value).length, 1000, type)
  }
})

test('cache types: exactly 1000 elements are not marked as truncated', async () => {
  await redis.send(['SADD', whole('thousand'), ...many.slice(0, 1000)])
  const { body } = await project.manage('GET', 'keys/thousand')
  assert.equal(body.truncated, false)
  assert.deepEqual(body.value.sort(), many.slice(0, 1000).sort())
})

test('cache types: a string command on another type gets 400 and changes nothing', async () => {
  await redis.send(['RPUSH', whole('other type'), 'x'])
  const get = await project.cache('GET', 'get/other%20type')
  assert.deepEqual([get.status, get.body.code], [400, 'wrong_type'])
  const incr = await project.cache('POST', 'incr', { key: 'other type' })
  assert.deepEqual([incr.status, incr.body.code], [400, 'wrong_type'])
  assert.deepEqual((await project.cache('POST', 'mget', { keys: ['other type'] })).body, { values: [null] })
  assert.deepEqual((await project.cache('GET', 'exists/other%20type')).body, { exists: true })
  assert.deepEqual((await project.cache('GET', 'ttl/other%20type')).body, { ttl: -1 })
  assert.deepEqual((await project.cache('POST', 'expire', { key: 'other type', seconds: 100 })).body, {
    applied: true,
  })
  assert.deepEqual(await redis.send(['LRANGE', whole('other type'), '0', '-1']), ['x'])
  assert.deepEqual((await project.cache('POST', 'set', { key: 'other type', value: 'text' })).body, {
    ok: true,
  })
  assert.equal(await project.get('other type'), 'text')
})

test('cache types: keys that are not valid UTF-8 are counted, listed and flushed', async () => {
  const strange = await cacheProject(platform)
  await redis.send(['SET', Buffer.concat([Buffer.from(`${strange.id}:`), Buffer.from([0xff, 0, 0xfe])]), 'x'])
  await redis.send(['XADD', `${strange.id}:stream`, '*', 'a', 'b'])
  const { body } = await strange.manage('GET', 'keys')
  assert.equal(body.total, 2)
  assert.deepEqual(body.keys.map(({ type }: { type: string }) => type).sort(), ['stream', 'string'])
  assert.equal((await strange.manage('GET', 'keys/stream')).body.value, null)
  assert.deepEqual((await strange.manage('POST', 'flush')).body, { deleted: 2 })
  assert.equal((await strange.manage('GET', 'keys')).body.total, 0)
})
