// Auth contract §4 and §7: password recovery, and resending confirmations.
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
let confirming: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

const signIn = (email: string, given: string) =>
  auth.post('/token?grant_type=password', { email, password: given })

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §4: recover sends a code that allows setting a new password (${shape})`, async () => {
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
    const fields = { type: 'recovery', email: me.email, token: mail.code }
    const session = succeeded(await auth.post('/verify', fields, { shape }))
    assertSession(session)
    assert.equal(session.user.id, me.id)
    const token = session.access_token
    succeeded(await auth.put('/user', { password: 'another password' }, { token, shape }))
    assertAuthError(await signIn(me.email, password), 400, 'invalid_credentials')
    assert.equal((await signIn(me.email, 'another password')).status, 200)
    assertAuthError(await auth.post('/verify', fields, { shape }), 403, 'otp_expired')
  })

test('auth contract §7: the link of a recovery redirects with a session of type recovery', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/recover', { email: me.email }))
  const { link } = await auth.mailTo(me.email, 'reset_password')
  const landing = await auth.follow(link)
  assert.deepEqual([landing.status, landing.place, landing.fragment['type']], [303, siteUrl, 'recovery'])
  assert.equal(claimsOf(landing.fragment['access_token'] ?? '').sub, me.id)
})

test('auth contract §7: the code of a recovery is also valid with type email', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/recover', { email: me.email }))
  const { code } = await auth.mailTo(me.email, 'reset_password')
  const fields = { type: 'email', email: me.email, token: code }
  assert.equal(succeeded(await auth.post('/verify', fields)).user.id, me.id)
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

test('auth contract §4: recover gives an unknown address the same answer and creates no user', async () => {
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
    const { id } = succeeded(await confirming.post('/signup', { email, password }))
    const first = await confirming.mailTo(email, 'verify_email')
    const body = { email, type: 'signup', code_challenge: null, gotrue_meta_security: {} }
    assert.deepEqual(succeeded(await confirming.post('/resend', body, { shape })), {})
    const second = await confirming.mailTo(email, 'verify_email', first)
    assert.equal(second.type, 'signup')
    if (first.code !== second.code)
      assertAuthError(
        await confirming.post('/verify', { type: 'signup', email, token: first.code }, { shape }),
        403,
        'otp_expired',
      )
    const fields = { type: 'signup', email, token: second.code }
    const session = succeeded(await confirming.post('/verify', fields, { shape }))
    assert.equal(session.user.id, id)
    assert.equal((await confirming.signIn({ email, password })).id, id)
  })

test('auth contract §4: resend gives the same answer and sends no mail without a pending confirmation', async () => {
  const { email } = await confirming.createUser()
  const unconfirmed = someone()
  succeeded(await confirming.post('/signup', { email: unconfirmed, password }))
  const unknown = someone()
  for (const [address, type] of [
    [unknown, 'signup'],
    [unknown, 'email_change'],
    [email, 'signup'],
    [email, 'email_change'],
    [unconfirmed, 'email_change'],
  ])
    assert.deepEqual(succeeded(await confirming.post('/resend', { email: address, type })), {})
  assert.deepEqual(await confirming.kindsTo(unknown), [])
  assert.deepEqual(await confirming.kindsTo(email), [])
  assert.deepEqual(await confirming.kindsTo(unconfirmed), ['verify_email'])
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
    assertAuthError(await confirming.post('/resend', body), 400, 'validation_failed')
  const phone = await confirming.post('/resend', { phone: '+4915112345678', type: 'sms' })
  assert.ok(phone.status === 400 || phone.status === 422, `${phone.status} ${phone.text}`)
})
