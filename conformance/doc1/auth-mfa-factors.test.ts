// 1 §2.4 and auth contract §2, §9, §11: enrolling, listing and removing factors.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, assertRefused, authProject, claimsOf, succeeded } from '../auth.ts'
import { mfaOf } from '../mfa.ts'
import { someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
})
after(() => it.stop())

const { requestEnrolment, enroll, stepUp, unenroll, factorsOf, signUpAtAal2 } = mfaOf(() => auth)
const refresh = (refreshToken: string) =>
  auth.post('/token?grant_type=refresh_token', { refresh_token: refreshToken })

test('auth §9 enroll returns the secret as text, as a URI and as a QR code', async () => {
  const user = await auth.signUp()
  const { id, totp, ...rest } = succeeded(
    await requestEnrolment(user, { friendly_name: 'Ada’s phone', issuer: 'Example & Co' }),
  )
  assert.match(id, uuid)
  assert.deepEqual(rest, { type: 'totp', friendly_name: 'Ada’s phone' })
  assert.deepEqual(Object.keys(totp).sort(), ['qr_code', 'secret', 'uri'])
  assert.match(totp.secret, /^[A-Z2-7]{26,}$/, '128 bits or more')
  const uri = new URL(totp.uri)
  assert.equal(`${uri.protocol}//${uri.host}`, 'otpauth://totp')
  assert.equal(decodeURIComponent(uri.pathname), `/Example & Co:${user.email}`)
  const parameters = Object.fromEntries(uri.searchParams)
  assert.equal(parameters['secret'], totp.secret)
  assert.equal(parameters['issuer'], 'Example & Co')
  for (const [name, usual] of [
    ['algorithm', 'SHA1'],
    ['digits', '6'],
    ['period', '30'],
  ] as const)
    assert.equal(parameters[name] ?? usual, usual)
  assert.match(
    totp.qr_code,
    /^<(svg|\?xml)[\s\S]*<\/svg>\s*$/,
    'raw SVG, which the client makes a data URI of',
  )
  assert.ok(!totp.qr_code.includes('#'), 'in a data URI it would begin the fragment')
})

test('auth §9 without an issuer the URI has the host of the site URL', async () => {
  const { totp } = succeeded(await requestEnrolment(await auth.signUp()))
  assert.equal(new URL(totp.uri).searchParams.get('issuer'), 'app.example.test')
})

test('auth §2 and §9 a factor is part of the user object, first unverified, never with its secret', async () => {
  const user = await auth.signUp()
  assert.equal('factors' in succeeded(await auth.get('/user', user)), false)
  const factor = await enroll(user, 'Phone')
  const [listed, ...others] = await factorsOf(user)
  assert.deepEqual(others, [])
  assert.partialDeepStrictEqual(listed, {
    id: factor.id,
    status: 'unverified',
    friendly_name: 'Phone',
    factor_type: 'totp',
  })
  for (const field of ['created_at', 'updated_at']) assert.ok(Date.parse(listed[field]) > 0, field)
  assert.ok(!JSON.stringify(listed).includes(factor.secret))
  await stepUp(user, factor)
  const [after] = await factorsOf(user)
  assert.equal(after.status, 'verified')
  assert.ok(Date.parse(after.last_challenged_at) > 0)
})

test('auth §9 unenroll returns the id and downgrades the session to aal1', async () => {
  const user = await signUpAtAal2()
  assert.deepEqual(succeeded(await unenroll(user, user.factor.id)), { id: user.factor.id })
  assert.deepEqual(await factorsOf(user), [])
  assertRefused(await unenroll(user, user.factor.id), 404, 'mfa_factor_not_found')
  const claims = claimsOf(succeeded(await refresh(user.refreshToken)).access_token)
  assert.equal(claims.aal, 'aal1')
  assert.deepEqual(
    claims.amr.map(({ method }: { method: string }) => method),
    ['password'],
  )
})

test('auth §9 an unverified factor can be unenrolled at aal1', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  assert.deepEqual(succeeded(await unenroll(user, factor.id)), { id: factor.id })
})

test('auth §9 factor names are unique per user', async () => {
  const user = await auth.signUp()
  await enroll(user, 'Phone')
  assertRefused(await requestEnrolment(user, { friendly_name: 'Phone' }), 422, 'mfa_factor_name_conflict')
  await enroll(await auth.signUp(), 'Phone')
  for (const name of ['', '', undefined, undefined, null])
    succeeded(await requestEnrolment(user, { friendly_name: name }))
})

test('auth §9 a user can have ten factors', async () => {
  const user = await auth.signUp()
  for (let count = 1; count <= 10; count++) await enroll(user, `Phone ${count}`)
  assertRefused(
    await requestEnrolment(user, { friendly_name: 'Phone 11' }),
    422,
    'too_many_enrolled_mfa_factors',
  )
  const [first] = await factorsOf(user)
  succeeded(await unenroll(user, first.id))
  const replies = await Promise.all(
    Array.from({ length: 5 }, (_, at) => requestEnrolment(user, { friendly_name: `Tablet ${at}` })),
  )
  assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 422, 422, 422, 422])
  assert.equal((await factorsOf(user)).length, 10)
})

test('auth §9 names and issuers of any length and characters never cause a 5xx', async () => {
  const user = await auth.signUp()
  const texts = [
    'x',
    'x'.repeat(200),
    'x'.repeat(4000),
    '漢'.repeat(60),
    '漢'.repeat(300),
    '💥',
    '<svg>',
    'a:b',
    '\u0000',
    '\ud800',
  ]
  for (const text of texts)
    for (const field of ['friendly_name', 'issuer']) {
      const reply = await requestEnrolment(user, { [field]: text })
      if (reply.status === 200) succeeded(await unenroll(user, reply.body.id))
      else assertRefused(reply, 400, 'validation_failed')
    }
})

test('auth §9 enrolment is refused for anonymous users, without a session, and for other factor types', async () => {
  const anonymous = succeeded(await auth.post('/signup', { data: {} }))
  assertRefused(await requestEnrolment({ token: anonymous.access_token }), 403, 'no_authorization')
  assertRefused(await auth.post('/factors', { factor_type: 'totp' }), 401, 'no_authorization')
  assertRefused(
    await auth.post('/factors', { factor_type: 'totp' }, { as: 'service_role' }),
    401,
    'no_authorization',
  )
  const user = await auth.signUp()
  const phone = await requestEnrolment(user, { factor_type: 'phone', phone: '+4915112345678' })
  assertRefused(phone, 422, 'mfa_phone_enroll_not_enabled')
  assertRefused(
    await requestEnrolment(user, { factor_type: 'webauthn' }),
    422,
    'mfa_webauthn_enroll_not_enabled',
  )
  for (const factor_type of ['tea leaves', '', null, undefined])
    assertRefused(await requestEnrolment(user, { factor_type }), 400, 'validation_failed')
})

test('auth §9 mfa_enabled false disables enrolment', async () => {
  const without = await authProject(it, { mfa_enabled: false })
  const { token } = await without.signUp()
  const reply = await without.post('/factors', { factor_type: 'totp' }, { token })
  assertRefused(reply, 422, 'mfa_totp_enroll_not_enabled')
})

test('auth §9, case 15: extra fields in the body cannot change a factor', async () => {
  const user = await auth.signUp()
  const other = await auth.signUp()
  const { id } = succeeded(
    await requestEnrolment(user, {
      status: 'verified',
      user_id: other.id,
      id: someId,
      secret: 'MZXW6YTBOI',
      last_used_step: -9,
    }),
  )
  assert.notEqual(id, someId)
  assert.equal((await factorsOf(user))[0].status, 'unverified')
  assert.deepEqual(await factorsOf(other), [])
})

test('auth §11 an administrator lists the factors of a user as a plain array and removes one', async () => {
  const user = await signUpAtAal2()
  const path = `/admin/users/${user.id}/factors`
  const listed = succeeded(await auth.admin('GET', path))
  assert.ok(Array.isArray(listed))
  assert.deepEqual(listed, await factorsOf(user))
  assert.ok(!JSON.stringify(listed).includes('secret'))
  const removed = succeeded(await auth.admin('DELETE', `${path}/${user.factor.id}`))
  assert.deepEqual(removed, listed[0])
  assert.deepEqual(succeeded(await auth.admin('GET', path)), [])
  assertRefused(await auth.admin('DELETE', `${path}/${user.factor.id}`), 404, 'mfa_factor_not_found')
  assert.equal(claimsOf(succeeded(await refresh(user.refreshToken)).access_token).aal, 'aal1')
})

test('auth §11 factor administration needs the service_role key, an existing user and a factor of that user', async () => {
  const user = await signUpAtAal2()
  const other = await auth.signUp()
  const path = `/admin/users/${user.id}/factors`
  for (const [method, at] of [
    ['GET', path],
    ['DELETE', `${path}/${user.factor.id}`],
  ] as const) {
    assertRefused(await auth.ask(method, at, { token: user.token }), 403, 'not_admin')
    const { status } = await auth.ask(method, at)
    assert.ok(status === 401 || status === 403, `${status}`)
  }
  assertRefused(await auth.admin('GET', `/admin/users/${someId}/factors`), 404, 'user_not_found')
  assertRefused(
    await auth.admin('DELETE', `/admin/users/${someId}/factors/${user.factor.id}`),
    404,
    'user_not_found',
  )
  const foreign = await auth.admin('DELETE', `/admin/users/${other.id}/factors/${user.factor.id}`)
  assertRefused(foreign, 404, 'mfa_factor_not_found')
  assert.equal((await factorsOf(user)).length, 1)
})
