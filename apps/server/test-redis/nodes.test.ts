// With Redis, several processes share the caches of the platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cacheProject } from '#test/cache-project.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'

let here: TestPlatform
let there: TestPlatform
before(async () => {
  here = await startPlatform()
  there = await startPlatform({ beside: here })
})
after(async () => {
  await there?.stop()
  await here?.stop()
})

test('cache nodes: one process reads, counts and deletes what another wrote', async () => {
  const { cache } = await cacheProject(here)
  await cache('POST', 'set', { key: 'a', value: 'text' }, here)
  assert.equal((await cache('GET', 'get/a', undefined, there)).body.value, 'text')
  await Promise.all(
    Array.from({ length: 200 }, (_, number) =>
      cache('POST', 'incr', { key: 'n' }, number % 2 === 0 ? here : there),
    ),
  )
  assert.equal((await cache('GET', 'get/n', undefined, here)).body.value, '200')
  assert.deepEqual((await cache('POST', 'del', { keys: ['a'] }, there)).body, { deleted: 1 })
  assert.equal((await cache('GET', 'get/a', undefined, here)).status, 404)
})

test('cache nodes: of many concurrent set-if-absent calls on both processes one succeeds', async () => {
  const { cache } = await cacheProject(here)
  const replies = await Promise.all(
    Array.from({ length: 60 }, (_, number) =>
      cache('POST', 'set', { key: 'lock', value: `${number}`, nx: true }, number % 2 === 0 ? here : there),
    ),
  )
  assert.equal(replies.filter(({ body }) => body.ok).length, 1)
})

test('cache nodes: a project deleted by one process is gone for the other, with its keys', async () => {
  const project = await cacheProject(here)
  await project.cache('POST', 'set', { key: 'a', value: '1' }, there)
  await here.projects.remove({ params: { id: project.id } })
  await eventually(
    async () => (await project.cache('GET', 'get/a', undefined, there)).status === 401,
    'the other process rejects its key',
  )
})
