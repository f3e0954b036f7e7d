// 3 §4 "Secrets" (rotation) and §5.1 (secret reveal): the keys and the JWT secret of a project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, type CreatedProject, createProject, mintToken, userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, assertNeedsScope } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const whoami = (project: Pick<CreatedProject, 'id'>, apikey: string, token?: string) =>
  it.call('GET', `/v1/whoami/${project.id}`, { apikey, token })
const rotate = (project: CreatedProject, what: 'jwt' | 'api-keys', token = it.adminToken) =>
  it.call('POST', `/api/v1/projects/${project.id}/rotate/${what}`, { token })
const reveal = (project: CreatedProject, token = it.adminToken) =>
  it.call('GET', `/api/v1/projects/${project.id}/keys/service-role`, { token })

test('3 §5.1 admin scope reveals the service_role key, and the audit log has the actor', async () => {
  const project = await createProject(it)
  const pat = await mintToken(it, 'admin')
  const reply = await reveal(project, pat.token)
  assert.equal(reply.status, 200)
  assert.deepEqual(reply.body, { service_role_key: project.service_role_key })
  const entry = await auditOf(it, 'project.service_role_key_revealed', reply)
  assert.deepEqual(entry.actor, { kind: 'token', id: pat.id, label: pat.name })
  assert.deepEqual([entry.target, entry.project_id], [project.id, project.id])
  assert.ok(!JSON.stringify(entry).includes(project.service_role_key))
})

test('3 §5.1 a refused reveal shows nothing and is not recorded as one', async () => {
  const project = await createProject(it)
  for (const scope of ['read', 'deploy']) {
    const reply = await reveal(project, (await mintToken(it, scope)).token)
    assertNeedsScope(reply, 'admin')
    assert.ok(!reply.text.includes(project.service_role_key))
  }
  const { body } = await it.manage('GET', `/admin/audit?project_id=${project.id}&limit=100`)
  const actions = body.entries.map(({ action }: { action: string }) => action)
  assert.deepEqual(actions, ['project.created'])
})

test('3 §4 rotate/jwt returns a new secret, and JWTs signed with the old one are 401 immediately', async () => {
  const project = await createProject(it)
  const old = userJwt(project)
  assert.equal((await whoami(project, project.anon_key, old)).status, 200)

  const reply = await rotate(project, 'jwt')
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body), ['jwt_secret'])
  assert.notEqual(reply.body.jwt_secret, project.jwt_secret)
  assert.ok(reply.body.jwt_secret.length >= 32)

  assertDataError(await whoami(project, project.anon_key, old), 'unauthorized')
  const oldService = userJwt(project, { role: 'service_role' })
  assertDataError(await whoami(project, project.anon_key, oldService), 'unauthorized')
  const renewed = await whoami(project, project.anon_key, userJwt(reply.body))
  assert.equal(renewed.body.role, 'authenticated')
  for (const key of [project.anon_key, project.service_role_key])
    assert.equal((await whoami(project, key)).status, 200, 'the keys stay')

  const entry = await auditOf(it, 'project.jwt_secret_rotated', reply)
  assert.deepEqual([entry.target, entry.project_id], [project.id, project.id])
  for (const secret of [project.jwt_secret, reply.body.jwt_secret])
    assert.ok(!JSON.stringify(entry).includes(secret))
})

test('3 §4 rotate/api-keys returns two new keys, and the old ones are 401 immediately', async () => {
  const project = await createProject(it)
  const user = userJwt(project)
  assert.equal((await whoami(project, project.anon_key)).status, 200)
  assert.equal((await whoami(project, project.service_role_key)).status, 200)

  const reply = await rotate(project, 'api-keys')
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), ['anon_key', 'service_role_key'])
  const { anon_key, service_role_key } = reply.body
  assert.ok(anon_key.startsWith(`platform_anon_${project.slug}_`))
  assert.notEqual(anon_key, project.anon_key)
  assert.notEqual(service_role_key, project.service_role_key)

  for (const key of [project.anon_key, project.service_role_key]) {
    assertDataError(await whoami(project, key), 'unauthorized')
    assertDataError(await it.call('GET', `/v1/whoami/${project.id}`, { token: key }), 'unauthorized')
    assertDataError(await whoami(project, key, user), 'unauthorized')
  }
  assert.equal((await whoami(project, anon_key)).body.role, 'anon')
  assert.equal((await whoami(project, service_role_key)).body.role, 'service_role')
  assert.equal((await whoami(project, anon_key, user)).body.role, 'authenticated', 'users stay signed in')

  assert.equal((await it.manage('GET', `/projects/${project.id}`)).body.anon_key, anon_key)
  assert.deepEqual((await reveal(project)).body, { service_role_key })

  const entry = await auditOf(it, 'project.api_keys_rotated', reply)
  assert.deepEqual([entry.target, entry.project_id], [project.id, project.id])
  for (const secret of [anon_key, service_role_key, project.service_role_key])
    assert.ok(!JSON.stringify(entry).includes(secret))
})

test('3 §4 rotation affects only its project', async () => {
  const [project, other] = [await createProject(it), await createProject(it)]
  await rotate(project, 'api-keys')
  await rotate(project, 'jwt')
  assert.equal((await whoami(other, other.anon_key, userJwt(other))).status, 200)
  assert.equal((await whoami(other, other.service_role_key)).status, 200)
})

test('3 §4 rotation without admin scope is refused and changes nothing', async () => {
  const project = await createProject(it)
  const { token } = await mintToken(it, 'deploy')
  assertNeedsScope(await rotate(project, 'jwt', token), 'admin')
  assertNeedsScope(await rotate(project, 'api-keys', token), 'admin')
  assert.equal((await whoami(project, project.anon_key, userJwt(project))).status, 200)
})

test('3 §4 after concurrent rotations the stored keys work', async () => {
  const project = await createProject(it)
  const replies = await Promise.all([1, 2, 3].map(() => rotate(project, 'api-keys')))
  const anonKeys = replies.map(({ body }) => body.anon_key)
  const { body } = await it.manage('GET', `/projects/${project.id}`)
  assert.ok(anonKeys.includes(body.anon_key))
  const service = (await reveal(project)).body.service_role_key
  const pair = replies.find(reply => reply.body.anon_key === body.anon_key)
  assert.equal(service, pair?.body.service_role_key, 'the pair belongs together')
  for (const key of anonKeys)
    assert.equal((await whoami(project, key)).status, key === body.anon_key ? 200 : 401)
})

test('3 §4 keys of a suspended project can be rotated; it stays suspended', async () => {
  const project = await createProject(it)
  await it.manage('POST', `/projects/${project.id}/suspend`)
  const { body } = await rotate(project, 'api-keys')
  assertDataError(await whoami(project, body.anon_key), 'project_suspended')
  await it.manage('POST', `/projects/${project.id}/resume`)
  assert.equal((await whoami(project, body.anon_key)).status, 200)
  assertDataError(await whoami(project, project.anon_key), 'unauthorized')
})
