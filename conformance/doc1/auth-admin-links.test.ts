// Auth contract §7 and §11: invitations, and links that the admin API generates.
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
  siteUrl,
  someone,
  succeeded,
  tokenHash,
} from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

const invite = (body: Record<string, unknown>) => auth.admin('POST', '/invite', body)
const generate = (body: Record<string, unknown>, query = '') =>
  auth.admin('POST', `/admin/generate_link${query}`, body)
const verify = (body: unknown) => auth.post('/verify', body)
const signIn = (email: string, given: string) =>
  auth.post('/token?grant_type=password', { email, password: given })

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §11: an invitation creates a user and sends a link that signs in (${shape})`, async () => {
    const email = someone('Guest').toUpperCase()
    const fields = { email, data: { team: 'blue' } }
    const user = succeeded(await auth.post('/invite', fields, { as: 'service_role', shape }))
    assertUser(user)
    assert.equal(user.email, email.toLowerCase())
    assert.ok(user.invited_at)
    assert.ok(!('email_confirmed_at' in user))
    assert.equal(user.user_metadata.team, 'blue')
    const mail = await auth.mailTo(email.toLowerCase(), 'invite')
    assert.equal(mail.type, 'invite')
    for (const given of ['', 'null']) assertAuthError(await signIn(email, given), 400, 'invalid_credentials')
    const landing = await auth.follow(mail.link)
    assert.deepEqual([landing.status, landing.place, landing.fragment['type']], [303, siteUrl, 'invite'])
    const token = landing.fragment['access_token'] ?? ''
    assert.equal(claimsOf(token).sub, user.id)
    const me = succeeded(await auth.get('/user', { token }))
    assert.ok(me.email_confirmed_at)
    assert.equal(me.identities[0].identity_data.email_verified, true)
    succeeded(await auth.put('/user', { password }, { token }))
    assert.equal(succeeded(await signIn(email, password)).user.id, user.id)
  })

test('auth contract §7: the code or hash of an invitation is verified with type invite', async () => {
  const email = someone()
  succeeded(await invite({ email }))
  const mail = await auth.mailTo(email, 'invite')
  const session = succeeded(await verify({ type: 'invite', token_hash: mail.hash }))
  assertSession(session)
  assert.equal(session.user.email, email)
  assertAuthError(await verify({ type: 'invite', token_hash: mail.hash }), 403, 'otp_expired')
})

test('auth contract §11: inviting again sends another mail, inviting a confirmed user is 422', async () => {
  const email = someone()
  const first = succeeded(await invite({ email }))
  const mail = await auth.mailTo(email, 'invite')
  assert.equal(succeeded(await invite({ email })).id, first.id)
  const again = await auth.mailTo(email, 'invite', mail)
  assertAuthError(await verify({ type: 'invite', token_hash: mail.hash }), 403, 'otp_expired')
  assertSession(succeeded(await verify({ type: 'invite', token_hash: again.hash })))
  assertAuthError(await invite({ email }), 422, 'email_exists')
})

test('auth contract §11: an invitation needs an address', async () => {
  for (const body of [{}, { email: '' }, { email: 'nonsense' }, { email: 5 }])
    assertAuthError(await invite(body), 400, 'validation_failed')
})

interface Made {
  user: any
  action_link: string
  email_otp: string
  hashed_token: string
  verification_type: string
  redirect_to: string
}

/** The answer has the user's fields and five more on one level. */
async function made(body: Record<string, unknown>, query = ''): Promise<Made> {
  const { action_link, email_otp, hashed_token, verification_type, redirect_to, ...user } = succeeded(
    await generate(body, query),
  )
  assertUser(user)
  assert.match(email_otp, /^\d{6}$/)
  assert.match(hashed_token, /^[0-9a-f]{56}$/)
  const link = new URL(action_link)
  assert.match(link.pathname, /\/verify$/)
  assert.equal(link.searchParams.get('token'), hashed_token)
  assert.equal(link.searchParams.get('redirect_to'), redirect_to)
  return { user, action_link, email_otp, hashed_token, verification_type, redirect_to }
}

test('auth contract §11: a link of type signup creates a user with a password and sends no mail', async () => {
  const email = someone()
  const link = await made({ type: 'signup', email, password, data: { name: 'Ada' } })
  assert.deepEqual([link.verification_type, link.redirect_to], ['signup', siteUrl])
  assert.deepEqual(link.user.user_metadata, { name: 'Ada' })
  assert.equal(link.hashed_token, tokenHash(email, link.email_otp))
  assertAuthError(await signIn(email, password), 400, 'email_not_confirmed')
  assert.deepEqual(await auth.kindsTo(email), [])
  const landing = await auth.follow(link.action_link)
  assert.equal(landing.fragment['type'], 'signup')
  assert.equal(succeeded(await signIn(email, password)).user.id, link.user.id)
  assertAuthError(await generate({ type: 'signup', email, password }), 422, 'email_exists')
})

test('auth contract §11: a link of type signup needs a valid password', async () => {
  assertAuthError(await generate({ type: 'signup', email: someone() }), 400, 'validation_failed')
  const weak = { type: 'signup', email: someone(), password: '12345' }
  assertAuthError(await generate(weak), 422, 'weak_password')
})

test('auth contract §11: a link of type invite creates a user and sends no mail', async () => {
  const email = someone()
  const link = await made({ type: 'invite', email, data: { team: 'blue' } })
  assert.equal(link.verification_type, 'invite')
  assert.ok(link.user.invited_at)
  assert.deepEqual(link.user.user_metadata, { team: 'blue' })
  assert.deepEqual(await auth.kindsTo(email), [])
  const session = succeeded(await verify({ type: 'invite', email, token: link.email_otp }))
  assert.equal(session.user.id, link.user.id)
  assertAuthError(await generate({ type: 'invite', email }), 422, 'email_exists')
})

test('auth contract §11: a link of type magiclink signs in, by link, code or hash', async () => {
  const { id, email } = await auth.createUser()
  for (const use of ['link', 'code', 'hash'] as const) {
    const link = await made({ type: 'magiclink', email })
    assert.deepEqual([link.verification_type, link.user.id], ['magiclink', id])
    assert.equal(link.hashed_token, tokenHash(email, link.email_otp))
    if (use === 'link') {
      const landing = await auth.follow(link.action_link)
      assert.equal(claimsOf(landing.fragment['access_token'] ?? '').sub, id)
      continue
    }
    const fields =
      use === 'code'
        ? { type: 'magiclink', email, token: link.email_otp }
        : { type: 'magiclink', token_hash: link.hashed_token }
    assert.equal(succeeded(await verify(fields)).user.id, id)
    assertAuthError(await verify(fields), 403, 'otp_expired')
  }
  assert.deepEqual(await auth.kindsTo(email), [])
})

test('auth contract §11: a link of type magiclink for an unknown address becomes a signup link', async () => {
  const email = someone()
  const link = await made({ type: 'magiclink', email })
  assert.equal(link.verification_type, 'signup')
  assert.equal(link.user.email, email)
  const session = succeeded(await verify({ type: 'signup', email, token: link.email_otp }))
  assert.equal(session.user.id, link.user.id)
  assert.ok(session.user.email_confirmed_at)
})

test('auth contract §11: a link of type recovery needs an existing user', async () => {
  const { id, email } = await auth.createUser()
  const link = await made({ type: 'recovery', email })
  assert.equal(link.verification_type, 'recovery')
  const landing = await auth.follow(link.action_link)
  assert.deepEqual(
    [landing.fragment['type'], claimsOf(landing.fragment['access_token'] ?? '').sub],
    ['recovery', id],
  )
  assertAuthError(await generate({ type: 'recovery', email: someone() }), 404, 'user_not_found')
})

test('auth contract §11: both links of an email change together change the address', async () => {
  const { id, email } = await auth.createUser()
  const new_email = someone('new')
  const current = await made({ type: 'email_change_current', email, new_email })
  const fresh = await made({ type: 'email_change_new', email, new_email })
  assert.equal(fresh.hashed_token, tokenHash(new_email, fresh.email_otp))
  assert.equal(current.hashed_token, tokenHash(email, current.email_otp))
  assert.equal((await auth.readUser(id)).new_email, new_email)
  const half = await auth.follow(current.action_link)
  assert.deepEqual([half.status, Object.keys(half.fragment).toSorted()], [303, ['message', 'sb']])
  const whole = await auth.follow(fresh.action_link)
  assert.equal(claimsOf(whole.fragment['access_token'] ?? '').email, new_email)
  assert.equal((await auth.readUser(id)).email, new_email)
  for (const address of [email, new_email]) assert.deepEqual(await auth.kindsTo(address), [])
})

test('auth contract §11: links of an email change need a free address and an existing user', async () => {
  const [me, other] = [await auth.createUser(), await auth.createUser()]
  for (const type of ['email_change_current', 'email_change_new']) {
    const { email } = me
    for (const new_email of [undefined, '', 'nonsense'])
      assertAuthError(await generate({ type, email, new_email }), 400, 'validation_failed')
    assertAuthError(await generate({ type, email, new_email: other.email }), 422, 'email_exists')
    const unknown = { type, email: someone(), new_email: someone() }
    assertAuthError(await generate(unknown), 404, 'user_not_found')
  }
})

test('auth contract §11: an unknown type or a missing address is 400', async () => {
  const { email } = await auth.createUser()
  for (const type of [undefined, '', 'nosuch', 'email_change', 'reauthentication', 5])
    assertAuthError(await generate({ type, email }), 400, 'validation_failed')
  for (const address of [undefined, '', 'nonsense'])
    assertAuthError(await generate({ type: 'magiclink', email: address }), 400, 'validation_failed')
})

test('auth contract §11: redirect_to of the query is used if it is allowed', async () => {
  const { email } = await auth.createUser()
  const place = 'https://app.example.test/after'
  const query = `?redirect_to=${encodeURIComponent(place)}`
  assert.equal((await made({ type: 'magiclink', email }, query)).redirect_to, place)
  const both = { type: 'magiclink', email, redirectTo: 'https://app.example.test/other' }
  assert.equal((await made(both, query)).redirect_to, place)
  const evil = `?redirect_to=${encodeURIComponent('https://evil.test/')}`
  assert.equal((await made({ type: 'magiclink', email }, evil)).redirect_to, siteUrl)
})

test('auth contract §7: a generated link replaces the mailed one', async () => {
  const { email } = await auth.createUser()
  succeeded(await auth.post('/otp', { email }))
  const mail = await auth.mailTo(email, 'magic_link')
  const link = await made({ type: 'magiclink', email })
  if (mail.code !== link.email_otp)
    assertAuthError(await verify({ type: 'magiclink', token_hash: mail.hash }), 403, 'otp_expired')
  assertSession(succeeded(await verify({ type: 'magiclink', token_hash: link.hashed_token })))
})
