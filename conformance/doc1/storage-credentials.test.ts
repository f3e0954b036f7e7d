// 1 §1, §5 and case 1: every storage route accepts only the keys of its own project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { addresses } from '@plinth/contract/openapi.ts'
import type { DataRoute } from '@plinth/contract/route.ts'
import { storageApi } from '@plinth/contract/storage.ts'
import { someId, unique, userJwt } from '../people.ts'
import { bodyOf } from '../service.ts'
import {
  assertErrorBody,
  assertRefused,
  assertStatus,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  tokenIn,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { until } from '../until.ts'
import type { CallOptions, Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
let other: StorageApi
const bucket = 'files'
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  other = await storageProject(it)
  for (const each of [storage, other]) {
    await each.bucket({ id: bucket })
    await each.store(bucket, 'a.txt', 'content')
  }
})
after(() => it.stop())

const routes = Object.entries(storageApi as Record<string, DataRoute>)
/** OPTIONS needs no credential: browsers send preflight requests without one. */
const closed = routes.filter(([, { allow, method }]) => allow !== 'open' && method !== 'OPTIONS')
const open = routes.filter(([, { allow, method }]) => allow === 'open' && method !== 'OPTIONS')
const pathsOf = (route: DataRoute, id: string) =>
  addresses(route).map(address =>
    address
      .replace('{project}', id)
      .replace('{bucket}', bucket)
      .replace('{path}', 'a.txt')
      .replace('{upload_id}', someId),
  )
const call = (route: DataRoute, path: string, options: CallOptions = {}) =>
  it.call(route.method, path, {
    ...(route.body && { body: {} }),
    ...options,
    headers: { 'tus-resumable': '1.0.0', ...options.headers },
  })

/** A HEAD has no body to check. */
function assertUnauthorized({ method }: DataRoute, reply: Reply, what: string): void {
  assert.equal(reply.status, 401, `${what}: ${reply.status} ${reply.text}`)
  if (method !== 'HEAD') assertErrorBody(reply)
}

for (const [name, route] of closed)
  test(`case 1: ${name} (${route.method} ${route.path}) rejects every credential except the project’s own`, async () => {
    const { anon_key, service_role_key } = storage.project
    const theirs = other.project
    const refused: [string, CallOptions][] = [
      [
        'the service_role key of another project',
        { apikey: theirs.service_role_key, token: theirs.service_role_key },
      ],
      ['the anon key of another project', { apikey: theirs.anon_key }],
      ['a user of another project', { apikey: theirs.anon_key, token: userJwt(theirs) }],
      ['their key as Bearer beside ours', { apikey: service_role_key, token: theirs.service_role_key }],
      ['an unknown key', { apikey: `platform_anon_${unique('x')}` }],
    ]
    const explained: [string, CallOptions, RegExp][] = [
      [
        'a user of another project beside our key',
        { apikey: anon_key, token: userJwt(theirs) },
        /No suitable key/,
      ],
      ['the admin token', { token: it.adminToken, apikey: it.adminToken }, /token of the management API/],
      ['a user without a key', { token: userJwt(storage.project) }, /needs a key of the project/],
    ]
    if (!route.mayBeOpen) explained.push(['nobody', {}, /No credential/])
    for (const [place, path] of pathsOf(route, storage.project.id).entries()) {
      const bodies = []
      for (const [who, options] of refused) {
        const reply = await call(route, path, options)
        assertUnauthorized(route, reply, `${who}: ${path}`)
        bodies.push(reply.text)
      }
      for (const [who, options, message] of explained) {
        const reply = await call(route, path, options)
        assertUnauthorized(route, reply, `${who}: ${path}`)
        if (route.method !== 'HEAD') assert.match(reply.body.message, message)
      }
      const unknown = await call(route, pathsOf(route, someId)[place]!, { apikey: service_role_key })
      assertUnauthorized(route, unknown, 'an unknown project')
      assert.equal(new Set([...bodies, unknown.text]).size, 1, 'one and the same 401')
    }
  })

test('case 1: rejected requests change nothing', async () => {
  assert.deepEqual(await storage.keys(bucket), ['a.txt'])
  assert.equal((await storage.read(bucket, 'a.txt')).toString(), 'content')
  assert.equal(bodyOf(await storage.get('bucket')).length, 1)
})

test('case 1: an unknown project returns 401 also on routes without a credential', async () => {
  for (const [name, route] of open)
    for (const path of pathsOf(route, someId)) assertUnauthorized(route, await call(route, path), name)
})

for (const [name, route] of [...closed, ...open])
  test(`1 §4.6 ${name} works on the native and the alias path, and never returns 5xx`, async () => {
    const token = storage.project.service_role_key
    const statuses = []
    for (const path of pathsOf(route, storage.project.id)) {
      const reply = await call(route, path, { token, headers: { 'tus-resumable': '0.0.1' } })
      assert.ok(reply.status < 500 && reply.status !== 401, `${path}: ${reply.status} ${reply.text}`)
      statuses.push(reply.status)
      await storage.store(bucket, 'a.txt', 'content', { headers: upsert })
    }
    if (route.method === 'GET') assert.equal(statuses[0], statuses[1])
  })

test('clarifications: signed URLs stop working when the secret changes or the project is deleted', async () => {
  const brief = await storageProject(it)
  await brief.bucket({ id: bucket, public: true })
  await brief.store(bucket, 'a.txt', 'content')
  const reply = await brief.post(objectPath(bucket, 'a.txt', 'object/sign'), { expiresIn: 600 })
  const url: string = bodyOf(reply).signedURL.slice(1)
  assertStatus(await brief.get(url, { as: 'nobody' }), 200)
  bodyOf(await it.manage('POST', `/projects/${brief.project.id}/rotate/jwt`))
  await until('the old URL is over', async () => (await brief.get(url, { as: 'nobody' })).status === 400)
  const { id } = brief.project
  assertStatus(await brief.get(objectPath(bucket, 'a.txt', 'object/public'), { as: 'nobody' }), 200)
  const removed = await it.manage('DELETE', `/projects/${id}`)
  assert.ok(removed.status < 300, removed.text)
  await until('the project is gone', async () => (await brief.get('bucket')).status === 401)
  assertStatus(await brief.get(objectPath(bucket, 'a.txt', 'object/public'), { as: 'nobody' }), 401)
})

test('1 §1 every route of a suspended project returns 403, and works again after it is resumed', async () => {
  const idle = await storageProject(it)
  const { id, service_role_key: apikey } = idle.project
  await idle.bucket({ id: bucket, public: true })
  await idle.store(bucket, 'a.txt', 'content')
  const signed = tokenIn(
    bodyOf(await idle.post(objectPath(bucket, 'a.txt', 'object/sign'), { expiresIn: 600 })).signedURL,
  )
  assertStatus(await it.manage('POST', `/projects/${id}/suspend`), 200)
  await until('the suspension counts', async () => (await idle.get('bucket')).status === 403)
  for (const [name, route] of [...closed, ...open])
    for (const path of pathsOf(route, id)) {
      const reply = await call(route, `${path}?token=${signed}`, { apikey })
      assert.equal(reply.status, 403, `${name} ${path}: ${reply.status} ${reply.text}`)
      if (route.method !== 'HEAD') assertErrorBody(reply)
    }
  assertRefused(await idle.get(objectPath(bucket, 'a.txt'), { as: 'nobody' }), 403)
  assertStatus(await it.manage('POST', `/projects/${id}/resume`), 200)
  await until('the resumption counts', async () => (await idle.get('bucket')).status === 200)
  assert.deepEqual(await idle.keys(bucket), ['a.txt'])
  assert.equal(
    (await idle.get(`object/sign/${bucket}/a.txt?token=${signed}`, { as: 'nobody' })).text,
    'content',
  )
})
