// Issue "Settings", 3 "Auth settings": each setting of a project takes effect from the next request.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  assertUser,
  authOf,
  authProject,
  claimsOf,
  password,
  type SignedIn,
  siteUrl,
  someone,
  succeeded,
} from '../auth.ts'
import { createProject, sleep, unlimited } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
/** Signed in before the first test and not refreshed for longer than its project allows. */
let idle: { api: AuthApi; me: SignedIn; since: number }
before(async () => {
  it = await target()
  const api = await authProject(it, { refresh_token_duration_seconds: 60 })
  idle = { api, me: await api.signUp(), since: Date.now() }
})
after(() => it.stop())

const signUp = (api: AuthApi, fields: Record<string, unknown> = {}) =>
  api.post('/signup', { email: someone(), password, ...fields })
const signIn = (api: AuthApi, email: string, given = password) =>
  api.post('/token?grant_type=password', { email, password: given })
const refresh = (api: AuthApi, refresh_token: string) =>
  api.post('/token?grant_type=refresh_token', { refresh_token })

test('issue: by default sign-up, auto_confirm and anonymous users are enabled, and passwords have at least 6 characters', async () => {
  const api = authOf(it, await createProject(it, { quotas: unlimited }))
  const session = succeeded(await signUp(api, { password: 'sixsix' }))
  assertSession(session)
  assert.equal(session.expires_in, 3600)
  assertAuthError(await signUp(api, { password: 'fives' }), 422, 'weak_password')
  assertSession(succeeded(await api.post('/signup', { data: {} })))
  const factor = { factor_type: 'totp', friendly_name: 'phone' }
  succeeded(await api.post('/factors', factor, { token: session.access_token }))
})

test('issue: auto_confirm', async () => {
  const api = await authProject(it)
  assertSession(succeeded(await signUp(api)))
  await api.settings({ auto_confirm: false })
  const email = someone()
  const user = succeeded(await signUp(api, { email }))
  assertUser(user)
  assertAuthError(await signIn(api, email), 400, 'email_not_confirmed')
  await api.mailTo(email, 'verify_email')
  await api.settings({ auto_confirm: null })
  assertSession(succeeded(await signUp(api)))
})

test('issue: signup_enabled', async () => {
  const api = await authProject(it)
  const me = await api.signUp()
  await api.settings({ signup_enabled: false })
  assertAuthError(await signUp(api), 422, 'signup_disabled')
  assertAuthError(await api.post('/sign-up', { email: someone(), password }), 422, 'signup_disabled')
  assertAuthError(await api.post('/signup', { data: {} }), 422, 'signup_disabled')
  for (const path of ['/otp', '/magiclink', '/magic-link']) {
    const email = someone()
    const [unknown, known] = [await api.post(path, { email }), await api.post(path, { email: me.email })]
    assert.deepEqual([unknown.status, unknown.text], [known.status, known.text])
    assert.deepEqual(await api.sql(`select 1 from auth.users where email = '${email}'`), [])
  }
  assert.equal((await api.signIn(me)).id, me.id)
  await api.createUser()
  succeeded(await api.admin('POST', '/invite', { email: someone() }))
  await api.settings({ signup_enabled: true })
  assertSession(succeeded(await signUp(api)))
})

test('3: email_enabled', async () => {
  const api = await authProject(it)
  const me = await api.signUp()
  await api.settings({ email_enabled: false })
  assertAuthError(await signUp(api), 400, 'email_provider_disabled')
  assertAuthError(await signIn(api, me.email), 422, 'email_provider_disabled')
  assertAuthError(await api.post('/sign-up', { email: someone(), password }), 400, 'email_provider_disabled')
  assertAuthError(await api.post('/sign-in', { email: me.email, password }), 422, 'email_provider_disabled')
  assertSession(succeeded(await api.post('/signup', { data: {} })))
  assertSession(succeeded(await refresh(api, me.refreshToken)))
  await api.settings({ email_enabled: null })
  assert.equal((await api.signIn(me)).id, me.id)
})

test('3: magic_link_enabled', async () => {
  const api = await authProject(it)
  const me = await api.signUp()
  await api.settings({ magic_link_enabled: false })
  for (const path of ['/otp', '/magiclink', '/magic-link'])
    for (const email of [me.email, someone()])
      assertAuthError(await api.post(path, { email }), 422, 'otp_disabled')
  assert.equal((await api.signIn(me)).id, me.id)
  succeeded(await api.post('/recover', { email: me.email }))
  await api.mailTo(me.email, 'reset_password')
  await api.settings({ magic_link_enabled: true })
  succeeded(await api.post('/otp', { email: me.email }))
  await api.mailTo(me.email, 'magic_link')
})

test('issue: anonymous_enabled', async () => {
  const api = await authProject(it)
  const before = succeeded(await api.post('/signup', { data: {} }))
  await api.settings({ anonymous_enabled: false })
  for (const shape of ['native', 'alias'] as const)
    assertAuthError(await api.post('/signup', { data: {} }, { shape }), 422, 'anonymous_provider_disabled')
  assertSession(succeeded(await signUp(api)))
  succeeded(await api.get('/user', { token: before.access_token }))
})

test('issue: mfa_enabled', async () => {
  const api = await authProject(it, { mfa_enabled: false })
  const me = await api.signUp()
  const enroll = () =>
    api.post('/factors', { factor_type: 'totp', friendly_name: 'phone' }, { token: me.token })
  assertAuthError(await enroll(), 422, 'mfa_totp_enroll_not_enabled')
  await api.settings({ mfa_enabled: true })
  succeeded(await enroll())
})

test('3: min_password_length', async () => {
  const api = await authProject(it, { min_password_length: 10 })
  for (const given of ['nine9nine', '123456']) {
    const reply = await signUp(api, { password: given })
    assertAuthError(reply, 422, 'weak_password', /\b10\b/)
    assert.deepEqual(reply.body.weak_password.reasons, ['length'])
  }
  const me = await api.signUp({ password: 'ten10ten10' })
  const update = await api.put('/user', { password: 'nine9nine' }, { token: me.token })
  assertAuthError(update, 422, 'weak_password')
  const fields = { email: someone(), password: 'nine9nine' }
  assertAuthError(await api.admin('POST', '/admin/users', fields), 422, 'weak_password')
  await api.settings({ min_password_length: null })
  assertSession(succeeded(await signUp(api, { password: 'sixsix' })))
})

test('3: session_duration_seconds', async () => {
  const api = await authProject(it, { session_duration_seconds: 120 })
  const me = await api.signUp()
  const lifetime = (token: string) => claimsOf(token).exp - claimsOf(token).iat
  assert.deepEqual([me.session.expires_in, lifetime(me.token)], [120, 120])
  await api.settings({ session_duration_seconds: 7200 })
  const refreshed = succeeded(await refresh(api, me.refreshToken))
  assert.deepEqual([refreshed.expires_in, lifetime(refreshed.access_token)], [7200, 7200])
  succeeded(await api.post('/otp', { email: me.email }))
  const landing = await api.follow((await api.mailTo(me.email, 'magic_link')).link)
  assert.equal(landing.fragment['expires_in'], '7200')
})

test('issue: refresh_token_reuse_interval_seconds', async () => {
  const api = await authProject(it, { refresh_token_reuse_interval_seconds: 300 })
  const chain = async () => {
    const me = await api.signUp()
    const second = succeeded(await refresh(api, me.refreshToken))
    const third = succeeded(await refresh(api, second.refresh_token))
    return { first: me.refreshToken, active: third.refresh_token as string }
  }
  const patient = await chain()
  assert.equal(succeeded(await refresh(api, patient.first)).refresh_token, patient.active)
  await api.settings({ refresh_token_reuse_interval_seconds: 0 })
  const strict = await chain()
  assertAuthError(await refresh(api, strict.first), 400, 'refresh_token_already_used')
  assert.equal((await refresh(api, strict.active)).status, 400, 'the whole family is revoked')
})

test('issue: site_url', async () => {
  const api = await authProject(it)
  const ask = async () => {
    const { email } = await api.signUp()
    succeeded(await api.post('/otp', { email }))
    return (await api.follow((await api.mailTo(email, 'magic_link')).link)).place
  }
  assert.equal(await ask(), siteUrl)
  await api.settings({ site_url: 'https://other.example.test/home' })
  assert.equal(await ask(), 'https://other.example.test/home')
})

test('issue: redirect_allow_list', async () => {
  const api = await authProject(it)
  const place = 'https://elsewhere.example.test/in'
  const ask = async () => {
    const { email } = await api.signUp()
    succeeded(await api.post(`/otp?redirect_to=${encodeURIComponent(place)}`, { email }))
    return (await api.follow((await api.mailTo(email, 'magic_link')).link)).place
  }
  assert.equal(await ask(), siteUrl)
  await api.settings({ redirect_allow_list: ['https://elsewhere.example.test/*'] })
  assert.equal(await ask(), place)
  await api.settings({ redirect_allow_list: null })
  assert.equal(await ask(), siteUrl)
})

test('issue: the mail contains otp_expiry_seconds', async () => {
  const api = await authProject(it, { otp_expiry_seconds: 7200 })
  const { email } = await api.signUp()
  succeeded(await api.post('/otp', { email }))
  assert.match((await api.mailTo(email, 'magic_link')).body_text, /\b2 hours\b/)
})

test('1 §1 settings of one project do not affect another', async () => {
  const [strict, open] = [await authProject(it, { signup_enabled: false }), await authProject(it)]
  assertAuthError(await signUp(strict), 422, 'signup_disabled')
  assertSession(succeeded(await signUp(open)))
})

test('3: refresh_token_duration_seconds', async () => {
  const { api, me, since } = idle
  let live = (await api.signUp()).refreshToken
  for (let wait = 1; wait > 0; ) {
    wait = since + 62_000 - Date.now()
    await sleep(Math.max(0, Math.min(wait, 20_000)))
    live = succeeded(await refresh(api, live)).refresh_token
  }
  assertAuthError(await refresh(api, me.refreshToken), 400, 'session_expired')
  assertSession(succeeded(await refresh(api, live)))
})
