// The engine without Redis: one process of a platform keeps the cache, bounded by quotas, and there are never two.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type CacheProject, cacheProject, until } from './cache-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const settings = { REDIS_URL: '' }

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings })
})
after(() => platform?.stop())

/** Sessions that hold the lock: one, or none at the moment. */
const holders = () =>
  platform.asSuperuser(platform.control, session =>
    session.rows<{ pid: number }>(sql`
      select pid from pg_locks
       where locktype = 'advisory' and database = (select oid from pg_database where datname = ${platform.control})`),
  )

/** Ends the session that holds the lock, as an operator or a broken network might; waits for one to be there. */
async function breakLock(meanwhile: () => Promise<unknown> = async () => {}): Promise<void> {
  let held: { pid: number }[] = []
  await until('somebody holds the lock', async () => {
    await meanwhile()
    held = await holders()
    return held.length > 0
  })
  await platform.asSuperuser(platform.control, session =>
    session.run(sql`select pg_terminate_backend(${held[0]!.pid})`),
  )
}

const get = (project: CacheProject, at: TestPlatform) => project.cache('GET', 'get/a', undefined, at)

test('a quota bounds the bytes of a project: the least recently used keys go', async () => {
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

test('what does not fit is 413 and changes nothing; a quota that is raised counts at once', async () => {
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

test('a second process is refused on cache routes alone, and takes over when the first has gone', async () => {
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
      await until('the second process takes over', async () => (await get(project, second)).status === 404)
      await project.cache('POST', 'set', { key: 'a', value: '2' }, second)
      assert.equal((await get(project, second)).body.value, '2')
    } finally {
      await second.stop()
    }
  } finally {
    // The node that outlived it has to go first.
    await first.stop().catch(() => {})
  }
})

test('a lock that is lost and found again loses no keys', async () => {
  const project = await cacheProject(platform)
  await project.set('a', '1')
  for (let round = 0; round < 4; round++)
    await breakLock(async () => assert.equal((await get(project, platform)).body.value, '1'))
  assert.equal(await project.get('a'), '1')
})

test('when the lock of the one that keeps the cache breaks, never do two processes answer', async () => {
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
    /** The first has just heard from its session when that ends, and goes on being asked. */
    const round = async () => {
      assert.ok(await ask(platform))
      // Asked meanwhile: it may still be sure of a lock that the round before has broken.
      await breakLock(() => ask(platform))
      let isSecondHeard = false
      const asked = ask(second).finally(() => {
        isSecondHeard = true
      })
      while (!isSecondHeard) await ask(platform)
      return asked
    }
    // Mostly the second is quicker; where the first has its lock back before, it goes on as if nothing had been.
    await until('the second has the lock', round)
    for (let more = 0; more < 50; more++) await Promise.all([ask(platform), ask(second)])

    const ofSecond = answers.filter(({ by }) => by === second)
    const ofFirst = answers.filter(({ by }) => by === platform)
    assert.ok(ofSecond.length > 0 && ofFirst.length > 0)
    const lastOfFirst = Math.max(...ofFirst.map(({ begun }) => begun))
    const firstOfSecond = Math.min(...ofSecond.map(({ ended }) => ended))
    assert.ok(lastOfFirst < firstOfSecond, 'the first has stopped before the second begins')
    assert.ok(ofFirst.every(({ value }) => value === 'of the first'))
    assert.ok(
      ofSecond.every(({ value }) => value === null),
      'the second begins with nothing',
    )
    assert.equal((await get(project, platform)).status, 503)
  } finally {
    await second.stop()
  }
  await until('the first takes it back', async () => (await get(project, platform)).status === 404)
})
