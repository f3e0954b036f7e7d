// The cache engine of this run, in this process or Redis (npm run test:redis), tested through their common interface.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import type { CacheEngine, Page } from '#src/services/cache/engine.ts'
import { createMatcher } from '#src/services/cache/glob.ts'
import { openCacheEngine } from '#src/services/cache/open-engine.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let engine: CacheEngine
before(async () => {
  platform = await startPlatform()
  engine = await openCacheEngine({
    redisUrl: platform.config.redisUrl,
    server: { address: platform.address, control: platform.control },
    deriveKey: keyring(platform.controlPlaneSecret),
    exists: async id => (await platform.app.directory.find(id)) !== undefined,
    log: createLog('silent'),
  })
})
after(async () => {
  await engine?.close()
  await platform?.stop()
})

async function newTenant(): Promise<Tenant> {
  const { id } = await platform.createProject()
  return (await platform.app.directory.find(id))!
}
const plain = { ttlMs: undefined, onlyIf: undefined }

async function scanned(tenant: Tenant, pattern = '*', count = 100): Promise<string[]> {
  const keys: string[] = []
  let cursor = '0'
  do {
    const part = await engine.scan(tenant, cursor, pattern, count)
    keys.push(...part.keys)
    cursor = part.cursor
  } while (cursor !== '0')
  return [...new Set(keys)].sort()
}

const draw = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)]!
const letters = [...'ab:*?[]\\^-\0\n/%é', 'e\u0301', '😀', '日', '__proto__']
const randomText = (most: number) =>
  Array.from({ length: Math.floor(Math.random() * most) }, () => draw(letters)).join('')

test('cache: random operations of two projects give the same result as two plain maps', async () => {
  const pairs = [
    { tenant: await newTenant(), model: new Map<string, string>() },
    { tenant: await newTenant(), model: new Map<string, string>() },
  ]
  const keys = Array.from({ length: 40 }, () => randomText(6) || 'key')
  const values = ['', '0', '-5', '9223372036854775807', '-9223372036854775808', '01', '\0', '😀', ' 1']
  const integer = /^(?:0|-?[1-9]\d{0,18})$/

  const actions: ((pair: (typeof pairs)[number], key: string, value: string) => Promise<unknown>)[] = [
    async ({ tenant, model }, key) => assert.equal(await engine.get(tenant, key), model.get(key)),
    async ({ tenant, model }, key) => assert.equal(await engine.has(tenant, key), model.has(key)),
    async ({ tenant, model }, key) => assert.equal(await engine.ttl(tenant, key), model.has(key) ? -1 : -2),
    async ({ tenant, model }, key, value) => {
      assert.equal(await engine.set(tenant, key, value, plain), true)
      model.set(key, value)
    },
    async ({ tenant, model }, key, value) => {
      const onlyIf = draw(['absent', 'present'] as const)
      const isMet = model.has(key) === (onlyIf === 'present')
      assert.equal(await engine.set(tenant, key, value, { ttlMs: undefined, onlyIf }), isMet)
      if (isMet) model.set(key, value)
    },
    async ({ tenant, model }, key) => {
      const some = [key, draw(keys), key]
      const expected = new Set(some.filter(each => model.has(each))).size
      assert.equal(await engine.remove(tenant, some), expected)
      for (const each of some) model.delete(each)
    },
    async ({ tenant, model }, key) => {
      const by = draw([1n, -1n, 0n, 9007199254740991n])
      const before = model.get(key) ?? '0'
      const sum = integer.test(before) ? BigInt(before) + by : undefined
      if (sum === undefined || BigInt.asIntN(64, sum) !== sum)
        return assert.rejects(async () => engine.add(tenant, key, by), { code: 'not_an_integer' })
      assert.equal(await engine.add(tenant, key, by), sum)
      return model.set(key, String(sum))
    },
    async ({ tenant, model }, key) => {
      const isDeletion = Math.random() < 0.5
      assert.equal(await engine.expire(tenant, key, isDeletion ? 0 : 3600), model.has(key))
      if (isDeletion) model.delete(key)
      else if (model.has(key)) await engine.set(tenant, key, model.get(key)!, plain)
    },
    async ({ tenant, model }, key) => {
      const some = [key, draw(keys), draw(keys), key]
      assert.deepEqual(
        await engine.getAll(tenant, some),
        some.map(each => model.get(each) ?? null),
      )
    },
    async ({ tenant, model }, key, value) => {
      const some = [[key, value] as const, [draw(keys), 'other'] as const]
      await engine.setAll(tenant, some)
      for (const [each, written] of some) model.set(each, written)
    },
  ]
  for (let run = 0; run < 4000; run++) await draw(actions)(draw(pairs), draw(keys), draw(values))

  for (const { tenant, model } of pairs) {
    const held = [...model.keys()].sort()
    assert.deepEqual(await scanned(tenant), held)
    assert.deepEqual(await scanned(tenant, '*', 1), held)
    assert.equal((await engine.stats(tenant)).key_count, model.size)
    const { entries, total } = await engine.list(tenant, '*', 200, 0)
    assert.equal(total, model.size)
    assert.deepEqual(entries.map(({ key }) => key).sort(), held)
    for (const { key, type, ttl, size } of entries)
      assert.deepEqual([type, ttl, size], ['string', -1, Buffer.byteLength(model.get(key)!)])
  }
})

test('cache: patterns match the same keys in scans and lists', async () => {
  const tenant = await newTenant()
  const keys = [...new Set(Array.from({ length: 300 }, () => randomText(5) || 'x'))]
  await engine.setAll(
    tenant,
    keys.map(key => [key, '']),
  )
  for (let run = 0; run < 60; run++) {
    const pattern = randomText(6)
    const matcher = createMatcher(pattern)
    const expected = keys.filter(key => matcher.matches(key)).sort()
    assert.deepEqual(await scanned(tenant, pattern), expected, JSON.stringify(pattern))
    assert.equal((await engine.list(tenant, pattern, 0, 0)).total, expected.length, JSON.stringify(pattern))
  }
})

test('cache: many keys are listed in pages and removed at once, and those of another project stay', async () => {
  const [tenant, neighbour] = [await newTenant(), await newTenant()]
  const keys = Array.from({ length: 3000 }, (_, number) => `key ${number}`)
  await engine.setAll(
    tenant,
    keys.map(key => [key, 'value']),
  )
  await engine.setAll(neighbour, [[`${tenant.id}:key 1`, 'mine']])
  const offsets = Array.from({ length: 60 }, (_, page) => page * 50)
  const pages: Page[] = []
  for (const offset of offsets.filter(offset => offset % 100 === 0))
    pages.push(await engine.list(tenant, 'key*', 50, offset))
  // Redis resizes its table for more keys, which changes the order of SCAN.
  for (let copy = 0; copy < 10; copy++)
    await engine.setAll(
      neighbour,
      keys.map(key => [`${copy} ${key}`, 'value']),
    )
  for (const offset of offsets.filter(offset => offset % 100 !== 0))
    pages.push(await engine.list(tenant, 'key*', 50, offset))
  assert.ok(pages.every(({ total }) => total === 3000))
  assert.deepEqual(pages.flatMap(({ entries }) => entries.map(({ key }) => key)).sort(), keys.toSorted())
  assert.equal(await engine.remove(tenant, keys.slice(0, 1200)), 1200)
  assert.equal(await engine.flush(tenant), 1800)
  assert.deepEqual(await scanned(tenant), [])
  assert.deepEqual(
    await engine.stats(tenant).then(({ key_count, memory_bytes }) => [key_count, memory_bytes]),
    [0, 0],
  )
  assert.equal(await engine.get(neighbour, `${tenant.id}:key 1`), 'mine')
})

test('cache: a key expires after its time to live', async () => {
  const tenant = await newTenant()
  await engine.set(tenant, 'a', '1', { ttlMs: 100_000, onlyIf: undefined })
  const left = await engine.ttl(tenant, 'a')
  assert.ok(left > 0 && left <= 100, `${left} seconds`)
  assert.equal(await engine.add(tenant, 'a', 1n), 2n)
  assert.ok((await engine.ttl(tenant, 'a')) > 0)
  await engine.set(tenant, 'short', '1', { ttlMs: 30, onlyIf: undefined })
  await eventually(async () => !(await engine.has(tenant, 'short')), 'the key has expired')
  assert.equal(await engine.ttl(tenant, 'short'), -2)
  assert.deepEqual(await scanned(tenant), ['a'])
  assert.equal(await engine.set(tenant, 'short', '2', { ttlMs: undefined, onlyIf: 'present' }), false)
})

test('cache: the size of an answer is limited, and repeated keys count', async () => {
  const tenant = await newTenant()
  await engine.set(tenant, 'large', 'x'.repeat(9_000_000), plain)
  assert.equal((await engine.getAll(tenant, ['large', 'absent']))[0]?.length, 9_000_000)
  await assert.rejects(async () => engine.getAll(tenant, ['large', 'large']), {
    code: 'cache_value_too_large',
    status: 413,
  })
})

test('cache: removing a project removes all its keys', async () => {
  const tenant = await newTenant()
  await engine.set(tenant, 'a', '1', plain)
  await engine.removed(tenant.id)
  await engine.removed(tenant.id)
  assert.equal((await engine.stats(tenant)).key_count, 0)
})
