// 1 §2.4, §4.5 and auth contract §2, §4: sign-up with e-mail and password, its answer and its errors.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  assertUser,
  authProject,
  claimsOf,
  password,
  someone,
  succeeded,
} from '../auth.ts'
import { someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
/** Without auto_confirm. */
let confirming: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

const signUp = (fields: Record<string, unknown>, api = auth) =>
  api.post('/signup', { email: someone(), password, ...fields })

test('1 §4.5 a sign-up returns a working session, in both shapes of the URL', async () => {
  for (const shape of ['native', 'alias'] as const) {
    const email = someone()
    const session = succeeded(await auth.post('/signup', { email, password }, { shape }))
    assertSession(session)
    assert.equal(session.expires_in, 3600)
    assert.deepEqual([session.user.email, session.user.role], [email, 'authenticated'])
    assert.equal(session.user.is_anonymous, false)
    assert.equal(session.user.confirmed_at, session.user.email_confirmed_at)
    for (const field of ['email_confirmed_at', 'last_sign_in_at']) assert.ok(session.user[field], field)
    for (const field of ['confirmation_sent_at', 'invited_at', 'new_email', 'factors'])
      assert.ok(!(field in session.user), field)
    const me = succeeded(await auth.get('/user', { shape, token: session.access_token }))
    assert.equal(me.id, session.user.id)
  }
})

test('auth contract §2: user_metadata has the identity data and the data of the sign-up', async () => {
  const data = { full_name: 'Ada', age: 36, is_admin: true, nested: { list: [1, null, 'ü'] } }
  const { session } = await auth.signUp({ data })
  const { user } = session
  const expected = { sub: user.id, email: user.email, email_verified: true, phone_verified: false, ...data }
  assert.deepEqual(user.user_metadata, expected)
  assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
  assert.equal(user.identities.length, 1)
  const [identity] = user.identities
  assert.deepEqual(identity.identity_data, expected)
  assert.partialDeepStrictEqual(identity, {
    id: user.id,
    user_id: user.id,
    provider: 'email',
    email: user.email,
  })
  assert.match(identity.identity_id, uuid)
  assert.notEqual(identity.identity_id, user.id)
})

test('auth contract §2: data of a sign-up does not replace fields of the platform', async () => {
  const data = { sub: someId, email: 'somebody@else.test', email_verified: 'perhaps', phone_verified: true }
  const user = succeeded(await signUp({ data }, confirming))
  assert.partialDeepStrictEqual(user.identities[0].identity_data, {
    sub: user.id,
    email: user.email,
    email_verified: false,
    phone_verified: false,
  })
  assert.deepEqual(user.user_metadata, user.identities[0].identity_data)
})

test('1 §4.5 the data of a password sign-up is stored before verification', async () => {
  const user = succeeded(await signUp({ data: { plan: 'gold' } }, confirming))
  assert.equal((await confirming.readUser(user.id)).user_metadata.plan, 'gold')
  const me = await auth.signUp({ data: { plan: 'gold' } })
  assert.equal(claimsOf(me.token).user_metadata.plan, 'gold')
  assert.equal(claimsOf((await auth.signIn(me)).token).user_metadata.plan, 'gold')
})

test('auth contract §4: the body of the client library is accepted, and unknown fields are ignored', async () => {
  const session = succeeded(
    await signUp({
      data: {},
      gotrue_meta_security: {},
      code_challenge: null,
      code_challenge_method: null,
      something: 'else',
    }),
  )
  assertSession(session)
  assertSession(succeeded(await signUp({ data: null, gotrue_meta_security: { captcha_token: 'x' } })))
})

test('auth contract §4: addresses are lower-cased', async () => {
  const email = someone('Mixed.Case').toUpperCase()
  const me = await auth.signUp({ email })
  assert.equal(me.session.user.email, email.toLowerCase())
  assert.equal(me.session.user.identities[0].email, email.toLowerCase())
  assert.equal(claimsOf(me.token).email, email.toLowerCase())
  assert.equal((await auth.signIn({ email: email.toLowerCase(), password })).id, me.id)
  assert.equal((await auth.signIn({ email, password })).id, me.id)
  assertAuthError(await signUp({ email: email.toLowerCase() }), 422, 'user_already_exists')
})

test('auth contract §4: an invalid address or one over 255 characters is 400', async () => {
  const long = (length: number) =>
    `${'x'.repeat(60)}@${'y'.repeat(50)}.${'z'.repeat(50)}.${'w'.repeat(length)}`
  for (const email of [
    ' ',
    'ada',
    'ada@',
    '@example.test',
    'ada lovelace@example.test',
    'ada@example test',
    'ada@one@example.test',
    'ada@example.test, bob@example.test',
    'ada@example.test\nBcc: bob@example.test',
    'ada@example.test\u0000',
    '<ada@example.test>',
    `${long(60)}.${'v'.repeat(60)}.test`,
    `${'x'.repeat(256)}@example.test`,
    5,
    {},
    ['ada@example.test'],
  ])
    assertAuthError(await signUp({ email }), 400, 'validation_failed')
})

test('auth contract §4: a password is required and has at most 72 bytes', async () => {
  for (const given of [undefined, null, '', 'x'.repeat(73), '€'.repeat(25), 5, ['correct horse'], {}])
    assertAuthError(await signUp({ password: given }), 400, 'validation_failed')
  for (const given of ['x'.repeat(72), '€'.repeat(24)]) {
    const me = await auth.signUp({ password: given })
    assert.equal((await auth.signIn(me)).id, me.id)
  }
})

test('auth contract §3: a password under the minimum length is 422 with the reason', async () => {
  const reply = await signUp({ password: '12345' })
  assertAuthError(reply, 422, 'weak_password')
  assert.deepEqual(reply.body.weak_password.reasons, ['length'])
  assertSession(succeeded(await signUp({ password: '123456' })))
})

test('auth contract §4: address and phone together, or a phone alone, are 400', async () => {
  assertAuthError(await signUp({ phone: '+4915112345678' }), 400, 'validation_failed')
  const reply = await auth.post('/signup', { phone: '+4915112345678', password })
  assert.equal(reply.status, 400, reply.text)
})

test('auth contract §4: data that is not an object or cannot be stored is 400', async () => {
  for (const data of ['text', 5, true, ['a']])
    assertAuthError(await signUp({ data }), 400, 'validation_failed')
  for (const data of ['{"a":"\\u0000"}', '{"\\u0000":1}', '{"a":"\\ud800"}', '{"a":["\\udc00x"]}']) {
    const reply = await auth.post(
      '/signup',
      `{"email":"${someone()}","password":"${password}","data":${data}}`,
    )
    assert.equal(reply.status, 400, `${data}: ${reply.status} ${reply.text}`)
  }
})

test('case 44: keys like __proto__ and deep nesting are harmless', async () => {
  for (const data of [
    '{"__proto__":{"polluted":true}}',
    '{"constructor":{"prototype":{"polluted":true}}}',
    `{"deep":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
  ]) {
    const reply = await auth.post(
      '/signup',
      `{"email":"${someone()}","password":"${password}","data":${data}}`,
    )
    assert.ok(reply.status < 500, `${data.slice(0, 40)}: ${reply.status} ${reply.text.slice(0, 200)}`)
  }
  assert.equal((await auth.signUp()).session.user.user_metadata.polluted, undefined)
})

test('case 15: a sign-up cannot set role, id or a confirmed address', async () => {
  const reply = await signUp(
    {
      id: someId,
      aud: 'admin',
      role: 'service_role',
      app_metadata: { is_admin: true },
      raw_app_meta_data: { is_admin: true },
      user_metadata: { from: 'elsewhere' },
      email_confirm: true,
      email_confirmed_at: '2020-01-01T00:00:00Z',
      confirmed_at: '2020-01-01T00:00:00Z',
      is_anonymous: true,
      is_super_admin: true,
      invited_at: '2020-01-01T00:00:00Z',
    },
    confirming,
  )
  if (reply.status >= 400) return assert.ok(reply.status < 500, reply.text)
  const user = await confirming.readUser(reply.body.id)
  assert.notEqual(user.id, someId)
  assert.deepEqual([user.aud, user.role, user.is_anonymous], ['authenticated', 'authenticated', false])
  assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
  for (const field of ['email_confirmed_at', 'confirmed_at', 'invited_at']) assert.ok(!(field in user), field)
})

test('auth contract §4: with auto_confirm a taken address is 422, and its user is unchanged', async () => {
  const me = await auth.signUp({ data: { name: 'first' } })
  const again = await signUp({ email: me.email, password: 'another password', data: { name: 'second' } })
  assertAuthError(again, 422, 'user_already_exists', /^User already registered$/)
  assert.equal((await auth.signIn(me)).session.user.user_metadata.name, 'first')
  assertAuthError(
    await auth.post('/token?grant_type=password', { email: me.email, password: 'another password' }),
    400,
    'invalid_credentials',
  )
  assert.deepEqual(await auth.kindsTo(me.email), ['welcome'])
})

test('auth contract §4: twenty concurrent sign-ups with one address create one user', async () => {
  const email = someone()
  const replies = await Promise.all(Array.from({ length: 20 }, () => signUp({ email })))
  const statuses = replies.map(({ status }) => status).toSorted()
  assert.deepEqual(statuses, [200, ...Array(19).fill(422)])
})

test('auth contract §4: without auto_confirm a sign-up returns only the user and sends a mail', async () => {
  const email = someone()
  const user = succeeded(await signUp({ email }, confirming))
  assertUser(user)
  assert.equal(user.email, email)
  assert.ok(user.confirmation_sent_at)
  for (const field of ['email_confirmed_at', 'confirmed_at', 'last_sign_in_at'])
    assert.ok(!(field in user), field)
  assert.equal(user.user_metadata.email_verified, false)
  assert.equal(user.identities[0].identity_data.email_verified, false)
  const mail = await confirming.mailTo(email, 'verify_email')
  assert.match(mail.code, /^\d{6}$/)
  assert.equal(mail.type, 'signup')
  assertAuthError(
    await confirming.post('/token?grant_type=password', { email, password }),
    400,
    'email_not_confirmed',
    /^Email not confirmed$/,
  )
})

test('auth contract §7: verifying confirms the address, returns a session and sends a welcome mail', async () => {
  const email = someone()
  const { id } = succeeded(await signUp({ email, data: { name: 'Ada' } }, confirming))
  const { code } = await confirming.mailTo(email, 'verify_email')
  assert.deepEqual(await confirming.kindsTo(email), ['verify_email'])
  const session = succeeded(await confirming.post('/verify', { type: 'signup', email, token: code }))
  assertSession(session)
  const { user } = session
  assert.equal(user.id, id)
  assert.ok(user.email_confirmed_at && user.confirmed_at)
  assert.equal(user.identities[0].identity_data.email_verified, true)
  assert.deepEqual([user.user_metadata.email_verified, user.user_metadata.name], [true, 'Ada'])
  assert.deepEqual(await confirming.kindsTo(email), ['verify_email', 'welcome'])
  assert.equal((await confirming.signIn({ email, password })).id, id)
})

test('auth contract §4: signing up again before verifying sends another mail and changes nothing', async () => {
  const email = someone()
  const first = succeeded(await signUp({ email, data: { name: 'first' } }, confirming))
  const mail = await confirming.mailTo(email, 'verify_email')
  const second = succeeded(await signUp({ email, data: { name: 'second' } }, confirming))
  assertUser(second)
  assert.equal(second.id, first.id)
  assert.equal(second.user_metadata.name, 'first')
  const newer = await confirming.mailTo(email, 'verify_email', mail)
  const { user } = succeeded(await confirming.post('/verify', { type: 'signup', email, token: newer.code }))
  assert.equal(user.user_metadata.name, 'first')
  assert.equal((await confirming.signIn({ email, password })).id, first.id)
})

test('auth contract §4: a second sign-up before verifying does not replace the password', async () => {
  const email = someone()
  const { id } = succeeded(await signUp({ email }, confirming))
  const mail = await confirming.mailTo(email, 'verify_email')
  const again = { email, password: 'another password' }
  assert.equal(succeeded(await signUp(again, confirming)).id, id)
  const newer = await confirming.mailTo(email, 'verify_email', mail)
  succeeded(await confirming.post('/verify', { type: 'signup', email, token: newer.code }))
  const reply = await confirming.post('/token?grant_type=password', again)
  assertAuthError(reply, 400, 'invalid_credentials')
})

test('auth contract §4: signing up with a confirmed address returns a decoy user', async () => {
  const real = await confirming.createUser()
  const again = { email: real.email, password: 'another password', data: { name: 'second' } }
  const [one, two] = [succeeded(await signUp(again, confirming)), succeeded(await signUp(again, confirming))]
  for (const user of [one, two]) {
    assertUser(user)
    assert.notEqual(user.id, real.id)
    assert.deepEqual([user.role, user.identities, user.email], ['', [], real.email])
    assert.equal(user.user_metadata.name, 'second')
    assert.ok(Date.parse(user.created_at) > Date.parse(real.created_at))
    assert.ok(!('email_confirmed_at' in user) && !('last_sign_in_at' in user))
    const lookup = await confirming.admin('GET', `/admin/users/${user.id}`)
    assert.equal(lookup.status, 404)
  }
  assert.notEqual(one.id, two.id)
  const fresh = succeeded(await signUp({ email: someone() }, confirming))
  assert.deepEqual(Object.keys(one).toSorted(), Object.keys(fresh).toSorted())
  assert.equal((await confirming.signIn({ email: real.email, password })).id, real.id)
  assert.deepEqual((await confirming.readUser(real.id)).user_metadata, real.user_metadata)
})

test('clarifications: with auto_confirm a sign-up sends a welcome mail and no verification mail', async () => {
  const me = await auth.signUp()
  assert.deepEqual(await auth.kindsTo(me.email), ['welcome'])
})
