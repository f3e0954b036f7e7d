// 3 §2 "Auth settings", "OAuth providers" and 3 §4: auth settings and providers of a project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, mintToken, someId, unique } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const newProject = async () => (await createProject(it)).id
const read = (id: string) => it.manage('GET', `/projects/${id}/auth`)
const patch = (id: string, body: unknown) => it.manage('PATCH', `/projects/${id}/auth`, body)
const put = (id: string, body: unknown) => it.manage('PUT', `/projects/${id}/auth/providers`, body)
const drop = (id: string, name: string) => it.manage('DELETE', `/projects/${id}/auth/providers/${name}`)

const defaults = {
  email_enabled: true,
  magic_link_enabled: true,
  signup_enabled: true,
  anonymous_enabled: true,
  mfa_enabled: true,
  auto_confirm: true,
  manual_linking_enabled: false,
  jwt_algorithm: 'HS256',
  min_password_length: 6,
  session_duration_seconds: 3600,
  refresh_token_duration_seconds: 2_592_000,
  refresh_token_reuse_interval_seconds: 10,
  otp_expiry_seconds: 3600,
  site_url: 'http://localhost:3000',
  redirect_allow_list: [],
  rate_limits: {
    token: 150,
    verify: 30,
    email: 30,
    anonymous: 30,
    mfa: 75,
    mail: 30,
    mail_interval_seconds: 60,
  },
  providers: {},
}

test('3 §2 a new project has the default settings and no provider', async () => {
  const reply = await read(await newProject())
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(reply.body, defaults)
})

test('3 §4 PATCH merges keys and those of rate_limits, null restores the default, and it is audited', async () => {
  const id = await newProject()
  const first = await patch(id, {
    min_password_length: 12,
    session_duration_seconds: 600,
    rate_limits: { token: 0, mail: 5 },
  })
  assert.equal(first.status, 200, first.text)
  const after = {
    ...defaults,
    min_password_length: 12,
    session_duration_seconds: 600,
    rate_limits: { ...defaults.rate_limits, token: 0, mail: 5 },
  }
  assert.deepEqual(first.body, after)
  assert.deepEqual((await read(id)).body, after)
  assert.equal((await auditOf(it, 'auth.settings_updated', first)).project_id, id)

  const second = await patch(id, {
    min_password_length: null,
    auto_confirm: false,
    site_url: 'https://app.example.test/home',
    redirect_allow_list: ['https://*.example.test/**', 'myapp://callback'],
    rate_limits: { token: null, verify: 7 },
  })
  assert.deepEqual(second.body, {
    ...after,
    min_password_length: 6,
    auto_confirm: false,
    site_url: 'https://app.example.test/home',
    redirect_allow_list: ['https://*.example.test/**', 'myapp://callback'],
    rate_limits: { ...defaults.rate_limits, mail: 5, verify: 7 },
  })
  assert.deepEqual((await patch(id, { rate_limits: null })).body.rate_limits, defaults.rate_limits)
})

test('3 §4 an invalid value is rejected with the name of its field, and nothing changes', async () => {
  const id = await newProject()
  for (const [body, field] of [
    [{ email_enabled: 'yes' }, 'email_enabled'],
    [{ min_password_length: 5 }, 'min_password_length'],
    [{ min_password_length: 73 }, 'min_password_length'],
    [{ min_password_length: '8' }, 'min_password_length'],
    [{ session_duration_seconds: 0 }, 'session_duration_seconds'],
    [{ session_duration_seconds: 1.5 }, 'session_duration_seconds'],
    [{ refresh_token_duration_seconds: -1 }, 'refresh_token_duration_seconds'],
    [{ otp_expiry_seconds: 1e9 }, 'otp_expiry_seconds'],
    [{ site_url: 'nowhere' }, 'site_url'],
    [{ site_url: 'http://host:99999/' }, 'site_url'],
    [{ site_url: 'javascript:alert(1)' }, 'site_url'],
    [{ redirect_allow_list: 'https://x.example' }, 'redirect_allow_list'],
    [{ redirect_allow_list: [''] }, 'redirect_allow_list'],
    [{ rate_limits: { token: -1 } }, 'rate_limits.token'],
    [{ rate_limits: { tokens: 1 } }, 'tokens'],
    [{ rate_limits: 5 }, 'rate_limits'],
    [{ min_password_length: 8, surprise: true }, 'surprise'],
    [{ providers: {} }, 'providers'],
  ] as const)
    assertManagementError(await patch(id, body), 'invalid_request', new RegExp(`"${field}`))
  for (const body of [{}, [], null, 'text'])
    assertManagementError(await patch(id, JSON.stringify(body)), 'invalid_request')
  assert.deepEqual((await read(id)).body, defaults)
})

test('3 §2 settings take effect on sign-up and sign-in immediately', async () => {
  const { id, anon_key: apikey } = await createProject(it)
  const signUp = (password: string) =>
    it.call('POST', `/v1/auth/${id}/sign-up`, {
      apikey,
      body: { email: `${unique('u')}@example.test`, password },
    })
  assert.equal((await signUp('sixsix')).status, 200)
  await patch(id, { min_password_length: 10, session_duration_seconds: 120 })
  assert.equal((await signUp('ninechars')).status, 422)
  const long = await signUp('tencharss!')
  assert.deepEqual([long.status, long.body.expires_in], [200, 120])
  await patch(id, { signup_enabled: false })
  assert.equal((await signUp('tencharss!')).status, 422)
  await patch(id, { signup_enabled: null, email_enabled: false })
  assert.ok([400, 422].includes((await signUp('tencharss!')).status))
})

test('3 §4 invalid values in the free-form project settings are ignored, and sign-in still works', async () => {
  const { id, anon_key: apikey } = await createProject(it)
  const nonsense = {
    min_password_length: 'long',
    session_duration_seconds: -5,
    refresh_token_duration_seconds: null,
    otp_expiry_seconds: { hours: 1 },
    site_url: 'not a url',
    redirect_allow_list: [1, null],
    auto_confirm: 'no',
    rate_limits: { token: 'many', email: 12 },
    providers: { github: 'yes', google: [], nobody: { client_secret: 'shh' }, apple: { enabled: 'true' } },
    unknown: true,
  }
  for (const auth of [nonsense, { rate_limits: [] }]) {
    assert.equal((await it.manage('PATCH', `/projects/${id}`, { settings: { auth } })).status, 200)
    const { status, body, text } = await read(id)
    assert.equal(status, 200, text)
    const { providers, rate_limits, ...rest } = body
    const { providers: _, rate_limits: limits, ...expected } = defaults
    assert.deepEqual(rest, expected)
    assert.deepEqual(rate_limits, { ...limits, ...(auth === nonsense && { email: 12 }) })
    assert.deepEqual(Object.keys(providers), auth === nonsense ? ['apple'] : [])
    assert.ok(!text.includes('shh'))
    const signedUp = await it.call('POST', `/v1/auth/${id}/sign-up`, {
      apikey,
      body: { email: `${unique('u')}@example.test`, password: 'long enough' },
    })
    assert.equal(signedUp.status, 200, signedUp.text)
    assert.equal(signedUp.body.expires_in, 3600)
  }
  // A change through this route replaces the invalid values.
  assert.equal((await patch(id, { rate_limits: { token: 9 } })).body.rate_limits.token, 9)
})

test('3 §4 auth settings and free-form project settings change the same values', async () => {
  const id = await newProject()
  await it.manage('PATCH', `/projects/${id}`, {
    settings: { auth: { min_password_length: 9 }, theme: 'dark' },
  })
  assert.equal((await read(id)).body.min_password_length, 9)
  await patch(id, { mfa_enabled: false })
  assert.deepEqual((await it.manage('GET', `/projects/${id}`)).body.settings, {
    auth: { min_password_length: 9, mfa_enabled: false },
    theme: 'dark',
  })
})

const github = { provider: 'github', client_id: 'our-client', enabled: true }

test('3 §4 a provider is added and replaced; its secret is masked, and a request without it keeps it', async () => {
  const { id } = await createProject(it)
  const secret = unique('secret')
  const added = await put(id, { ...github, client_secret: secret, scopes: ['user:email', 'read:org'] })
  assert.equal(added.status, 200, added.text)
  assert.match(added.body.callback_url, new RegExp(`^https?://.+/v1/${id}/auth/v1/callback$`))
  const shown = {
    enabled: true,
    client_id: 'our-client',
    client_secret: '[redacted]',
    scopes: ['user:email', 'read:org'],
    authorize_url: null,
    token_url: null,
    userinfo_url: null,
    issuer: null,
    callback_url: added.body.callback_url,
  }
  assert.deepEqual(added.body, { provider: 'github', ...shown })
  const entry = await auditOf(it, 'auth.provider_saved', added)
  assert.ok(!JSON.stringify(entry).includes(secret))

  const listed = await read(id)
  assert.deepEqual(listed.body.providers, { github: shown })
  const replaced = await put(id, {
    ...github,
    client_secret: '[redacted]',
    enabled: false,
    scopes: 'user:email, gist',
    token_url: 'https://github.example.test/token',
  })
  assert.deepEqual(replaced.body, {
    provider: 'github',
    ...shown,
    enabled: false,
    scopes: ['user:email', 'gist'],
    token_url: 'https://github.example.test/token',
  })
  const kept = await put(id, github)
  assert.deepEqual([kept.body.client_secret, kept.body.scopes], ['[redacted]', null])
  assert.equal((await put(id, { ...github, client_secret: null })).body.client_secret, null)
  const project = await it.manage('GET', `/projects/${id}`)
  for (const { text } of [added, listed, replaced, kept, project]) assert.ok(!text.includes(secret))
})

test('3 §4 a configured provider works immediately, and stops working when removed', async () => {
  const { id, anon_key: apikey } = await createProject(it)
  const external = async () => (await it.call('GET', `/v1/auth/${id}/settings`, { apikey })).body.external
  const go = () => it.call('GET', `/v1/auth/${id}/oauth/github`)
  assert.equal((await external()).github, false)
  await put(id, { ...github, client_secret: 'shh' })
  assert.equal((await external()).github, true)
  const sent = await go()
  assert.equal(sent.status, 302)
  assert.match(sent.headers.get('location')!, /^https:\/\/github\.com\/.*client_id=our-client/)
  await put(id, { ...github, enabled: false })
  assert.equal((await go()).status, 400)
  await put(id, github)
  assert.equal((await go()).status, 302)

  const removed = await drop(id, 'github')
  assert.equal(removed.status, 204)
  assert.equal((await auditOf(it, 'auth.provider_removed', removed)).target, 'github')
  assert.equal((await go()).status, 400)
  assert.deepEqual((await read(id)).body.providers, {})
  assertManagementError(await drop(id, 'github'), 'provider_not_found')
  for (const name of ['nobody', 'constructor', '__proto__', '%00'])
    assert.ok([400, 404].includes((await drop(id, name)).status), name)
})

test('3 §4 changing settings keeps the providers, and changing providers keeps the settings', async () => {
  const id = await newProject()
  await put(id, { ...github, client_secret: 'shh' })
  await patch(id, { auto_confirm: false })
  await put(id, { provider: 'google', client_id: 'g', client_secret: 'shh' })
  const { body } = await read(id)
  assert.equal(body.auto_confirm, false)
  assert.deepEqual(Object.keys(body.providers), ['github', 'google'])
})

test('3 §4 concurrent changes are not lost', async () => {
  const id = await newProject()
  const replies = await Promise.all([
    patch(id, { min_password_length: 20 }),
    put(id, { ...github, client_secret: 'a' }),
    patch(id, { rate_limits: { token: 1 } }),
    put(id, { provider: 'discord', client_id: 'd', client_secret: 'b' }),
    patch(id, { rate_limits: { verify: 2 } }),
    it.manage('PATCH', `/projects/${id}`, { settings: { theme: 'dark' } }),
    patch(id, { mfa_enabled: false }),
  ])
  for (const { status, text } of replies) assert.equal(status, 200, text)
  const { body } = await read(id)
  assert.deepEqual(
    [body.min_password_length, body.mfa_enabled, body.rate_limits.token, body.rate_limits.verify],
    [20, false, 1, 2],
  )
  assert.deepEqual(Object.keys(body.providers).sort(), ['discord', 'github'])
  assert.equal((await it.manage('GET', `/projects/${id}`)).body.settings.theme, 'dark')
})

test('3 §4 an invalid provider configuration is rejected with the name of its field', async () => {
  const id = await newProject()
  for (const [body, field] of [
    [{ ...github }, 'client_secret'],
    [{ ...github, client_secret: '[redacted]' }, 'client_secret'],
    [{ client_id: 'x', client_secret: 'y' }, 'provider'],
    [{ ...github, provider: 'facebook', client_secret: 'y' }, 'provider'],
    [{ provider: 'github', client_secret: 'y' }, 'client_id'],
    [{ ...github, client_id: '  ', client_secret: 'y' }, 'client_id'],
    [{ ...github, client_secret: 5 }, 'client_secret'],
    [{ ...github, client_secret: 'y', enabled: 'yes' }, 'enabled'],
    [{ ...github, client_secret: 'y', token_url: 'ftp://x.example' }, 'token_url'],
    [{ ...github, client_secret: 'y', issuer: 'somebody' }, 'issuer'],
    [{ ...github, client_secret: 'y', extra: 1 }, 'extra'],
  ] as const)
    assertManagementError(await put(id, body), 'invalid_request', new RegExp(`"${field}"`))
  assert.deepEqual((await read(id)).body.providers, {})
})

test('3 §4 the templates list every provider with its recommended scopes', async () => {
  const { status, body } = await it.manage('GET', '/auth/templates')
  assert.equal(status, 200)
  assert.deepEqual([body.total, body.limit, body.offset], [5, 50, 0])
  assert.deepEqual(body.templates.map(({ provider }: any) => provider).sort(), [
    ...['apple', 'discord', 'github', 'google', 'microsoft'],
  ])
  for (const each of body.templates) {
    assert.ok(each.scopes.length > 0)
    assert.match(each.authorize_url, /^https:\/\//)
  }
  const second = await it.manage('GET', '/auth/templates?limit=1&offset=1')
  assert.deepEqual(second.body.templates, [body.templates[1]])
})

test('3 §5 reading needs read scope, changing admin', async () => {
  const id = await newProject()
  const [reader, deployer] = [await mintToken(it, 'read'), await mintToken(it, 'deploy')]
  const as = (token: string, method: string, path: string, body?: unknown) =>
    it.call(method, `/api/v1${path}`, { token, body })
  assert.equal((await as(reader.token, 'GET', `/projects/${id}/auth`)).status, 200)
  assert.equal((await as(reader.token, 'GET', '/auth/templates')).status, 200)
  for (const { token } of [reader, deployer]) {
    assertNeedsScope(await as(token, 'PATCH', `/projects/${id}/auth`, { auto_confirm: false }), 'admin')
    assertNeedsScope(await as(token, 'PUT', `/projects/${id}/auth/providers`, github), 'admin')
    assertNeedsScope(await as(token, 'DELETE', `/projects/${id}/auth/providers/github`), 'admin')
  }
  assertManagementError(await it.call('GET', '/api/v1/auth/templates'), 'unauthorized')
})

test('3 §4 an unknown project is 404; a suspended one can still be managed', async () => {
  for (const reply of [
    await read(someId),
    await patch(someId, { auto_confirm: false }),
    await put(someId, { ...github, client_secret: 'y' }),
    await drop(someId, 'github'),
  ])
    assertManagementError(reply, 'project_not_found')
  const id = await newProject()
  await it.manage('POST', `/projects/${id}/suspend`)
  assert.equal((await patch(id, { auto_confirm: false })).body.auto_confirm, false)
  assert.equal((await put(id.toUpperCase(), { ...github, client_secret: 'y' })).status, 200)
  assert.deepEqual(Object.keys((await read(id)).body.providers), ['github'])
})
