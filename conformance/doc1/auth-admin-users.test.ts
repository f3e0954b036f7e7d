// 1 §4.5 and auth contract §11: the service_role key creates, reads, updates and deletes users.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertUser,
  authProject,
  authRoot,
  claimsOf,
  password,
  someone,
  succeeded,
} from '../auth.ts'
import { jwt, nowSeconds, sleep, someId } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let other: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it, { auto_confirm: false })
  other = await authProject(it)
})
after(() => it.stop())

const create = (fields: Record<string, unknown>) => auth.admin('POST', '/admin/users', fields)
const change = (id: string, fields: Record<string, unknown>) =>
  auth.admin('PUT', `/admin/users/${id}`, fields)
const signIn = (email: string, given = password) =>
  auth.post('/token?grant_type=password', { email, password: given })

/** bcrypt hashes of `password` with several costs. */
const hashes = {
  4: '$2b$04$yPgW1TLZmRQBugX9OKtazu0mIqOdpE2rIDe0xjfdYG9cYVfCMR3me',
  10: '$2b$10$yfYS6uY/TZQfnWI4s6eYFewbsEeYZ3ecNGjlvNLQErsXBgKZQhUHS',
  14: '$2b$14$L0vSFfM1XUF8F6nIeTGw.O457sm0IHk/ixomK58RGbr4Vv5dBMskO',
  15: '$2b$15$yZmJf/rDK5AN7CWc4Y925OZoadRBFk5pOCw8M4.lFrZWFYyrMN2tm',
}

test('1 §4.5 the admin API needs the service_role key', async () => {
  const { id, email } = await auth.createUser()
  const { access_token: token } = succeeded(await signIn(email))
  for (const [method, path, body] of [
    ['GET', '/admin/users', undefined],
    ['POST', '/admin/users', { email: someone() }],
    ['GET', `/admin/users/${id}`, undefined],
    ['PUT', `/admin/users/${id}`, { app_metadata: { is_admin: true } }],
    ['DELETE', `/admin/users/${id}`, {}],
    ['GET', `/admin/users/${id}/factors`, undefined],
    ['DELETE', `/admin/users/${id}/factors/${someId}`, undefined],
    ['POST', '/invite', { email: someone() }],
    ['POST', '/admin/generate_link', { type: 'magiclink', email }],
  ] as const)
    for (const shape of ['native', 'alias'] as const) {
      const byAnon = await auth.ask(method, path, { body, shape })
      const anon = `${byAnon.status} ${byAnon.body?.code}`
      assert.ok(['401 no_authorization', '403 not_admin'].includes(anon), `${method} ${path}: ${anon}`)
      assertAuthError(byAnon, byAnon.status, byAnon.body.code)
      assertAuthError(await auth.ask(method, path, { body, shape, token }), 403, 'not_admin')
      const mixed = await auth.ask(method, path, { body, shape, token, as: 'service_role' })
      assertAuthError(mixed, 403, 'not_admin')
      assert.equal((await auth.ask(method, path, { body, shape, as: 'nobody' })).status, 401)
      const stranger = await it.call(method, authRoot(auth.project, shape) + path, {
        apikey: other.project.service_role_key,
        token: other.project.service_role_key,
        body,
      })
      assert.equal(stranger.status, 401, `${method} ${path}: ${stranger.status}`)
    }
  assert.deepEqual((await auth.readUser(id)).app_metadata, { provider: 'email', providers: ['email'] })
})

test('clarifications: the service_role key as Bearer is enough, and so is a JWT of that role with a key', async () => {
  const path = `${authRoot(auth.project)}/admin/users`
  assert.equal((await it.call('GET', path, { token: auth.project.service_role_key })).status, 200)
  assert.equal((await it.call('GET', path, { apikey: auth.project.service_role_key })).status, 200)
  const token = jwt({ role: 'service_role', exp: nowSeconds() + 60 }, auth.project.jwt_secret)
  assert.equal((await it.call('GET', path, { apikey: auth.project.anon_key, token })).status, 200)
})

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §11: a user is created with the given fields, without a mail (${shape})`, async () => {
    const [id, email] = [randomUUID(), someone('Mixed')]
    const fields = {
      id,
      email,
      password,
      email_confirm: true,
      user_metadata: { name: 'Ada' },
      app_metadata: { plan: 'gold' },
    }
    const user = succeeded(await auth.post('/admin/users', fields, { as: 'service_role', shape }))
    assertUser(user)
    assert.partialDeepStrictEqual(user, { id, email: email.toLowerCase(), is_anonymous: false })
    assert.deepEqual(user.user_metadata, { name: 'Ada', email_verified: true })
    assert.deepEqual(user.app_metadata, { plan: 'gold', provider: 'email', providers: ['email'] })
    assert.ok(user.email_confirmed_at && user.confirmed_at)
    for (const field of ['last_sign_in_at', 'confirmation_sent_at', 'invited_at', 'banned_until'])
      assert.ok(!(field in user), field)
    assert.deepEqual(
      user.identities.map((each: any) => [each.provider, each.id, each.email]),
      [['email', id, email.toLowerCase()]],
    )
    assert.deepEqual(succeeded(await auth.get(`/admin/users/${id}`, { as: 'service_role', shape })), user)
    const session = succeeded(await signIn(email))
    assert.equal(session.user.id, id)
    assert.equal(claimsOf(session.access_token).app_metadata.plan, 'gold')
    assert.deepEqual(await auth.kindsTo(email.toLowerCase()), [])
  })

test('auth contract §11: without email_confirm the address is not confirmed, and no mail is sent', async () => {
  const email = someone()
  const user = succeeded(await create({ email, password }))
  assert.ok(!('email_confirmed_at' in user) && !('confirmation_sent_at' in user))
  assertAuthError(await signIn(email), 400, 'email_not_confirmed')
  assert.deepEqual(await auth.kindsTo(email), [])
})

test('auth contract §11: a user can be created without a password', async () => {
  const email = someone()
  succeeded(await create({ email, email_confirm: true }))
  for (const given of ['', 'null', 'undefined'])
    assertAuthError(await signIn(email, given), 400, 'invalid_credentials')
})

test('auth contract §11: a bcrypt hash up to cost 14 is stored unchanged', async () => {
  for (const cost of [4, 10, 14] as const) {
    const email = someone()
    const { id } = succeeded(await create({ email, password_hash: hashes[cost], email_confirm: true }))
    const [{ stored }] = await auth.sql(
      `select encrypted_password as stored from auth.users where id = '${id}'`,
    )
    assert.equal(stored, hashes[cost])
    assert.equal(succeeded(await signIn(email)).user.id, id, `cost ${cost}`)
    assertAuthError(await signIn(email, 'wrong password'), 400, 'invalid_credentials')
    assertAuthError(await signIn(email, hashes[cost]), 400, 'invalid_credentials')
  }
  for (const prefix of ['$2a$', '$2y$']) {
    const email = someone()
    const password_hash = hashes[4].replace('$2b$', prefix)
    succeeded(await create({ email, password_hash, email_confirm: true }))
    assert.equal((await signIn(email)).status, 200, prefix)
  }
  for (const password_hash of [
    hashes[15],
    'nonsense',
    '$2b$10$short',
    '$argon2id$v=19$m=65536$x$y',
    `${hashes[4]}x`,
  ])
    assertAuthError(await create({ email: someone(), password_hash }), 400, 'validation_failed')
})

test('auth contract §11: a free address is required', async () => {
  const { email, id } = await auth.createUser()
  assertAuthError(await create({ email, password }), 422, 'email_exists')
  assertAuthError(await create({ email: email.toUpperCase() }), 422, 'email_exists')
  for (const fields of [{}, { password }, { email: '' }, { email: 'nonsense' }, { email: 5 }])
    assertAuthError(await create(fields), 400, 'validation_failed')
  const twin = await create({ id, email: someone() })
  assert.ok([409, 422].includes(twin.status), `${twin.status} ${twin.text}`)
  assertAuthError(await create({ id: 'nonsense', email: someone() }), 400, 'validation_failed')
  assertAuthError(await create({ email: someone(), password: '12345' }), 422, 'weak_password')
  assertAuthError(await create({ email: someone(), password: 'x'.repeat(73) }), 400, 'validation_failed')
  assertAuthError(await create({ email: someone(), user_metadata: [] }), 400, 'validation_failed')
  assertAuthError(await create({ email: someone(), app_metadata: 'x' }), 400, 'validation_failed')
})

test('clarifications: a user cannot get a role that a JWT must not have', async () => {
  const email = someone()
  const reply = await create({ email, password, email_confirm: true, role: 'postgres' })
  if (reply.status === 400) return
  const { access_token: token } = succeeded(await signIn(email))
  assert.equal(claimsOf(token).role, 'authenticated')
})

test('auth contract §11: a user can be created banned', async () => {
  const user = await auth.createUser({ ban_duration: '1h' })
  assert.ok(Date.parse(user.banned_until) > Date.now())
  assertAuthError(await signIn(user.email), 400, 'user_banned')
})

test('auth contract §11: an unknown user is 404, and an invalid id never matches another route', async () => {
  assertAuthError(await auth.admin('GET', `/admin/users/${someId}`), 404, 'user_not_found')
  const elsewhere = await other.createUser()
  for (const method of ['GET', 'PUT', 'DELETE'] as const)
    assertAuthError(
      await auth.admin(method, `/admin/users/${elsewhere.id}`, method === 'PUT' ? {} : undefined),
      404,
      'user_not_found',
    )
  assert.equal((await other.readUser(elsewhere.id)).id, elsewhere.id)
  for (const id of ['nonsense', '..%2f..%2fsettings', '%2e%2e', '*', `${someId}'--`, `${someId}%00`])
    for (const method of ['GET', 'DELETE']) {
      const { status, text } = await auth.admin(method, `/admin/users/${id}`)
      assert.ok(status === 400 || status === 404, `${method} ${id}: ${status} ${text}`)
    }
})

test('auth contract §11: metadata merges by top-level keys, null removes one', async () => {
  const { id } = await auth.createUser({ user_metadata: { a: 1, b: { c: 2 } }, app_metadata: { x: 1, y: 2 } })
  const user = succeeded(
    await change(id, { user_metadata: { b: { d: 3 }, a: null }, app_metadata: { y: null, z: [1] } }),
  )
  assertUser(user)
  assert.deepEqual(user.user_metadata, { b: { d: 3 }, email_verified: true })
  assert.deepEqual(user.app_metadata, { x: 1, z: [1], provider: 'email', providers: ['email'] })
  assert.deepEqual((await auth.readUser(id)).app_metadata, user.app_metadata)
})

test('auth contract §11: an admin changes the address immediately, without confirmation', async () => {
  const { id, email } = await auth.createUser()
  const fresh = someone('New').toUpperCase()
  const user = succeeded(await change(id, { email: fresh }))
  assert.equal(user.email, fresh.toLowerCase())
  assert.ok(!('new_email' in user))
  assert.equal(user.identities[0].identity_data.email, fresh.toLowerCase())
  assert.equal(succeeded(await signIn(fresh)).user.id, id)
  assertAuthError(await signIn(email), 400, 'invalid_credentials')
  for (const address of [email, fresh.toLowerCase()]) assert.deepEqual(await auth.kindsTo(address), [])
  const taken = await auth.createUser()
  assertAuthError(await change(id, { email: taken.email }), 422, 'email_exists')
  assertAuthError(await change(id, { email: 'nonsense' }), 400, 'validation_failed')
})

test('auth contract §11: an address can be confirmed', async () => {
  const { id, email } = await auth.createUser({ email_confirm: false })
  const user = succeeded(await change(id, { email_confirm: true }))
  assert.ok(user.email_confirmed_at && user.confirmed_at)
  assert.equal(user.user_metadata.email_verified, true)
  assert.equal(succeeded(await signIn(email)).user.id, id)
})

test('auth contract §4: a password set by an administrator ends all sessions and pending codes', async () => {
  const { id, email } = await auth.createUser()
  const sessions = [succeeded(await signIn(email)), succeeded(await signIn(email))]
  succeeded(await auth.post('/recover', { email }))
  const { code } = await auth.mailTo(email, 'reset_password')
  assertUser(succeeded(await change(id, { password: 'another password' })))
  for (const { access_token, refresh_token } of sessions) {
    assertAuthError(await auth.get('/user', { token: access_token }), 403, 'session_not_found')
    assert.equal((await auth.post('/token?grant_type=refresh_token', { refresh_token })).status, 400)
  }
  const fields = { type: 'recovery', email, token: code }
  assertAuthError(await auth.post('/verify', fields), 403, 'otp_expired')
  assertAuthError(await signIn(email), 400, 'invalid_credentials')
  assert.equal((await signIn(email, 'another password')).status, 200)
  assertAuthError(await change(id, { password: '12345' }), 422, 'weak_password')
})

test('auth contract §11: other changes end no session', async () => {
  const { id, email } = await auth.createUser()
  const { access_token: token } = succeeded(await signIn(email))
  succeeded(await change(id, { user_metadata: { a: 1 }, app_metadata: { b: 2 }, email_confirm: true }))
  assert.equal(succeeded(await auth.get('/user', { token })).app_metadata.b, 2)
})

test('auth contract §11: a ban is a duration, and none removes it', async () => {
  const { id, email } = await auth.createUser()
  const { access_token: token, refresh_token } = succeeded(await signIn(email))
  for (const [duration, seconds] of [
    ['24h', 86_400],
    ['1h30m', 5400],
    ['100s', 100],
    ['87600h', 315_360_000],
    ['1.5h', 5400],
  ] as const) {
    const started = Date.now()
    const { banned_until } = succeeded(await change(id, { ban_duration: duration }))
    const off = Date.parse(banned_until) - started - seconds * 1000
    assert.ok(off > -5000 && off < 60_000, `${duration}: ${banned_until}`)
  }
  assertAuthError(await auth.get('/user', { token }), 403, 'user_banned')
  assertAuthError(await signIn(email), 400, 'user_banned')
  const refreshed = await auth.post('/token?grant_type=refresh_token', { refresh_token })
  assertAuthError(refreshed, 400, 'user_banned')
  const free = succeeded(await change(id, { ban_duration: 'none' }))
  assert.ok(!('banned_until' in free) || Date.parse(free.banned_until) < Date.now())
  assert.equal((await signIn(email)).status, 200)
  for (const ban_duration of ['a while', '24', 'h', '1d', '1h 30m', '24h; drop table', 5])
    assertAuthError(await change(id, { ban_duration }), 400, 'validation_failed')
})

test('auth contract §11: deleting a user ends the sessions, and the address can be used again', async () => {
  for (const body of [undefined, {}, { should_soft_delete: false }]) {
    const { id, email } = await auth.createUser()
    const { access_token: token, refresh_token } = succeeded(await signIn(email))
    assert.deepEqual(succeeded(await auth.admin('DELETE', `/admin/users/${id}`, body)), {})
    assertAuthError(await auth.admin('GET', `/admin/users/${id}`), 404, 'user_not_found')
    assertAuthError(await auth.admin('DELETE', `/admin/users/${id}`), 404, 'user_not_found')
    const asBefore = await auth.get('/user', { token })
    assert.equal(asBefore.status, 403)
    assert.ok(['user_not_found', 'session_not_found'].includes(asBefore.body.code), asBefore.text)
    assert.equal((await auth.post('/token?grant_type=refresh_token', { refresh_token })).status, 400)
    assertAuthError(await signIn(email), 400, 'invalid_credentials')
    assert.notEqual((await auth.createUser({ email })).id, id)
  }
})

test('auth contract §4: a soft-deleted user leaves a row without personal data', async () => {
  const name = `Ada ${randomUUID()}`
  const { id, email } = await auth.createUser({ user_metadata: { name }, app_metadata: { plan: name } })
  const { access_token: token, refresh_token } = succeeded(await signIn(email))
  const deleted = await auth.admin('DELETE', `/admin/users/${id}`, { should_soft_delete: true })
  assert.deepEqual(succeeded(deleted), {})
  const user = await auth.readUser(id)
  assertUser(user)
  assert.ok(user.deleted_at)
  assert.notEqual(user.email, email)
  assert.deepEqual([user.user_metadata, user.app_metadata], [{}, {}])
  for (const trace of [email, name, email.split('@')[0]!])
    assert.ok(!JSON.stringify(user).includes(trace), `${trace} is still there: ${JSON.stringify(user)}`)
  const rows = await auth.sql(
    `select u::text as row from auth.users u where id = '${id}' union all
     select i::text from auth.identities i where user_id = '${id}'`,
  )
  for (const { row } of rows) assert.ok(!row.includes(email) && !row.includes(name), row)
  assert.equal((await auth.get('/user', { token })).status, 403)
  assert.equal((await auth.post('/token?grant_type=refresh_token', { refresh_token })).status, 400)
  assertAuthError(await signIn(email), 400, 'invalid_credentials')
  assert.notEqual((await auth.createUser({ email })).id, id)
})

test('clarifications: the token of a banned or deleted user stops working everywhere', async () => {
  for (const act of [
    (id: string) => change(id, { ban_duration: '1h' }),
    (id: string) => auth.admin('DELETE', `/admin/users/${id}`),
    (id: string) => auth.admin('DELETE', `/admin/users/${id}`, { should_soft_delete: true }),
    (id: string) => change(id, { password: 'another password' }),
  ]) {
    const { id, email } = await auth.createUser()
    const { access_token: token } = succeeded(await signIn(email))
    const whoami = async () =>
      (await it.call('GET', `/v1/whoami/${auth.project.id}`, { apikey: auth.project.anon_key, token })).status
    assert.equal(await whoami(), 200)
    succeeded(await act(id))
    assert.equal((await auth.get('/user', { token })).status, 403, 'at once on auth routes')
    const deadline = Date.now() + 60_000
    while ((await whoami()) === 200) {
      assert.ok(Date.now() < deadline, 'the token is still taken')
      await sleep(50)
    }
    assert.ok([401, 403].includes(await whoami()))
  }
})

test('auth contract §11: the factors of a user are a plain array', async () => {
  const { id } = await auth.createUser()
  assert.deepEqual(succeeded(await auth.admin('GET', `/admin/users/${id}/factors`)), [])
  assertAuthError(await auth.admin('GET', `/admin/users/${someId}/factors`), 404, 'user_not_found')
  const missing = await auth.admin('DELETE', `/admin/users/${id}/factors/${someId}`)
  assertAuthError(missing, 404, 'mfa_factor_not_found')
})
