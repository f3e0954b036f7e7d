// 2 §4.2, §8: the cache of a project in the management API.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CacheApi, cacheProject, inPath, oddKeys } from '../cache.ts'
import { auditOf, mintToken, someId, unique } from '../people.ts'
import { bodyOf } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
let cache: CacheApi
before(async () => {
  it = await target()
  cache = await cacheProject(it)
})
after(() => it.stop())

const of = (where: CacheApi, rest: string, method = 'GET', body?: unknown) =>
  it.manage(method, `/projects/${where.project.id}/cache/${rest}`, body)
const list = async (where: CacheApi, query: Record<string, string> = {}) =>
  bodyOf(await of(where, `keys?${new URLSearchParams(query)}`))
const named = (keys: { key: string }[]) => keys.map(({ key }) => key).toSorted()
const fill = (where: CacheApi, ...keys: string[]) =>
  where.mset(Object.fromEntries(keys.map(key => [key, 'x'] as const)))

test('2 §4.2 keys are listed with type, ttl and size', async () => {
  const own = await cacheProject(it)
  assert.deepEqual(await list(own), { keys: [], total: 0, limit: 50, offset: 0 })
  await own.set('plain', 'ä😀')
  await own.set('passing', 'x', { ex: 5000 })
  const { keys, total } = await list(own)
  assert.equal(total, 2)
  const byKey = Object.fromEntries(keys.map((each: any) => [each.key, each]))
  assert.deepEqual(byKey.plain, { key: 'plain', type: 'string', ttl: -1, size: 6 })
  assert.equal(byKey.passing.type, 'string')
  assert.ok(byKey.passing.ttl > 4000 && byKey.passing.ttl <= 5000)
})

test('2 §4.2 the list has 50 keys by default and at most 200', async () => {
  const own = await cacheProject(it)
  const all = Array.from({ length: 230 }, (_, place) => `k:${place}`)
  await fill(own, ...all)
  for (const [query, limit] of [
    [{}, 50],
    [{ limit: '10' }, 10],
    [{ limit: '200' }, 200],
    [{ limit: '201' }, 200],
    [{ limit: '100000' }, 200],
    [{ limit: '0' }, 0],
  ] as const) {
    const page = await list(own, query)
    assert.deepEqual([page.limit, page.keys.length, page.total], [limit, limit, 230])
    assert.equal(new Set(named(page.keys)).size, limit)
  }
  const pages = [await list(own, { limit: '200' }), await list(own, { limit: '200', offset: '200' })]
  assert.deepEqual(named(pages.flatMap(page => page.keys)), all.toSorted())
  for (const query of [{ limit: '-1' }, { limit: 'x' }, { offset: '-1' }] as Record<string, string>[])
    assertManagementError(await of(own, `keys?${new URLSearchParams(query)}`), 'invalid_request')
})

test('2 §4.2 a pattern filters the keys, and total counts the matches', async () => {
  const own = await cacheProject(it)
  await fill(own, 'user:1', 'user:2', 'user:10', 'order:1', 'a*b', 'axb', 'c😀t')
  for (const [pattern, expected] of [
    ['*', ['user:1', 'user:2', 'user:10', 'order:1', 'a*b', 'axb', 'c😀t']],
    ['user:*', ['user:1', 'user:2', 'user:10']],
    ['user:?', ['user:1', 'user:2']],
    ['*:1', ['user:1', 'order:1']],
    ['a\\*b', ['a*b']],
    ['[^u]*:[0-9]', ['order:1']],
    ['c?t', ['c😀t']],
    ['nothing', []],
    [`${own.project.id}*`, []],
  ] as const) {
    const { keys, total } = await list(own, { pattern })
    assert.deepEqual(named(keys), expected.toSorted(), pattern)
    assert.equal(total, expected.length, pattern)
  }
  const one = await list(own, { pattern: 'user:*', limit: '1' })
  assert.deepEqual([one.keys.length, one.total], [1, 3])
})

test('2 §4.2 a key is read with value, type, ttl and size', async () => {
  const key = unique('read')
  await cache.set(key, 'Grüße')
  assert.deepEqual(bodyOf(await of(cache, `keys/${key}`)), {
    key,
    value: 'Grüße',
    type: 'string',
    ttl: -1,
    size: 7,
    truncated: false,
  })
  await cache.expire(key, 5000)
  const { ttl } = bodyOf(await of(cache, `keys/${key}`))
  assert.ok(ttl > 4000 && ttl <= 5000, String(ttl))
  assertManagementError(await of(cache, `keys/${unique('absent')}`), 'cache_key_not_found')
})

test('2 §4.2 POST writes a string key, with or without expiry, returns 201 and is audited', async () => {
  const key = unique('written')
  const plain = await of(cache, 'keys', 'POST', { key, value: 'first' })
  assert.partialDeepStrictEqual(bodyOf(plain, 201), { key, value: 'first', type: 'string', ttl: -1 })
  assert.deepEqual([await cache.value(key), await cache.ttl(key)], ['first', -1])
  assert.equal((await auditOf(it, 'cache.key_set', plain)).project_id, cache.project.id)

  const passing = bodyOf(await of(cache, 'keys', 'POST', { key, value: 'second', ttl: 5000 }), 201)
  assert.ok(passing.ttl > 4000 && passing.ttl <= 5000, String(passing.ttl))
  assert.equal(await cache.value(key), 'second')
  assert.ok((await cache.ttl(key)) > 4000)

  bodyOf(await of(cache, 'keys', 'POST', { key, value: 'third' }), 201)
  assert.deepEqual([await cache.value(key), await cache.ttl(key)], ['third', -1])
})

test('2 §4.2 an invalid write is 400 and changes nothing', async () => {
  const key = unique('bad')
  await cache.set(key, 'before')
  for (const body of [
    {},
    { key },
    { value: 'x' },
    { key: '', value: 'x' },
    { key: 'k'.repeat(2049), value: 'x' },
    { key, value: 5 },
    { key, value: null },
    { key, value: ['a'] },
    { key, value: 'x', ttl: 0 },
    { key, value: 'x', ttl: -5 },
    { key, value: 'x', ttl: 1.5 },
    { key, value: 'x', ttl: '5' },
    { key, value: 'x', type: 'list' },
  ])
    assertManagementError(await of(cache, 'keys', 'POST', body), 'invalid_request')
  assert.equal(await cache.value(key), 'before')
})

test('2 §4.2 DELETE removes a key and is audited; an absent one is 404', async () => {
  const key = unique('deleted')
  await cache.set(key, 'x')
  const reply = await of(cache, `keys/${key}`, 'DELETE')
  assert.deepEqual([reply.status, reply.text], [204, ''])
  assert.equal((await auditOf(it, 'cache.key_deleted', reply)).project_id, cache.project.id)
  assert.equal(await cache.exists(key), false)
  assertManagementError(await of(cache, `keys/${key}`, 'DELETE'), 'cache_key_not_found')
})

test('case 5: keys with special characters are written, listed, read and deleted literally', async () => {
  const own = await cacheProject(it)
  for (const key of oddKeys) {
    const name = JSON.stringify(key)
    assert.equal((await of(own, 'keys', 'POST', { key, value: `is ${key}` })).status, 201, name)
    assert.equal(await own.value(key), `is ${key}`, name)
    assert.equal(bodyOf(await of(own, `keys/${inPath(key)}`)).value, `is ${key}`, name)
  }
  assert.deepEqual(named((await list(own, { limit: '200' })).keys), oddKeys.toSorted())
  for (const [place, key] of oddKeys.entries()) {
    assert.equal((await of(own, `keys/${inPath(key)}`, 'DELETE')).status, 204, JSON.stringify(key))
    assert.equal((await list(own)).total, oddKeys.length - place - 1, JSON.stringify(key))
  }
})

test('2 §4.2 flush removes the keys of this project only, returns their number, and is audited', async () => {
  const own = await cacheProject(it)
  const theirs = await cacheProject(it)
  await fill(theirs, 'kept', `${own.project.id}:kept`)
  await fill(own, ...Array.from({ length: 300 }, (_, place) => `k:${place}`), ...oddKeys.slice(0, 10))
  const reply = await of(own, 'flush', 'POST')
  assert.deepEqual(bodyOf(reply), { deleted: 310 })
  assert.equal((await auditOf(it, 'cache.flushed', reply)).project_id, own.project.id)
  assert.deepEqual(await own.scan(), [])
  assert.equal((await list(own)).total, 0)
  assert.deepEqual(bodyOf(await of(own, 'flush', 'POST')), { deleted: 0 })
  assert.equal((await list(theirs)).total, 2)
  await own.set('again', 'x')
  assert.equal(await own.value('again'), 'x')
})

test('2 §4.2 stats return the number of keys of this project and their memory', async () => {
  const own = await cacheProject(it)
  const stats = async () => bodyOf(await of(own, 'stats'))
  assert.partialDeepStrictEqual(await stats(), { key_count: 0, memory_bytes: 0 })
  await fill(own, 'a', 'b', 'c')
  await own.set('large', 'x'.repeat(10_000))
  const filled = await stats()
  assert.equal(filled.key_count, 4)
  assert.ok(Number.isInteger(filled.memory_bytes) && filled.memory_bytes > 0, filled.memory_bytes)
  assert.deepEqual(Object.keys(filled).sort(), ['engine', 'key_count', 'max_bytes', 'memory_bytes'])
  await own.del('a', 'large')
  assert.equal((await stats()).key_count, 2)
  await of(own, 'flush', 'POST')
  assert.partialDeepStrictEqual(await stats(), { key_count: 0, memory_bytes: 0 })
})

test('2 §4.2 an expired key is in no list, count or response', async () => {
  const own = await cacheProject(it)
  await own.set('short', 'x', { px: 50 })
  await own.set('long', 'x', { ex: 5000 })
  await until('short expires', async () => !(await own.exists('short')))
  assert.deepEqual(named((await list(own)).keys), ['long'])
  assert.equal((await list(own)).total, 1)
  assertManagementError(await of(own, 'keys/short'), 'cache_key_not_found')
  assertManagementError(await of(own, 'keys/short', 'DELETE'), 'cache_key_not_found')
  assert.deepEqual(bodyOf(await of(own, 'flush', 'POST')), { deleted: 1 })
})

test('2 §5 reading needs read scope, writing admin scope', async () => {
  const own = await cacheProject(it)
  await own.set('kept', 'x')
  const as = (token: string, method: string, rest: string, body?: unknown) =>
    it.call(method, `/api/v1/projects/${own.project.id}/cache/${rest}`, { token, body })
  for (const scope of ['read', 'deploy']) {
    const { token } = await mintToken(it, scope)
    for (const rest of ['keys', 'keys/kept', 'stats'])
      assert.equal((await as(token, 'GET', rest)).status, 200, `${scope} ${rest}`)
    assertNeedsScope(await as(token, 'POST', 'keys', { key: 'kept', value: 'y' }), 'admin')
    assertNeedsScope(await as(token, 'DELETE', 'keys/kept'), 'admin')
    assertNeedsScope(await as(token, 'POST', 'flush'), 'admin')
  }
  assert.equal(await own.value('kept'), 'x')
  for (const token of [own.project.service_role_key, own.project.anon_key])
    assertManagementError(await as(token, 'GET', 'keys'), 'unauthorized')
})

test('2 §4.2 a missing project is 404', async () => {
  for (const [method, rest, body] of [
    ['GET', 'keys'],
    ['GET', 'keys/a'],
    ['POST', 'keys', { key: 'a', value: 'x' }],
    ['DELETE', 'keys/a'],
    ['POST', 'flush'],
    ['GET', 'stats'],
  ] as const)
    assertManagementError(
      await it.manage(method, `/projects/${someId}/cache/${rest}`, body),
      'project_not_found',
    )
})
