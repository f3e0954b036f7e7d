// 3 §5: sessions, the scope of each role, and the limits of membership.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  auditOf,
  type CreatedProject,
  createProject,
  createUser,
  jwt,
  login,
  nowSeconds,
  sessionOf,
  someId,
  type User,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
let elsewhere: CreatedProject
before(async () => {
  it = await target()
  // Two users stay super_admin, so that those of the tests can be demoted and deleted.
  await createUser(it)
  elsewhere = await createProject(it)
})
after(() => it.stop())

const as = (token: string) => (method: string, path: string, body?: unknown) =>
  it.call(method, `/api/v1${path}`, { token, body })
const change = async (user: User, fields: Record<string, unknown>) => {
  const reply = await it.manage('PATCH', `/admin/users/${user.id}`, fields)
  assert.equal(reply.status, 200, reply.text)
}
const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, number>

test('3 §4 login returns a session of 12 hours and is audited', async () => {
  const user = await createUser(it, 'developer')
  const reply = await login(it, user)
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), ['expires_at', 'token', 'user'])
  assert.deepEqual(reply.body.user, { id: user.id, email: user.email, role: 'developer' })
  const twelveHours = 12 * 3600
  const { iat, exp } = claimsOf(reply.body.token)
  assert.equal(exp! - iat!, twelveHours)
  assert.equal(Date.parse(reply.body.expires_at), exp! * 1000)
  assert.ok(Math.abs(exp! - nowSeconds() - twelveHours) < 60)
  const entry = await auditOf(it, 'platform.login', reply)
  assert.deepEqual(entry.actor, { kind: 'user', id: user.id, label: user.email })
  assert.ok(!JSON.stringify(entry).includes(reply.body.token))
  assert.ok(!JSON.stringify(entry).includes(user.password))
})

test('3 §5 forged, altered or unsigned session tokens are 401', async () => {
  const user = await createUser(it)
  const token = await sessionOf(it, user)
  const [header, payload, signature] = token.split('.') as [string, string, string]
  const claims = claimsOf(token)
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  for (const forged of [
    `${header}.${encode({ ...claims, exp: claims['exp']! + 60 })}.${signature}`,
    `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.${signature}`,
    `${header}.${payload}.`,
    `${header}.${payload}`,
    `${header}.${payload}.${signature.slice(0, -4)}`,
    `${token}.`,
    jwt(claims, ''),
    jwt(claims, elsewhere.jwt_secret),
    jwt(claims, it.adminToken),
    jwt({ ...claims, role: 'service_role' }, elsewhere.jwt_secret),
  ])
    assertManagementError(await as(forged)('GET', '/projects'), 'unauthorized')
  assert.equal((await as(token)('GET', '/projects')).status, 200)
})

test('3 §5 sessions and logins of a deactivated user are 401 immediately', async () => {
  const user = await createUser(it)
  const session = await sessionOf(it, user)
  await change(user, { is_active: false })
  assertManagementError(await as(session)('GET', '/projects'), 'unauthorized')
  const reply = await login(it, user)
  assertManagementError(reply, 'invalid_login')
})

test('3 §5 a deleted user’s session is 401 immediately', async () => {
  const user = await createUser(it)
  const session = await sessionOf(it, user)
  assert.equal((await it.manage('DELETE', `/admin/users/${user.id}`)).status, 204)
  assertManagementError(await as(session)('GET', '/projects'), 'unauthorized')
})

test('3 §5 a new password ends the user’s sessions immediately', async () => {
  const user = await createUser(it)
  const session = await sessionOf(it, user)
  const password = 'an entirely new password'
  await change(user, { password })
  assertManagementError(await as(session)('GET', '/projects'), 'unauthorized')
  const old = await login(it, user)
  assertManagementError(old, 'invalid_login')
  assert.equal((await as(await sessionOf(it, { ...user, password }))('GET', '/projects')).status, 200)
})

test('3 §5 a super_admin has admin scope everywhere', async () => {
  const call = as(await sessionOf(it, await createUser(it)))
  for (const path of ['/admin/stats', '/admin/users', '/platform/tokens', `/projects/${elsewhere.id}`])
    assert.equal((await call('GET', path)).status, 200, path)
  assert.equal((await call('PATCH', `/projects/${elsewhere.id}`, { description: 'touched' })).status, 200)
  assert.equal((await call('GET', `/projects/${elsewhere.id}/keys/service-role`)).status, 200)
  assertManagementError(await call('GET', '/nothing'), 'route_not_found')
  const { body } = await call('GET', '/projects?limit=100')
  assert.ok(body.projects.some((each: { id: string }) => each.id === elsewhere.id))
})

test('3 §5 a change of role takes effect immediately, and the creator of a project is its owner', async () => {
  const user = await createUser(it)
  const session = await sessionOf(it, user)
  const call = as(session)
  const own = await createProject(it, {}, session)
  const revealKey = () => call('GET', `/projects/${own.id}/keys/service-role`)
  const rename = () => call('PATCH', `/projects/${own.id}`, { description: 'mine' })
  const read = () => call('GET', `/projects/${own.id}`)

  await change(user, { role: 'project_admin' })
  for (const each of [read, rename, revealKey]) assert.equal((await each()).status, 200)

  await change(user, { role: 'developer' })
  assert.equal((await read()).status, 200)
  for (const each of [rename, revealKey]) assertNeedsScope(await each(), 'admin')

  await change(user, { role: 'viewer' })
  assert.equal((await read()).status, 200)
  for (const each of [rename, revealKey]) assertNeedsScope(await each(), 'admin')
  assertNeedsScope(await call('POST', `/projects/${own.id}/suspend`), 'admin')
  assertNeedsScope(await call('DELETE', `/projects/${own.id}`), 'admin')
  assert.equal((await it.manage('GET', `/projects/${own.id}`)).body.status, 'active')

  await change(user, { role: 'project_admin' })
  assert.equal((await call('DELETE', `/projects/${own.id}`)).status, 204)
})

for (const role of ['project_admin', 'developer', 'viewer'])
  test(`3 §5 a ${role} can access only projects with a membership`, async () => {
    const user = await createUser(it)
    const session = await sessionOf(it, user)
    const own = await createProject(it, {}, session)
    await change(user, { role })
    const call = as(session)

    for (const id of [elsewhere.id, someId]) {
      assertNeedsScope(await call('GET', `/projects/${id}`), 'read')
      assertNeedsScope(await call('PATCH', `/projects/${id}`, { description: 'x' }), 'admin')
      assertNeedsScope(await call('POST', `/projects/${id}/suspend`), 'admin')
      assertNeedsScope(await call('GET', `/projects/${id}/keys/service-role`), 'admin')
    }
    // The answer is the same for a project of others and for an unknown one.
    const foreign = await call('GET', `/projects/${elsewhere.id}`)
    assert.equal(foreign.text, (await call('GET', `/projects/${someId}`)).text)

    const { body } = await call('GET', '/projects')
    assert.deepEqual(
      body.projects.map((each: { id: string }) => each.id),
      [own.id],
    )
    assert.equal(body.total, 1)
  })

for (const role of ['project_admin', 'developer', 'viewer'])
  test(`3 §5 a ${role} is refused on platform routes`, async () => {
    const call = as(await sessionOf(it, await createUser(it, role)))
    for (const [method, path] of [
      ['POST', '/projects'],
      ['GET', '/platform/tokens'],
      ['POST', '/platform/tokens'],
      ['GET', '/admin/stats'],
      ['GET', '/admin/audit'],
      ['GET', '/admin/audit/export'],
      ['POST', '/admin/audit/prune'],
      ['POST', '/admin/encrypt-settings-secrets'],
      ['GET', '/admin/users'],
      ['POST', '/admin/users'],
      ['GET', '/nothing'],
    ] as const)
      assertNeedsScope(await call(method, path), 'admin')
    const { status, body } = await call('GET', '/projects')
    assert.equal(status, 200)
    assert.deepEqual({ projects: body.projects, total: body.total }, { projects: [], total: 0 })
  })

test('3 §5 no user can raise the own role', async () => {
  const user = await createUser(it, 'viewer')
  const call = as(await sessionOf(it, user))
  assertNeedsScope(await call('PATCH', `/admin/users/${user.id}`, { role: 'super_admin' }), 'admin')
  assertNeedsScope(await call('POST', '/platform/tokens', { name: 'x', scope: 'read' }), 'admin')
})

test('3 §5 a project created with the admin token or a platform token has no member', async () => {
  const user = await createUser(it, 'project_admin')
  const call = as(await sessionOf(it, user))
  const created = await createProject(it)
  assertNeedsScope(await call('GET', `/projects/${created.id}`), 'read')
})
