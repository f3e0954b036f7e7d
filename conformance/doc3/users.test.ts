// 3 §4 "Authentication settings and users": a project's users in the management API.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, mintToken, someId, unique, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { address, created, password, usersOf } from '../users.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const { users, auth, signIn, signedIn, refresh, userOf } = usersOf(() => it)

const fields = [
  ...['app_metadata', 'ban_reason', 'banned_until', 'created_at', 'email', 'email_confirmed_at', 'id'],
  ...['invited_at', 'is_anonymous', 'is_banned', 'last_sign_in_at', 'providers', 'role', 'updated_at'],
  'user_metadata',
]

test('3 §4 a user is created with 201, can be read, and signs in with the password', async () => {
  const project = await createProject(it)
  const email = `${unique('New.User')}@Example.TEST`
  const reply = await users(project).create({
    email,
    password,
    user_metadata: { name: 'Ann' },
    app_metadata: { plan: 'gold' },
  })
  const { body } = reply
  assert.equal(reply.status, 201, reply.text)
  assert.deepEqual(Object.keys(body).sort(), fields)
  assert.match(body.id, uuid)
  assert.equal(body.email, email.toLowerCase())
  assert.deepEqual(body.providers, ['email'])
  assert.equal(body.user_metadata.name, 'Ann')
  assert.deepEqual(body.app_metadata, { plan: 'gold', provider: 'email', providers: ['email'] })
  assert.deepEqual([body.is_banned, body.banned_until, body.ban_reason], [false, null, null])
  assert.ok(!reply.text.includes(password))
  assert.equal((await auditOf(it, 'user.created', reply)).project_id, project.id)
  assert.deepEqual((await users(project).read(body.id)).body, body)

  const session = await signedIn(project, email)
  assert.equal(session.user.id, body.id)
  assert.deepEqual((await users(project).read(body.id)).body.last_sign_in_at !== null, true)
})

test('3 §4 a user without a password cannot sign in with one; auto_confirm decides whether the address is confirmed', async () => {
  const project = await createProject(it)
  const [first, second, third] = [address(), address(), address()]
  const none = await created(users(project).create({ email: first }))
  assert.equal((await signIn(project, first, '')).status, 400)
  assert.equal((await signIn(project, first, 'anything')).status, 400)
  assert.notEqual(none.email_confirmed_at, null)

  const unverified = await created(users(project).create({ email: second, password, email_confirm: false }))
  assert.equal(unverified.email_confirmed_at, null)
  const refused = await signIn(project, second)
  assert.deepEqual([refused.status, refused.body.error_code], [400, 'email_not_confirmed'])

  await it.manage('PATCH', `/projects/${project.id}/auth`, { auto_confirm: false })
  assert.equal((await created(users(project).create({ email: third, password }))).email_confirmed_at, null)
  const verified = await created(users(project).create({ email: address(), password, email_confirm: true }))
  assert.notEqual(verified.email_confirmed_at, null)
})

test('3 §4 addresses are unique, and invalid users are rejected', async () => {
  const project = await createProject(it)
  const email = address()
  await created(users(project).create({ email, password }))
  assertManagementError(await users(project).create({ email: email.toUpperCase() }), 'already_exists')
  for (const body of [
    {},
    { email: 'nobody' },
    { email: 'a b@example.test' },
    { email: 5 },
    { email: `${'x'.repeat(300)}@example.test` },
    { email: address(), password: 'x'.repeat(100) },
    { email: address(), password: 5 },
    { email: address(), user_metadata: [] },
    { email: address(), app_metadata: 'x' },
    { email: address(), role: 'service_role' },
    { email: address(), id: someId },
  ])
    assertManagementError(await users(project).create(body), 'invalid_request')
  assertManagementError(await users(project).create({ email: address(), password: 'short' }), 'weak_password')
  for (const name of ['a\0b', 'x'.repeat(9000)])
    assertManagementError(
      await users(project).create({ email: address(), user_metadata: { name } }),
      'invalid_request',
    )
  assert.equal((await users(project).list()).body.total, 1)
})

test('3 §4 users are listed newest first, in pages, and searched by part of the address', async () => {
  const project = await createProject(it)
  const names = ['ann', 'Bob', 'a_b%c', 'annabel']
  for (const name of names)
    await created(
      users(project).create({ email: `${name}@mail.example.test`, user_metadata: { full_name: 'Zed' } }),
    )
  await auth(project, 'POST', '/signup', { data: {} })
  const all = await users(project).list()
  assert.deepEqual(Object.keys(all.body).sort(), ['limit', 'offset', 'total', 'users'])
  assert.deepEqual([all.body.total, all.body.limit, all.body.offset], [5, 50, 0])
  assert.deepEqual(
    all.body.users.map(({ email }: any) => email),
    [null, ...names.map(name => `${name.toLowerCase()}@mail.example.test`).reverse()],
  )
  assert.deepEqual([all.body.users[0].is_anonymous, all.body.users[0].providers], [true, []])

  const second = await users(project).list('?limit=2&offset=1')
  assert.deepEqual(second.body.users, all.body.users.slice(1, 3))
  assert.deepEqual([second.body.total, second.body.limit, second.body.offset], [5, 2, 1])
  assert.equal((await users(project).list('?limit=1000')).body.limit, 100)

  const found = async (search: string) => {
    const { body } = await users(project).list(`?search=${encodeURIComponent(search)}`)
    assert.equal(body.total, body.users.length)
    return body.users.map(({ email }: any) => email.split('@')[0]).sort()
  }
  assert.deepEqual(await found('ANN'), ['ann', 'annabel'])
  assert.deepEqual(await found('bob@'), ['bob'])
  assert.deepEqual(await found('_b%'), ['a_b%c'])
  assert.deepEqual(await found('%'), ['a_b%c'])
  assert.deepEqual(await found('zed'), [], 'only addresses are searched')
  assert.deepEqual(await found("' or true --"), [])
  assert.equal((await users(project).list('?search=')).body.total, 5)
  assert.equal((await users(project).list('?search=%00')).status, 400)
})

test('3 §4 deleting a user ends all sessions, and the address can be used again', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await created(users(project).create({ email, password }))
  const session = await signedIn(project, email)
  const removed = await users(project).remove(id)
  assert.equal(removed.status, 204)
  assert.equal((await auditOf(it, 'user.deleted', removed)).target, id)
  assertManagementError(await users(project).read(id), 'user_not_found')
  assertManagementError(await users(project).remove(id), 'user_not_found')
  assert.equal((await users(project).list()).body.total, 0)
  assert.equal((await userOf(project, session.access_token)).status, 403)
  assert.equal((await refresh(project, session.refresh_token)).status, 400)
  assert.equal((await signIn(project, email)).status, 400)
  await created(users(project).create({ email, password }))
  await signedIn(project, email)
})

test('3 §4 unknown users and projects are 404, also for ids of another project', async () => {
  const project = await createProject(it)
  const elsewhere = await createProject(it)
  const { id } = await created(users(elsewhere).create({ email: address() }))
  const own = users(project)
  for (const user of [someId, id])
    for (const reply of [
      await own.read(user),
      await own.remove(user),
      await own.ban(user, {}),
      await own.unban(user),
      await own.sessions(user),
      await own.revokeAll(user),
      await own.revoke(user, someId),
    ])
      assertManagementError(reply, 'user_not_found')
  assertManagementError(await own.read('..%2f..'), 'invalid_request')
  const nobody = users({ ...project, id: someId })
  for (const reply of [
    await nobody.list(),
    await nobody.create({ email: address() }),
    await nobody.read(id),
    await nobody.remove(id),
    await nobody.ban(id, {}),
    await nobody.sessions(id),
    await nobody.import([]),
  ])
    assertManagementError(reply, 'project_not_found')
  assert.equal((await users(elsewhere).read(id)).status, 200)
})

test('3 §5 reading users needs read scope, all other routes admin scope', async () => {
  const project = await createProject(it)
  const { id } = await created(users(project).create({ email: address() }))
  const [reader, deployer] = [await mintToken(it, 'read'), await mintToken(it, 'deploy')]
  const as = (token: string, method: string, path: string, body?: unknown) =>
    it.call(method, `/api/v1/projects/${project.id}/users${path}`, { token, body })
  for (const path of ['', `/${id}`, `/${id}/sessions`])
    assert.equal((await as(reader.token, 'GET', path)).status, 200)
  for (const { token } of [reader, deployer])
    for (const [method, path, body] of [
      ['POST', '', { email: address() }],
      ['POST', '/import', { users: [] }],
      ['DELETE', `/${id}`],
      ['POST', `/${id}/ban`, {}],
      ['POST', `/${id}/unban`],
      ['DELETE', `/${id}/sessions`],
      ['DELETE', `/${id}/sessions/${someId}`],
    ] as const)
      assertNeedsScope(await as(token, method, path, body), 'admin')
  for (const key of [project.anon_key, project.service_role_key])
    assertManagementError(await as(key, 'GET', ''), 'unauthorized')
})

test('3 §3 the users of a suspended project can still be managed', async () => {
  const project = await createProject(it)
  const { id } = await created(users(project).create({ email: address(), password }))
  await it.manage('POST', `/projects/${project.id}/suspend`)
  assert.equal((await users(project).list()).body.total, 1)
  assert.equal((await users(project).ban(id, { reason: 'x' })).body.is_banned, true)
  await created(users(project).create({ email: address() }))
  assert.equal((await users(project).import([{ email: address() }])).body.imported, 1)
  assert.equal((await users(project).remove(id)).status, 204)
})
