// The cache over HTTP with the engine of this run, as far as the conformance suite cannot test it: log, audit log, project
// deletion and large answers.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cacheProject } from './cache-project.ts'
import { cpuMs } from './cpu-time.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

test('cache: keys, values and patterns are not logged', async () => {
  const { cache, manage } = await cacheProject(platform)
  const secret = (what: string) => `secret-${what}-${crypto.randomUUID()}`
  const texts = Object.fromEntries(['key', 'value', 'pattern', 'other'].map(what => [what, secret(what)]))
  const { key, value, pattern, other } = texts as Record<string, string>
  await cache('POST', 'set', { key, value })
  await cache('GET', `get/${key}`)
  await cache('GET', `get/${other}`)
  await cache('POST', 'incr', { key })
  await cache('POST', 'mset', { pairs: { [other!]: value } })
  await cache('POST', 'set', { key, value, ex: -1 })
  await cache('GET', `scan?match=${pattern}`)
  await manage('GET', `keys?pattern=${pattern}`)
  await manage('GET', `keys/${key}`)
  await manage('POST', 'keys', { key, value })
  await manage('DELETE', `keys/${key}`)
  const log = platform.logged.join('')
  assert.match(log, /\/v1\/cache\/\{project\}\/get\/\{key\}/)
  for (const [what, text] of Object.entries(texts)) assert.ok(!log.includes(text), what)
})

test('cache: changes by administrators are in the audit log, reads are not', async () => {
  const { id, manage } = await cacheProject(platform)
  await manage('POST', 'keys', { key: 'a', value: '1' })
  await manage('GET', 'keys/a')
  await manage('GET', 'keys')
  await manage('GET', 'stats')
  await manage('DELETE', 'keys/a')
  await manage('DELETE', 'keys/a')
  await manage('POST', 'flush')
  const { entries } = await platform.admin.listAudit({ query: { limit: 100, project_id: id } })
  const actions = entries.map(({ action }) => action)
  assert.deepEqual(actions.reverse(), [
    'project.created',
    'cache.key_set',
    'cache.key_deleted',
    'cache.flushed',
  ])
})

test('cache: deleting a project removes its keys and keeps those of others', async () => {
  const [gone, other] = [await cacheProject(platform), await cacheProject(platform)]
  await gone.set('a', 'mine')
  await other.set('a', 'theirs')
  await other.set(`${gone.id}:a`, 'theirs too')
  await platform.projects.remove({ params: { id: gone.id } })
  await eventually(async () => (await gone.cache('GET', 'get/a')).status === 401, 'the project is gone')
  assert.equal((await gone.manage('GET', 'keys')).status, 404)
  assert.equal(await other.get('a'), 'theirs')
  assert.equal(await other.get(`${gone.id}:a`), 'theirs too')
})

test('cache: a suspended project keeps its keys, and administrators can read them', async () => {
  const project = await cacheProject(platform)
  await project.set('a', '1')
  await platform.projects.suspend({ params: { id: project.id } })
  await eventually(
    async () => (await project.cache('GET', 'get/a')).status === 403,
    'the project is suspended',
  )
  assert.equal((await project.manage('GET', 'keys/a')).body.value, '1')
  await platform.projects.resume({ params: { id: project.id } })
  await eventually(async () => (await project.cache('GET', 'get/a')).status === 200, 'the project is back')
  assert.equal(await project.get('a'), '1')
})

test('cache: value sizes and key counts are limited', async () => {
  const { cache, set, get } = await cacheProject(platform)
  const large = '日'.repeat(3_000_000)
  await set('large', large)
  assert.equal(await get('large'), large)
  assert.equal((await cache('POST', 'set', { key: 'a', value: 'x'.repeat(11_000_000) })).status, 413)
  const pairs = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, number) => [`key ${number}`, `${number}`]),
  )
  assert.deepEqual((await cache('POST', 'mset', { pairs })).body, { ok: true })
  const { body } = await cache('POST', 'mget', { keys: Object.keys(pairs) })
  assert.deepEqual(body.values, Object.values(pairs))
  assert.equal((await cache('POST', 'mset', { pairs: { ...pairs, more: '' } })).status, 400)
  assert.equal((await cache('POST', 'mget', { keys: [...Object.keys(pairs), 'more'] })).status, 400)
  assert.deepEqual((await cache('POST', 'del', { keys: Object.keys(pairs) })).body, { deleted: 10_000 })
})

test('cache: the size of one answer is limited', async () => {
  const { cache, set } = await cacheProject(platform)
  await set('large', 'x'.repeat(9_000_000))
  const reply = await cache('POST', 'mget', { keys: Array.from({ length: 50 }, () => 'large') })
  assert.equal(reply.status, 413)
  assert.equal(reply.body.code, 'cache_value_too_large')
})

test('cache: no pattern blocks other requests', async () => {
  const { cache, manage } = await cacheProject(platform)
  const pairs = Object.fromEntries(
    Array.from({ length: 400 }, (_, number) => ['z'.repeat(2040) + number, '']),
  )
  await cache('POST', 'mset', { pairs })
  const letters = Array.from({ length: 1000 }, (_, index) => String.fromCodePoint(0x4e00 + 2 * index)).join(
    '',
  )
  // With backtracking each of these takes many seconds.
  for (const pattern of [`*[${letters}]q`, `*${'?z'.repeat(500)}q`, `${'*z'.repeat(500)}q`]) {
    const query = encodeURIComponent(pattern)
    const ms = await cpuMs(async () => {
      const listed = await manage('GET', `keys?pattern=${query}`)
      const scanned = await cache('GET', `scan?count=1000&match=${query}`)
      assert.equal(listed.body.total, 0)
      assert.deepEqual([scanned.status, scanned.body.keys], [200, []])
    })
    assert.ok(ms < 2000, `${pattern.slice(0, 10)}…: ${ms} ms of CPU`)
  }
})

test('cache: a healthy cache has no warnings', async () => {
  const { body } = await platform.call('GET', '/api/v1/health/services')
  assert.deepEqual(body.warnings, [])
})
