import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Quotas } from '@plinth/contract/projects.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { noSigningKeys } from '#src/tenancy/tenant-signing-keys.ts'
import { createMemoryEngine } from './engine.ts'

const tenant = (id: string, quotas: Quotas = {}): Tenant => ({
  id,
  ref: '',
  name: '',
  status: 'active',
  anonKey: '',
  serviceRoleKey: '',
  jwtSecret: '',
  signingKeys: noSigningKeys,
  quotas,
  exposedSchemas: [],
  settings: {},
})
const forEver = { ttlMs: undefined, onlyIf: undefined }

function stage(maxBytes: number) {
  let clear = () => {}
  const engine = createMemoryEngine({
    ownership(again) {
      clear = again
      return { isOwner: () => true, acquire: async () => {}, close: async () => {} }
    },
    maxBytes,
  })
  const fill = (whose: Tenant, keys: number, bytes = 800) => {
    for (let number = 0; number < keys; number++)
      void engine.set(whose, `k${number}`, 'x'.repeat(bytes), forEver)
  }
  const count = async (whose: Tenant) => (await engine.stats(whose)).key_count
  return { engine, fill, count, clear: () => clear() }
}

test('cache: over the limit of all projects, the largest project loses keys', async () => {
  const { engine, fill, count } = stage(4 * 1024 * 1024)
  const [small, large] = [tenant('small'), tenant('large')]
  fill(small, 500)
  fill(large, 10_000)
  assert.equal(await count(small), 500)
  assert.equal(engine.get(large, 'k0'), undefined)
  assert.equal(engine.get(large, 'k9999'), 'x'.repeat(800))
  const used = (await engine.stats(small)).memory_bytes + (await engine.stats(large)).memory_bytes
  assert.ok(used <= 4 * 1024 * 1024, `${used} bytes`)
})

test('cache: projects with the same load get the same share', async () => {
  const { fill, count } = stage(4 * 1024 * 1024)
  const both = [tenant('one'), tenant('other')]
  for (let round = 0; round < 10; round++) for (const each of both) fill(each, 3000)
  const [one, other] = [await count(both[0]!), await count(both[1]!)]
  assert.ok(Math.min(one, other) > 1000, `${one} and ${other}`)
})

test('cache: a lowered quota applies to the next write, a raised one at once', async () => {
  const { engine, fill, count } = stage(64 * 1024 * 1024)
  fill(tenant('a'), 1000)
  const smaller = tenant('a', { max_cache_bytes: 100_000 })
  await engine.set(smaller, 'new', 'value', forEver)
  const { memory_bytes, max_bytes } = await engine.stats(smaller)
  assert.ok(memory_bytes <= 100_000)
  assert.equal(max_bytes, 100_000)
  fill(tenant('a', { max_cache_bytes: 10_000_000 }), 1000)
  assert.equal(await count(tenant('a')), 1001)
})

test('cache: deleting a project frees its memory for others', async () => {
  const { engine, fill, count } = stage(4 * 1024 * 1024)
  const [gone, other] = [tenant('gone'), tenant('other')]
  fill(gone, 4000)
  engine.changed('gone', undefined)
  fill(other, 3900)
  assert.equal(await count(other), 3900)
  assert.equal(await count(gone), 0)
})

test('cache: a cache that was emptied key by key is created again', async () => {
  const { engine, fill, count } = stage(4 * 1024 * 1024)
  const whose = tenant('a')
  fill(whose, 1000)
  const keys = Array.from({ length: 1000 }, (_, number) => `k${number}`)
  assert.equal(engine.remove(whose, keys), 1000)
  assert.equal(engine.remove(whose, keys), 0)
  fill(whose, 10)
  assert.equal(await count(whose), 10)
  assert.equal((await engine.stats(whose)).memory_bytes, 10 * 1002)
})

test('cache: a suspended project keeps its keys', async () => {
  const { engine, fill, count } = stage(4 * 1024 * 1024)
  fill(tenant('a'), 10)
  engine.changed('a', { ...tenant('a'), status: 'suspended' })
  assert.equal(await count(tenant('a')), 10)
})

test('cache: clearing the engine removes all keys', async () => {
  const { fill, count, clear } = stage(4 * 1024 * 1024)
  fill(tenant('a'), 4000)
  clear()
  assert.equal(await count(tenant('a')), 0)
  fill(tenant('b'), 3900)
  assert.equal(await count(tenant('b')), 3900)
})

test('cache: a list is built over many turns of the event loop', async () => {
  const { engine, fill } = stage(512 * 1024 * 1024)
  const whose = tenant('a', { max_cache_bytes: 512 * 1024 * 1024 })
  fill(whose, 20_000, 1)
  let turns = 0
  const turn = () => {
    turns++
    ticking = setImmediate(turn)
  }
  let ticking = setImmediate(turn)
  const { entries, total } = await engine.list(whose, '*9', 5, 100)
  clearImmediate(ticking)
  assert.equal(total, 2000)
  assert.deepEqual(
    entries.map(({ key }) => key),
    ['k18999', 'k18989', 'k18979', 'k18969', 'k18959'],
  )
  assert.ok(turns >= 5, `${turns} turns`)
})

test('cache: a large value evicts many small ones over several turns', async () => {
  const { engine, fill, count } = stage(64 * 1024 * 1024)
  const [whose, other] = [tenant('much', { max_cache_bytes: 2_000_000 }), tenant('other')]
  fill(whose, 8000, 0)
  fill(other, 10)
  assert.equal(await engine.set(whose, 'large', 'x'.repeat(1_990_000), forEver), true)
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  const { memory_bytes, max_bytes } = await engine.stats(whose)
  assert.ok(memory_bytes <= max_bytes!, String(memory_bytes))
  assert.equal((await engine.get(whose, 'large'))?.length, 1_990_000)
  assert.equal(await count(other), 10)
})
