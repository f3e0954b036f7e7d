// 2 §1, §5, §7: the cache requires the service_role key.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cacheApi } from '@plinth/contract/cache.ts'
import { cacheOf, cacheProject } from '../cache.ts'
import { createProject, unlimited, userJwt } from '../people.ts'
import { assertServiceRoleOnly, assertSuspendable, bodyOf, rootOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertDataError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

test('2 §5 every route accepts the service_role key and rejects every other credential', async () => {
  await assertServiceRoleOnly(it, cacheApi)
})

test('1 §1 the cache routes of a suspended project are rejected until it is resumed', async () => {
  await assertSuspendable(it, cacheApi)
})

test('2 §7 a rejected request has no effect', async () => {
  const cache = await cacheProject(it)
  const { id, anon_key } = cache.project
  await cache.set('kept', '1')
  for (const shape of shapes)
    for (const [path, body] of [
      ['set', { key: 'kept', value: 'x' }],
      ['set', { key: 'new', value: 'x' }],
      ['del', { keys: ['kept'] }],
      ['incr', { key: 'kept' }],
      ['decr', { key: 'kept' }],
      ['expire', { key: 'kept', seconds: 0 }],
      ['mset', { pairs: { kept: 'x', new: 'x' } }],
    ] as const) {
      const call = (options: object) => it.call('POST', `${rootOf('cache', id, shape)}/${path}`, options)
      assertDataError(await call({ apikey: anon_key, body }), 'role_not_allowed')
      assertDataError(
        await call({ apikey: anon_key, token: userJwt(cache.project), body }),
        'role_not_allowed',
      )
      assertDataError(await call({ body }), 'unauthorized')
    }
  assert.deepEqual(await cache.mget('kept', 'new'), ['1', null])
  assert.equal(await cache.ttl('kept'), -1)
})

test('2 §1 the project is taken from the verified key: one key never opens another project', async () => {
  const [mine, theirs] = [await cacheProject(it), await cacheProject(it)]
  await theirs.set('secret', 'x')
  for (const shape of shapes) {
    const reply = await it.call('GET', `${rootOf('cache', theirs.project.id, shape)}/get/secret`, {
      token: mine.project.service_role_key,
    })
    assertDataError(reply, 'unauthorized')
  }
})

test('2 §5 after rotation the old key is rejected and the new key reads the same cache', async () => {
  const project = await createProject(it, { quotas: unlimited })
  const before = cacheOf(it, project)
  await before.set('kept', 'x')
  const rotated = bodyOf(await it.manage('POST', `/projects/${project.id}/rotate/api-keys`))
  await until('the old key is gone', async () => (await before.get('get/kept')).status === 401)
  const after = cacheOf(it, { ...project, service_role_key: rotated.service_role_key })
  assert.equal(await after.value('kept'), 'x')
})

test('2 §4.1 unknown routes and methods are 404', async () => {
  const cache = await cacheProject(it)
  for (const [method, path] of [
    ['GET', 'set'],
    ['POST', 'get/a'],
    ['DELETE', 'get/a'],
    ['GET', 'keys'],
    ['POST', 'flush'],
    ['GET', 'randomkey'],
    ['GET', 'dbsize'],
    ['POST', 'eval'],
    ['GET', 'get/a/b'],
  ] as const)
    assertDataError(await cache.ask(method, path), 'route_not_found')
})
