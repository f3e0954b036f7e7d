// 2 §4.1: expiry of keys, and conditional writes. Times are long where a key must still exist and short only
// where it must expire.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CacheApi, cacheProject } from '../cache.ts'
import { unique } from '../people.ts'
import { bodyOf } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let cache: CacheApi
before(async () => {
  it = await target()
  cache = await cacheProject(it)
})
after(() => it.stop())

/** Checks the remaining seconds, with tolerance for a slow machine. */
async function assertLives(key: string, seconds: number): Promise<void> {
  const ttl = await cache.ttl(key)
  assert.ok(Number.isInteger(ttl) && ttl <= seconds && ttl > seconds - 300, `${ttl} of ${seconds}`)
}

const gone = (key: string) =>
  until(`${key} expires`, async () => (await cache.get(`get/${key}`)).status === 404)

test('2 §4.1 ttl is -1 without expiry and -2 when the key is absent', async () => {
  const key = unique('ttl')
  assert.deepEqual(bodyOf(await cache.get(`ttl/${key}`)), { ttl: -2 })
  await cache.set(key, 'x')
  assert.deepEqual(bodyOf(await cache.get(`ttl/${key}`)), { ttl: -1 })
  await cache.del(key)
  assert.equal(await cache.ttl(key), -2)
})

test('2 §4.1 ex is in seconds, px in milliseconds', async () => {
  const key = unique('units')
  await cache.set(key, 'x', { ex: 5000 })
  await assertLives(key, 5000)
  await cache.set(key, 'x', { px: 3_000_000 })
  await assertLives(key, 3000)
})

test('2 §4.1 ex wins over px when both are sent', async () => {
  const key = unique('precedence')
  await cache.set(key, 'x', { ex: 1000, px: 9_000_000 })
  await assertLives(key, 1000)
  await cache.set(key, 'x', { px: 1, ex: 9000 })
  assert.equal(await cache.value(key), 'x')
  await assertLives(key, 9000)
})

test('2 §4.1 an expired key is absent for every route', async () => {
  for (const life of [{ px: 1 }, { px: 300 }, { ex: 1 }]) {
    const key = unique('short')
    assert.equal(await cache.set(key, '5', life), true)
    await gone(key)
    assert.equal(await cache.ttl(key), -2)
    assert.equal(await cache.exists(key), false)
    assert.deepEqual(await cache.mget(key), [null])
    assert.ok(!(await cache.scan({ match: `${key}*` })).includes(key))
    assert.equal(await cache.expire(key, 1000), false)
    assert.equal(await cache.del(key), 0)
    assert.equal(await cache.set(key, 'x', { xx: true }), false)
    assert.equal(bodyOf(await cache.post('incr', { key })).value, 1)
    assert.equal(await cache.ttl(key), -1)
  }
})

test('2 §4.1 an expired key counts as absent for nx', async () => {
  const key = unique('nx')
  await cache.set(key, 'old', { px: 50 })
  await gone(key)
  assert.equal(await cache.set(key, 'new', { nx: true }), true)
  assert.deepEqual([await cache.value(key), await cache.ttl(key)], ['new', -1])
})

test('2 §4.1 a key with less than a second left has ttl 0, not -1', async () => {
  for (let i = 0; i < 10; i++) {
    const key = unique('moment')
    await cache.set(key, 'x', { px: 400 })
    assert.ok([0, -2].includes(await cache.ttl(key)))
  }
})

test('2 §4.1 a set without expiry clears it; a set with one replaces it', async () => {
  const key = unique('cleared')
  await cache.set(key, 'x', { ex: 1000 })
  await cache.set(key, 'y')
  assert.equal(await cache.ttl(key), -1)
  await cache.set(key, 'y', { ex: 1000 })
  await cache.set(key, 'z', { ex: 5000 })
  await assertLives(key, 5000)
  await cache.mset({ [key]: 'w' })
  assert.equal(await cache.ttl(key), -1)
})

test('2 §4.1 nx sets only if the key is absent', async () => {
  const key = unique('nx')
  const set = (value: string, options: object) => cache.post('set', { key, value, nx: true, ...options })
  assert.deepEqual(bodyOf(await set('first', { ex: 5000 })), { ok: true })
  assert.deepEqual(bodyOf(await set('second', { ex: 100 })), { ok: false })
  assert.deepEqual(bodyOf(await set('third', {})), { ok: false })
  assert.equal(await cache.value(key), 'first')
  await assertLives(key, 5000)
})

test('2 §4.1 xx sets only if the key is present', async () => {
  const key = unique('xx')
  const set = (value: string, options = {}) => cache.post('set', { key, value, xx: true, ...options })
  assert.deepEqual(bodyOf(await set('first')), { ok: false })
  assert.equal(await cache.exists(key), false)
  await cache.set(key, 'there')
  assert.deepEqual(bodyOf(await set('second', { ex: 5000 })), { ok: true })
  assert.equal(await cache.value(key), 'second')
  await assertLives(key, 5000)
  assert.deepEqual(bodyOf(await set('third')), { ok: true })
  assert.equal(await cache.ttl(key), -1)
})

test('2 §4.1 nx and xx set to false are ignored, and both set to true are 400', async () => {
  const key = unique('conditions')
  assert.equal(await cache.set(key, 'a', { nx: false, xx: false }), true)
  assert.equal(await cache.set(key, 'b', { nx: false, xx: true }), true)
  assert.equal((await cache.post('set', { key, value: 'c', nx: true, xx: true })).status, 400)
  assert.equal(await cache.value(key), 'b')
})

test('2 §4.1 of concurrent sets with nx one succeeds', async () => {
  const key = unique('race')
  const names = Array.from({ length: 40 }, (_, place) => `racer ${place}`)
  const won = await Promise.all(names.map(name => cache.set(key, name, { nx: true, ex: 1000 })))
  assert.equal(won.filter(Boolean).length, 1)
  assert.equal(await cache.value(key), names[won.indexOf(true)])
})

test('2 §4.1 expire sets and replaces the expiry and returns whether it applied', async () => {
  const key = unique('expire')
  const expire = (seconds: number) => cache.post('expire', { key, seconds })
  assert.deepEqual(bodyOf(await expire(1000)), { applied: false })
  assert.equal(await cache.exists(key), false)
  await cache.set(key, 'x')
  assert.deepEqual(bodyOf(await expire(1000)), { applied: true })
  await assertLives(key, 1000)
  assert.deepEqual(bodyOf(await expire(9000)), { applied: true })
  await assertLives(key, 9000)
  assert.equal(await cache.value(key), 'x')
  assert.deepEqual(bodyOf(await expire(1)), { applied: true })
  await gone(key)
})

test('2 §4.1 expire with a time of 0 or less deletes the key', async () => {
  for (const seconds of [0, -1, -1000]) {
    const key = unique('now')
    await cache.set(key, 'x')
    assert.equal(await cache.expire(key, seconds), true)
    assert.deepEqual([await cache.value(key), await cache.ttl(key)], [null, -2])
    assert.equal(await cache.expire(key, seconds), false)
  }
})

test('2 §4.1 incr and decr keep the expiry; a key that they create has none', async () => {
  const key = unique('counter')
  await cache.set(key, '5', { ex: 5000 })
  for (const path of ['incr', 'decr'])
    assert.equal((await cache.post(path, { key, by: 3 })).status, 200, path)
  assert.equal(await cache.value(key), '5')
  await assertLives(key, 5000)
  for (const path of ['incr', 'decr']) {
    const made = unique('made')
    await cache.post(path, { key: made })
    assert.equal(await cache.ttl(made), -1, path)
  }
})

test('2 §4.1 an invalid expiry is 400 and changes nothing', async () => {
  const key = unique('times')
  await cache.set(key, 'before', { ex: 5000 })
  for (const unit of ['ex', 'px'])
    for (const time of [0, -1, 1.5, '10', null, true, 1e18, []]) {
      const reply = await cache.post('set', { key, value: 'after', [unit]: time })
      assert.equal(reply.status, 400, `${unit} ${JSON.stringify(time)}`)
    }
  for (const seconds of [1.5, '10', null, undefined, 1e18, -1e18])
    assert.equal((await cache.post('expire', { key, seconds })).status, 400, JSON.stringify(seconds))
  assert.equal(await cache.value(key), 'before')
  await assertLives(key, 5000)
})

test('2 §4.1 an expiry of many years is stored', async () => {
  const key = unique('years')
  const year = 31_557_600
  for (const options of [{ ex: 50 * year }, { px: 50 * year * 1000 }]) {
    await cache.set(key, 'x', options)
    await assertLives(key, 50 * year)
  }
  assert.equal(await cache.expire(key, 90 * year), true)
  await assertLives(key, 90 * year)
  assert.equal(await cache.value(key), 'x')
})
