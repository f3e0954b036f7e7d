// Auth contract §4: the signed-in user reads and changes the own account.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertUser,
  authProject,
  claimsOf,
  password,
  type SignedIn,
  someone,
  succeeded,
} from '../auth.ts'
import { jwt, nowSeconds, someId } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let other: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  other = await authProject(it)
})
after(() => it.stop())

const update = (me: Pick<SignedIn, 'token'>, change: unknown) =>
  auth.put('/user', change, { token: me.token })
const signIn = (email: string, given = password) =>
  auth.post('/token?grant_type=password', { email, password: given })

test('auth contract §4: GET user returns only the user, in both shapes of the URL', async () => {
  const me = await auth.signUp({ data: { name: 'Ada' } })
  for (const shape of ['native', 'alias'] as const) {
    const user = succeeded(await auth.get('/user', { token: me.token, shape }))
    assertUser(user)
    assert.deepEqual(user, me.session.user)
  }
})

test('1 §5.1 GET and PUT user need the JWT of a user', async () => {
  const { token } = await auth.signUp()
  for (const method of ['GET', 'PUT']) {
    const body = method === 'PUT' ? { data: {} } : undefined
    assertAuthError(await auth.ask(method, '/user', { body }), 401, 'no_authorization')
    assertAuthError(await auth.ask(method, '/user', { body, as: 'service_role' }), 401, 'no_authorization')
    assert.equal((await auth.ask(method, '/user', { body, as: 'nobody' })).status, 401)
    assert.equal((await auth.ask(method, '/user', { body, as: 'nobody', token })).status, 401, 'no apikey')
  }
})

test('1 §5, case 21: JWTs not signed by the project are 401 bad_jwt', async () => {
  const me = await auth.signUp()
  const claims = claimsOf(me.token)
  const { jwt_secret } = auth.project
  const [head, body] = me.token.split('.')
  for (const [what, token] of Object.entries({
    nonsense: 'a.b.c',
    'signature cut off': `${head}.${body}.`,
    'another secret': jwt(claims, `${jwt_secret}x`),
    'another project': (await other.signUp()).token,
    'alg none': `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`,
    expired: jwt({ ...claims, exp: nowSeconds() - 60 }, jwt_secret),
    'not yet': jwt({ ...claims, nbf: nowSeconds() + 600 }, jwt_secret),
    'another role': jwt({ ...claims, role: 'postgres' }, jwt_secret),
  })) {
    const reply = await auth.get('/user', { token })
    assert.equal(reply.status, 401, `${what}: ${reply.status} ${reply.text}`)
    assertAuthError(reply, 401, 'bad_jwt')
  }
})

test('auth contract §3: a JWT of an unknown user is user_not_found, of an ended session session_not_found', async () => {
  const me = await auth.signUp()
  const claims = claimsOf(me.token)
  const { jwt_secret } = auth.project
  const ofNobody = jwt({ ...claims, sub: someId }, jwt_secret)
  assertAuthError(await auth.get('/user', { token: ofNobody }), 403, 'user_not_found')
  const ofNoSession = jwt({ ...claims, session_id: someId }, jwt_secret)
  assertAuthError(await auth.get('/user', { token: ofNoSession }), 403, 'session_not_found')
  const somebodyElse = await auth.signUp()
  const mixed = jwt({ ...claims, session_id: somebodyElse.sessionId }, jwt_secret)
  assertAuthError(await auth.get('/user', { token: mixed }), 403, 'session_not_found')
})

test('auth contract §4: data merges by its top-level keys, null removes one', async () => {
  const me = await auth.signUp({ data: { name: 'Ada', tags: { a: 1, b: 2 }, gone: true } })
  const user = succeeded(await update(me, { data: { tags: { c: 3 }, gone: null, list: [1, null] } }))
  assertUser(user)
  assert.deepEqual(user.user_metadata, {
    sub: me.id,
    email: me.email,
    email_verified: true,
    phone_verified: false,
    name: 'Ada',
    tags: { c: 3 },
    list: [1, null],
  })
  assert.deepEqual((await auth.readUser(me.id)).user_metadata, user.user_metadata)
  assert.ok(Date.parse(user.updated_at) > Date.parse(me.session.user.updated_at))
  assert.deepEqual(claimsOf((await auth.signIn(me)).token).user_metadata, user.user_metadata)
  for (const data of [{}, undefined, null])
    assert.deepEqual(succeeded(await update(me, { data })).user_metadata, user.user_metadata)
})

test('auth contract §4: twenty concurrent changes of data are all kept', async () => {
  const me = await auth.signUp()
  const keys = Array.from({ length: 20 }, (_, n) => `key_${n}`)
  const replies = await Promise.all(keys.map(key => update(me, { data: { [key]: true } })))
  for (const reply of replies) succeeded(reply)
  const { user_metadata } = await auth.readUser(me.id)
  for (const key of keys) assert.equal(user_metadata[key], true, key)
})

test('auth contract §4: data that is not an object is 400', async () => {
  const me = await auth.signUp()
  for (const data of ['text', 5, [], true])
    assertAuthError(await update(me, { data }), 400, 'validation_failed')
  assert.equal((await update(me, '{"data":{"a":"\\u0000"}}')).status, 400)
})

test('case 15: app_metadata from a user is 403, and the request changes nothing', async () => {
  const me = await auth.signUp()
  const reply = await update(me, { app_metadata: { is_admin: true }, data: { name: 'Eve' } })
  assert.equal(reply.status, 403, reply.text)
  assertAuthError(reply, 403, reply.body.code)
  const user = await auth.readUser(me.id)
  assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
  assert.equal(user.user_metadata.name, undefined)
})

test('case 15: a user cannot change role, id, times or other fields of the platform', async () => {
  const me = await auth.signUp()
  for (const change of [
    { role: 'service_role' },
    { aud: 'admin' },
    { id: someId },
    { is_super_admin: true },
    { is_anonymous: true },
    { email_confirmed_at: '2020-01-01T00:00:00Z' },
    { email_confirm: true },
    { created_at: '2020-01-01T00:00:00Z' },
    { banned_until: '2020-01-01T00:00:00Z' },
    { ban_duration: '1h' },
    { user_metadata: { name: 'Eve' } },
    { raw_app_meta_data: { is_admin: true } },
    { password_hash: '$2b$10$c/tIbzwkhhtPwWSRYcbm8OhA3XCLL9X5QYecaBj.gCw9/Vb3U0TuK' },
  ]) {
    const reply = await update(me, change)
    assert.ok(reply.status < 500, reply.text)
    const { updated_at: _, ...user } = await auth.readUser(me.id)
    const { updated_at: __, ...before } = me.session.user
    assert.deepEqual(user, before, JSON.stringify(change))
  }
  assert.equal((await signIn(me.email)).status, 200)
})

test('auth contract §4: a new password replaces the old one', async () => {
  const me = await auth.signUp()
  const user = succeeded(await update(me, { password: 'another password' }))
  assertUser(user)
  assertAuthError(await signIn(me.email), 400, 'invalid_credentials')
  assert.equal(succeeded(await signIn(me.email, 'another password')).user.id, me.id)
})

test('auth contract §4: a new password ends every other session and keeps this one', async () => {
  const me = await auth.signUp()
  const [phone, tablet] = [await auth.signIn(me), await auth.signIn(me)]
  succeeded(await update(phone, { password: 'another password' }))
  assert.equal(succeeded(await auth.get('/user', { token: phone.token })).id, me.id)
  const refreshed = { refresh_token: phone.refreshToken }
  succeeded(await auth.post('/token?grant_type=refresh_token', refreshed))
  for (const ended of [me, tablet]) {
    assertAuthError(await auth.get('/user', { token: ended.token }), 403, 'session_not_found')
    const refresh = { refresh_token: ended.refreshToken }
    assert.equal((await auth.post('/token?grant_type=refresh_token', refresh)).status, 400)
  }
})

test('auth contract §4: a new password invalidates all codes and links sent before', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/recover', { email: me.email }))
  const mail = await auth.mailTo(me.email, 'reset_password')
  succeeded(await update(me, { email: someone() }))
  const change = await auth.mailTo(me.email, 'verify_email')
  succeeded(await update(me, { password: 'another password' }))
  for (const [type, token] of [
    ['recovery', mail.code],
    ['email_change', change.code],
  ])
    assertAuthError(await auth.post('/verify', { type, email: me.email, token }), 403, 'otp_expired')
  assert.equal((await auth.follow(mail.link)).fragment['error_code'], 'otp_expired')
})

test('auth contract §3: the same, a weak or a too long password is refused and changes nothing', async () => {
  const me = await auth.signUp()
  const phone = await auth.signIn(me)
  assertAuthError(await update(me, { password }), 422, 'same_password')
  const weak = await update(me, { password: '12345' })
  assertAuthError(weak, 422, 'weak_password')
  assert.deepEqual(weak.body.weak_password.reasons, ['length'])
  assertAuthError(await update(me, { password: 'x'.repeat(73) }), 400, 'validation_failed')
  assertAuthError(await update(me, { password: 5 }), 400, 'validation_failed')
  succeeded(await auth.get('/user', { token: phone.token }))
  assert.equal((await signIn(me.email)).status, 200)
})

test('auth contract §3: a given current_password must be right', async () => {
  const me = await auth.signUp()
  const wrong = await update(me, { password: 'another password', current_password: 'wrong password' })
  assertAuthError(wrong, 400, 'current_password_invalid')
  assert.equal((await signIn(me.email)).status, 200)
  succeeded(await update(me, { password: 'another password', current_password: password }))
  assert.equal((await signIn(me.email, 'another password')).status, 200)
})

test('auth contract §4: reauthenticate sends a code, which PUT user takes as nonce once', async () => {
  const me = await auth.signUp()
  assert.deepEqual(succeeded(await auth.get('/reauthenticate', { token: me.token })), {})
  const [newest] = await auth.mailsTo(me.email)
  const mail = await auth.mailTo(me.email, newest!.template)
  assert.match(mail.code, /^\d{6}$/)
  assert.ok(succeeded(await auth.get('/user', { token: me.token })).reauthentication_sent_at)
  const wrong = await update(me, { password: 'another password', nonce: 'wrong1' })
  assertAuthError(wrong, 422, 'reauthentication_not_valid')
  assert.equal((await signIn(me.email)).status, 200)
  succeeded(await update(me, { password: 'another password', nonce: mail.code }))
  assert.equal((await signIn(me.email, 'another password')).status, 200)
  const again = await update(me, { password: 'third password', nonce: mail.code })
  assertAuthError(again, 422, 'reauthentication_not_valid')
})

test('auth contract §4: a reauthentication code cannot sign in', async () => {
  const me = await auth.signUp()
  succeeded(await auth.get('/reauthenticate', { token: me.token }))
  const [newest] = await auth.mailsTo(me.email)
  const { code } = await auth.mailTo(me.email, newest!.template)
  for (const type of ['email', 'signup', 'magiclink', 'recovery', 'invite', 'email_change'])
    assertAuthError(await auth.post('/verify', { type, email: me.email, token: code }), 403, 'otp_expired')
})

test('auth contract §4: reauthenticate needs a user', async () => {
  assertAuthError(await auth.get('/reauthenticate'), 401, 'no_authorization')
})

test('auth contract §4: a banned user is 403 on every user route immediately', async () => {
  const me = await auth.signUp()
  succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, { ban_duration: '24h' }))
  for (const [method, path, body] of [
    ['GET', '/user', undefined],
    ['PUT', '/user', { data: { a: 1 } }],
    ['GET', '/session', undefined],
    ['GET', '/reauthenticate', undefined],
    ['POST', '/logout', undefined],
    ['POST', '/factors', { factor_type: 'totp', friendly_name: 'x' }],
    ['DELETE', `/user/identities/${me.session.user.identities[0].identity_id}`, undefined],
  ] as const)
    assertAuthError(await auth.ask(method, path, { token: me.token, body }), 403, 'user_banned')
  assertAuthError(
    await auth.post('/token?grant_type=refresh_token', { refresh_token: me.refreshToken }),
    400,
    'user_banned',
  )
})

test('auth contract §3: a phone cannot be set here', async () => {
  const me = await auth.signUp()
  const reply = await update(me, { phone: '+4915112345678' })
  assert.ok(reply.status === 400 || reply.status === 422, `${reply.status} ${reply.text}`)
  assert.equal((await auth.readUser(me.id)).phone, '')
})
