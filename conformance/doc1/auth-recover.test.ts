// Auth contract §4 and §7: a forgotten password, and confirmations sent again.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  authProject,
  claimsOf,
  password,
  siteUrl,
  someone,
  succeeded,
  tokenHash,
} from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let careful: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  careful = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

const signIn = (email: string, given: string) =>
  auth.post('/token?grant_type=password', { email, password: given })

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §4: recover sends a code with which a new password is set (${shape})`, async () => {
    const me = await auth.signUp()
    const body = {
      email: me.email.toUpperCase(),
      code_challenge: null,
      code_challenge_method: null,
      gotrue_meta_security: {},
    }
    assert.deepEqual(succeeded(await auth.post('/recover', body, { shape })), {})
    const mail = await auth.mailTo(me.email, 'reset_password')
    assert.equal(mail.type, 'recovery')
    assert.equal(mail.hash, tokenHash(me.email, mail.code))
    assert.ok(succeeded(await auth.get('/user', { token: me.token })).recovery_sent_at)
    assert.equal((await signIn(me.email, password)).status, 200, 'the old password still works')
    const wish = { type: 'recovery', email: me.email, token: mail.code }
    const session = succeeded(await auth.post('/verify', wish, { shape }))
    assertSession(session)
    assert.equal(session.user.id, me.id)
    const token = session.access_token
    succeeded(await auth.put('/user', { password: 'another password' }, { token, shape }))
    assertAuthError(await signIn(me.email, password), 400, 'invalid_credentials')
    assert.equal((await signIn(me.email, 'another password')).status, 200)
    assertAuthError(await auth.post('/verify', wish, { shape }), 403, 'otp_expired')
  })

test('auth contract §7: the link of a recovery leads on with a session of type recovery', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/recover', { email: me.email }))
  const { link } = await auth.mailTo(me.email, 'reset_password')
  const landing = await auth.follow(link)
  assert.deepEqual([landing.status, landing.place, landing.fragment['type']], [303, siteUrl, 'recovery'])
  assert.equal(claimsOf(landing.fragment['access_token'] ?? '').sub, me.id)
})

test('auth contract §7: the code of a recovery also passes as email', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/recover', { email: me.email }))
  const { code } = await auth.mailTo(me.email, 'reset_password')
  const wish = { type: 'email', email: me.email, token: code }
  assert.equal(succeeded(await auth.post('/verify', wish)).user.id, me.id)
})

test('auth contract §7: a newer recovery replaces the older one', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/recover', { email: me.email }))
  const first = await auth.mailTo(me.email, 'reset_password')
  succeeded(await auth.post('/recover', { email: me.email }))
  const second = await auth.mailTo(me.email, 'reset_password', first)
  if (first.code !== second.code)
    assertAuthError(
      await auth.post('/verify', { type: 'recovery', token_hash: first.hash }),
      403,
      'otp_expired',
    )
  assertSession(succeeded(await auth.post('/verify', { type: 'recovery', token_hash: second.hash })))
})

test('auth contract §4: recover answers an unknown address alike, and makes nobody', async () => {
  const email = someone()
  assert.deepEqual(succeeded(await auth.post('/recover', { email })), {})
  assert.deepEqual(await auth.kindsTo(email), [])
  assert.deepEqual(await auth.sql(`select 1 from auth.users where email = '${email}'`), [])
})

test('auth contract §4: recover needs an address', async () => {
  for (const body of [{}, { email: '' }, { email: 'nonsense' }, { email: 5 }, { email: null }])
    assertAuthError(await auth.post('/recover', body), 400, 'validation_failed')
})

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §4: resend sends the confirmation of a sign-up again (${shape})`, async () => {
    const email = someone()
    const { id } = succeeded(await careful.post('/signup', { email, password }))
    const first = await careful.mailTo(email, 'verify_email')
    const body = { email, type: 'signup', code_challenge: null, gotrue_meta_security: {} }
    assert.deepEqual(succeeded(await careful.post('/resend', body, { shape })), {})
    const second = await careful.mailTo(email, 'verify_email', first)
    assert.equal(second.type, 'signup')
    if (first.code !== second.code)
      assertAuthError(
        await careful.post('/verify', { type: 'signup', email, token: first.code }, { shape }),
        403,
        'otp_expired',
      )
    const wish = { type: 'signup', email, token: second.code }
    const session = succeeded(await careful.post('/verify', wish, { shape }))
    assert.equal(session.user.id, id)
    assert.equal((await careful.signIn({ email, password })).id, id)
  })

test('auth contract §4: resend says nothing to who is unknown, confirmed or has no change pending', async () => {
  const { email } = await careful.createUser()
  const unconfirmed = someone()
  succeeded(await careful.post('/signup', { email: unconfirmed, password }))
  const unknown = someone()
  for (const [address, type] of [
    [unknown, 'signup'],
    [unknown, 'email_change'],
    [email, 'signup'],
    [email, 'email_change'],
    [unconfirmed, 'email_change'],
  ])
    assert.deepEqual(succeeded(await careful.post('/resend', { email: address, type })), {})
  assert.deepEqual(await careful.kindsTo(unknown), [])
  assert.deepEqual(await careful.kindsTo(email), [])
  assert.deepEqual(await careful.kindsTo(unconfirmed), ['verify_email'])
})

test('auth contract §4: resend needs an address and one of its types', async () => {
  const email = someone()
  for (const body of [
    {},
    { email },
    { type: 'signup' },
    { email: 'nonsense', type: 'signup' },
    { email, type: 'recovery' },
    { email, type: 'magiclink' },
    { email, type: 'nosuch' },
    { email, type: 5 },
  ])
    assertAuthError(await careful.post('/resend', body), 400, 'validation_failed')
  const phone = await careful.post('/resend', { phone: '+4915112345678', type: 'sms' })
  assert.ok(phone.status === 400 || phone.status === 422, `${phone.status} ${phone.text}`)
})
