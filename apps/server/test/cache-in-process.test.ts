// The engine without Redis: exactly one process of a platform holds the cache, limited by quotas.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type CacheProject, cacheProject } from './cache-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const settings = { REDIS_URL: '' }

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings })
})
after(() => platform?.stop())

/** The sessions that hold the lock: at most one. */
const holders = () =>
  platform.asSuperuser(platform.control, session =>
    session.rows<{ pid: number }>(sql`
      select pid from pg_locks
       where locktype = 'advisory' and database = (select oid from pg_database where datname = ${platform.control})`),
  )

/** Waits until a session holds the lock, and terminates it, like an operator or a network failure. */
async function breakLock(meanwhile: () => Promise<unknown> = async () => {}): Promise<void> {
  let held: { pid: number }[] = []
  await eventually(async () => {
    await meanwhile()
    held = await holders()
    return held.length > 0
  }, 'a session holds the lock')
  await platform.asSuperuser(platform.control, session =>
    session.run(sql`select pg_terminate_backend(${held[0]!.pid})`),
  )
}

const get = (project: CacheProject, at: TestPlatform) => project.cache('GET', 'get/a', undefined, at)

test('cache: over the quota the least recently used keys are evicted', async () => {
  const { set, get, manage } = await cacheProject(platform, { max_cache_bytes: 20_000 })
  for (let number = 0; number < 10; number++) await set(`early ${number}`, 'x'.repeat(1000))
  for (let number = 0; number < 30; number++) {
    await set(`late ${number}`, 'x'.repeat(1000))
    assert.equal((await get('early 0'))?.length, 1000)
  }
  assert.equal(await get('early 1'), null)
  assert.equal((await get('late 29'))?.length, 1000)
  const { body } = await manage('GET', 'stats')
  assert.equal(body.engine, 'memory')
  assert.equal(body.max_bytes, 20_000)
  assert.ok(body.memory_bytes > 10_000 && body.memory_bytes <= 20_000, body.memory_bytes)
})

test('cache: a value over the quota is 413, and a raised quota applies at once', async () => {
  const { id, cache, set, get, manage } = await cacheProject(platform, { max_cache_bytes: 2000 })
  await set('a', 'old')
  const large = 'x'.repeat(3000)
  for (const reply of [
    await cache('POST', 'set', { key: 'a', value: large }),
    await cache('POST', 'mset', { pairs: { b: 'x'.repeat(1000), c: 'x'.repeat(1000) } }),
  ]) {
    assert.equal(reply.status, 413)
    assert.equal(reply.body.code, 'cache_value_too_large')
    assert.match(reply.body.message, /max_cache_bytes/)
  }
  assert.equal((await manage('POST', 'keys', { key: 'a', value: large })).status, 413)
  assert.equal(await get('a'), 'old')
  assert.equal(await get('b'), null)
  await platform.projects.update({ params: { id }, body: { quotas: { max_cache_bytes: 100_000 } } })
  await set('a', large)
  await platform.projects.update({ params: { id }, body: { quotas: { max_cache_bytes: null } } })
  assert.equal((await manage('GET', 'stats')).body.max_bytes, 67_108_864)
  assert.equal(await get('a'), large)
})

test('cache: a second process rejects only cache routes, and takes over when the first ends', async () => {
  const first = await startPlatform({ settings })
  try {
    const project = await cacheProject(first)
    await project.set('a', '1')
    const second = await startPlatform({ beside: first, settings })
    try {
      const refused = await get(project, second)
      assert.equal(refused.status, 503)
      assert.equal(refused.body.code, 'cache_unavailable')
      assert.match(refused.body.hint, /REDIS_URL/)
      assert.equal(refused.headers.get('retry-after'), '1')
      const managed = await second.call('GET', `/api/v1/projects/${project.id}/cache/keys`, {
        token: first.adminToken,
      })
      assert.equal(managed.status, 503)
      for (const path of [`/v1/whoami/${project.id}`, `/v1/${project.id}/rest/v1/`])
        assert.equal((await second.call('GET', path, { token: project.service_role_key })).status, 200)
      assert.equal((await get(project, first)).body.value, '1')

      await first.app.close()
      await eventually(
        async () => (await get(project, second)).status === 404,
        'the second process takes over',
      )
      await project.cache('POST', 'set', { key: 'a', value: '2' }, second)
      assert.equal((await get(project, second)).body.value, '2')
    } finally {
      await second.stop()
    }
  } finally {
    // Stopped last, because the second node uses its database. It is closed already, so stop may fail.
    await first.stop().catch(() => {})
  }
})

test('cache: losing and regaining the lock keeps the keys', async () => {
  const project = await cacheProject(platform)
  await project.set('a', '1')
  for (let round = 0; round < 4; round++)
    await breakLock(async () => assert.equal((await get(project, platform)).body.value, '1'))
  assert.equal(await project.get('a'), '1')
})

test('cache: two processes never serve at once, even if the lock connection breaks', async () => {
  const project = await cacheProject(platform)
  await project.set('a', 'of the first')
  const second = await startPlatform({ beside: platform, settings })
  try {
    const answers: { by: TestPlatform; begun: number; ended: number; value: string | null }[] = []
    const ask = async (by: TestPlatform) => {
      const begun = performance.now()
      const { status, body } = await get(project, by)
      const isAnswer = status !== 503
      if (isAnswer)
        answers.push({ by, begun, ended: performance.now(), value: status === 200 ? body.value : null })
      return isAnswer
    }
    /** Terminates the lock session right after the first process used it, while requests to it continue. */
    const round = async () => {
      assert.ok(await ask(platform))
      // Meanwhile the first process may still trust a lock that the previous round has broken.
      await breakLock(() => ask(platform))
      let isSecondAnswered = false
      const reply = ask(second).finally(() => {
        isSecondAnswered = true
      })
      while (!isSecondAnswered) await ask(platform)
      return reply
    }
    // Usually the second process gets the lock. If the first one gets it back, it continues, and the round is repeated.
    await eventually(round, 'the second has the lock')
    for (let more = 0; more < 50; more++) await Promise.all([ask(platform), ask(second)])

    const ofSecond = answers.filter(({ by }) => by === second)
    const ofFirst = answers.filter(({ by }) => by === platform)
    assert.ok(ofSecond.length > 0 && ofFirst.length > 0)
    const lastOfFirst = Math.max(...ofFirst.map(({ begun }) => begun))
    const firstOfSecond = Math.min(...ofSecond.map(({ ended }) => ended))
    assert.ok(lastOfFirst < firstOfSecond, 'the first stops before the second starts to serve')
    assert.ok(ofFirst.every(({ value }) => value === 'of the first'))
    assert.ok(
      ofSecond.every(({ value }) => value === null),
      'the second starts with an empty cache',
    )
    assert.equal((await get(project, platform)).status, 503)
  } finally {
    await second.stop()
  }
  await eventually(
    async () => (await get(project, platform)).status === 404,
    'the first process takes over again',
  )
})
