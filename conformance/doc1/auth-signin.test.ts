// 1 §2.4, §4.5 and auth contract §3, §4: sign-in with a password.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  authProject,
  claimsOf,
  password,
  seen,
  someone,
  succeeded,
} from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let confirming: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

const token = (body: unknown, api = auth, shape: 'native' | 'alias' = 'alias') =>
  api.post('/token?grant_type=password', body, { shape })

test('1 §4.5 a sign-in with a password returns a session, in both shapes of the URL', async () => {
  const me = await auth.signUp()
  for (const shape of ['native', 'alias'] as const) {
    const session = succeeded(
      await token({ email: me.email, password, gotrue_meta_security: {} }, auth, shape),
    )
    assertSession(session)
    assert.equal(session.user.id, me.id)
    assert.equal(session.expires_in, 3600)
    assert.ok(!('weak_password' in session))
  }
})

test('1 §4.5 each sign-in creates a new session and keeps the others', async () => {
  const me = await auth.signUp()
  const [second, third] = [await auth.signIn(me), await auth.signIn(me)]
  const all = [me, second, third]
  assert.equal(new Set(all.map(({ sessionId }) => sessionId)).size, 3)
  assert.equal(new Set(all.map(({ refreshToken }) => refreshToken)).size, 3)
  for (const each of all) assert.equal(succeeded(await auth.get('/user', { token: each.token })).id, me.id)
})

test('auth contract §2: last_sign_in_at is the time of the last sign-in', async () => {
  const me = await auth.signUp()
  const { session } = await auth.signIn(me)
  const last = session.user.last_sign_in_at
  assert.ok(Date.parse(last) > Date.parse(me.session.user.last_sign_in_at))
  assert.equal((await auth.readUser(me.id)).last_sign_in_at, last)
  assert.equal(session.user.created_at, me.session.user.created_at)
})

test('auth contract §3: every wrong pair of address and password is the same 400', async () => {
  const me = await auth.signUp()
  const mailOnly = someone()
  succeeded(await auth.post('/otp', { email: mailOnly }))
  const withoutPassword = await auth.createUser({ password: undefined })
  const deleted = await auth.signUp()
  succeeded(await auth.admin('DELETE', `/admin/users/${deleted.id}`))
  const replies = []
  for (const fields of [
    { email: me.email, password: 'wrong password' },
    { email: me.email, password: '' },
    { email: me.email, password: `${password} ` },
    { email: me.email, password: 'x'.repeat(100) },
    { email: me.email, password: `${password}\u0000` },
    { email: me.email },
    { email: someone(), password },
    { email: mailOnly, password },
    { email: mailOnly, password: '' },
    { email: withoutPassword.email, password },
    { email: withoutPassword.email, password: '' },
    { email: deleted.email, password },
  ]) {
    const reply = await token(fields)
    assertAuthError(reply, 400, 'invalid_credentials', /^Invalid login credentials$/)
    replies.push(seen(reply))
  }
  for (const reply of replies) assert.deepEqual(reply, replies[0])
})

test('auth contract §3: email_not_confirmed is returned only with the right password', async () => {
  const email = someone()
  succeeded(await confirming.post('/signup', { email, password }))
  const right = await token({ email, password }, confirming)
  assertAuthError(right, 400, 'email_not_confirmed', /^Email not confirmed$/)
  const wrong = await token({ email, password: 'wrong password' }, confirming)
  assertAuthError(wrong, 400, 'invalid_credentials', /^Invalid login credentials$/)
})

test('auth contract §3: user_banned is returned only with the right password', async () => {
  const me = await auth.signUp()
  succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, { ban_duration: '1h' }))
  assertAuthError(await token({ email: me.email, password }), 400, 'user_banned')
  assertAuthError(await token({ email: me.email, password: 'wrong password' }), 400, 'invalid_credentials')
  succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, { ban_duration: 'none' }))
  assert.equal((await auth.signIn(me)).id, me.id)
})

test('auth contract §3: an unknown grant_type is 400 invalid_credentials', async () => {
  const { email } = await auth.signUp()
  for (const query of [
    '',
    '?grant_type=',
    '?grant_type=nosuch',
    '?grant_type=PASSWORD',
    '?grant_type=client_credentials',
  ])
    assertAuthError(await auth.post(`/token${query}`, { email, password }), 400, 'invalid_credentials')
})

test('auth contract §4: a missing body or wrong types are 400', async () => {
  for (const body of [undefined, '', '{"email":', 'email=x']) {
    const reply = await auth.post('/token?grant_type=password', body, {
      headers: { 'content-type': 'application/json' },
    })
    assert.equal(reply.status, 400, `${body}: ${reply.status} ${reply.text}`)
    assertAuthError(reply, 400, reply.body.code)
  }
  for (const fields of [
    { email: 5, password },
    { email: someone(), password: 5 },
    { email: [], password: {} },
  ])
    assertAuthError(await token(fields), 400, 'validation_failed')
  for (const body of ['[]', '"text"', '5', 'null']) assert.equal((await token(body)).status, 400, body)
})

test('auth contract §4: phone sign-in is refused', async () => {
  const reply = await token({ phone: '+4915112345678', password })
  assert.ok(reply.status === 400 || reply.status === 422, `${reply.status} ${reply.text}`)
  assertAuthError(reply, reply.status, reply.body.code)
})

test('auth contract §2: a password that has become too weak signs in, with a warning', async () => {
  const strict = await authProject(it)
  const me = await strict.signUp({ password: 'sixsix' })
  await strict.settings({ min_password_length: 12 })
  const session = succeeded(await token({ email: me.email, password: 'sixsix' }, strict))
  assertSession(session)
  assert.deepEqual(session.weak_password.reasons, ['length'])
  assert.equal(typeof session.weak_password.message, 'string')
})

test('1 §1 a user of one project is unknown in another', async () => {
  const me = await auth.signUp()
  assertAuthError(await token({ email: me.email, password }, confirming), 400, 'invalid_credentials')
  assert.equal((await confirming.get('/user', { token: me.token })).status, 401)
  const elsewhere = await confirming.post('/token?grant_type=refresh_token', {
    refresh_token: me.refreshToken,
  })
  assert.equal(elsewhere.status, 400)
  const twin = await authProject(it)
  const namesake = await twin.signUp({ email: me.email, password: 'another password' })
  assert.notEqual(namesake.id, me.id)
  assertAuthError(await token({ email: me.email, password: 'another password' }), 400, 'invalid_credentials')
})

test('auth contract §4: a body over 1 MiB is refused', async () => {
  const me = await auth.signUp()
  const padded = (bytes: number) => ({ email: me.email, password, padding: 'x'.repeat(bytes) })
  assertSession(succeeded(await token(padded(1024 * 1024 - 200))))
  const reply = await token(padded(1024 * 1024))
  assert.equal(reply.status, 413, `${reply.status} ${reply.text.slice(0, 200)}`)
})

test('1 §5.1 the key may be the service_role key, and a user may sign in again', async () => {
  const me = await auth.signUp()
  const fields = { email: me.email, password }
  const byService = await auth.post('/token?grant_type=password', fields, { as: 'service_role' })
  assert.equal(claimsOf(succeeded(byService).access_token).role, 'authenticated')
  assertSession(succeeded(await auth.post('/token?grant_type=password', fields, { token: me.token })))
})
