// 1 §7 and auth contract §3: every error has its status, its code, and a body that all client versions can read.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  type AuthAsk,
  assertAuthError,
  authProject,
  authRoot,
  challengeOf,
  noLimits,
  password,
  pkce,
  type SignedIn,
  seen,
  someone,
  succeeded,
} from '../auth.ts'
import { type CreatedProject, createProject, someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let auth: AuthApi
let confirming: AuthApi
let closed: AuthApi
let other: CreatedProject
let me: SignedIn
before(async () => {
  it = await target()
  auth = await authProject(it, { manual_linking_enabled: true })
  confirming = await authProject(it, { auto_confirm: false })
  closed = await authProject(it, {
    signup_enabled: false,
    anonymous_enabled: false,
    magic_link_enabled: false,
    mfa_enabled: false,
  })
  other = await createProject(it)
  me = await auth.signUp()
})
after(() => it.stop())

type Refused = [code: string, status: number, ask: () => Promise<Reply>]
const grant = (type: string, body: unknown, api = auth) => api.post(`/token?grant_type=${type}`, body)
const asMe = (method: string, path: string, body?: unknown): Promise<Reply> => {
  const options: AuthAsk = { token: me.token }
  if (body !== undefined) options.body = body
  return auth.ask(method, path, options)
}

const refusals: Refused[] = [
  ['validation_failed', 400, () => auth.post('/signup', { email: 'nonsense', password })],
  ['bad_json', 400, () => auth.post('/signup', '{"email":')],
  ['invalid_credentials', 400, () => grant('password', { email: me.email, password: 'wrong password' })],
  ['invalid_credentials', 400, () => grant('nosuch', {})],
  [
    'email_not_confirmed',
    400,
    async () => {
      const { email } = await confirming.createUser({ email_confirm: false })
      return grant('password', { email, password }, confirming)
    },
  ],
  [
    'user_banned',
    400,
    async () => {
      const { email } = await auth.createUser({ ban_duration: '1h' })
      return grant('password', { email, password })
    },
  ],
  [
    'user_banned',
    403,
    async () => {
      const { id, token } = await auth.signUp()
      succeeded(await auth.admin('PUT', `/admin/users/${id}`, { ban_duration: '1h' }))
      return auth.get('/user', { token })
    },
  ],
  ['user_already_exists', 422, () => auth.post('/signup', { email: me.email, password })],
  ['email_exists', 422, () => auth.admin('POST', '/admin/users', { email: me.email })],
  ['email_exists', 422, () => auth.admin('POST', '/invite', { email: me.email })],
  ['email_exists', 422, async () => asMe('PUT', '/user', { email: (await auth.createUser()).email })],
  ['weak_password', 422, () => auth.post('/signup', { email: someone(), password: '12345' })],
  ['same_password', 422, () => asMe('PUT', '/user', { password })],
  ['signup_disabled', 422, () => closed.post('/signup', { email: someone(), password })],
  ['otp_disabled', 422, () => closed.post('/otp', { email: someone() })],
  [
    'anonymous_provider_disabled',
    422,
    async () => {
      const api = await authProject(it, { anonymous_enabled: false })
      return api.post('/signup', { data: {} })
    },
  ],
  [
    'email_provider_disabled',
    400,
    async () => {
      const api = await authProject(it, { email_enabled: false })
      return api.post('/signup', { email: someone(), password })
    },
  ],
  [
    'email_provider_disabled',
    422,
    async () => {
      const api = await authProject(it, { email_enabled: false })
      return grant('password', { email: someone(), password }, api)
    },
  ],
  ['otp_expired', 403, () => auth.post('/verify', { type: 'email', email: me.email, token: '000000' })],
  ['no_authorization', 401, () => auth.get('/user')],
  ['bad_jwt', 401, () => auth.get('/user', { token: 'a.b.c' })],
  ['user_not_found', 404, () => auth.admin('GET', `/admin/users/${someId}`)],
  [
    'session_not_found',
    403,
    async () => {
      const { token } = await auth.signUp()
      assert.equal((await auth.post('/logout', undefined, { token })).status, 204)
      return auth.get('/user', { token })
    },
  ],
  ['refresh_token_not_found', 400, () => grant('refresh_token', { refresh_token: 'nonsense' })],
  ['not_admin', 403, () => asMe('GET', '/admin/users')],
  ['flow_state_not_found', 404, () => grant('pkce', { auth_code: someId, code_verifier: 'x'.repeat(43) })],
  [
    'bad_code_verifier',
    400,
    async () => {
      const { email } = await auth.signUp()
      succeeded(await auth.post('/otp', { email, ...challengeOf(pkce()) }))
      const { link } = await auth.mailTo(email, 'magic_link')
      const { code } = (await auth.follow(link)).query
      return grant('pkce', { auth_code: code, code_verifier: pkce().verifier })
    },
  ],
  [
    'reauthentication_not_valid',
    422,
    () => asMe('PUT', '/user', { password: 'another password', nonce: '000000' }),
  ],
  [
    'current_password_invalid',
    400,
    () => asMe('PUT', '/user', { password: 'another password', current_password: 'wrong password' }),
  ],
  [
    'over_request_rate_limit',
    429,
    async () => {
      const api = await authProject(it, { rate_limits: { ...noLimits, token: 1 } })
      await grant('refresh_token', { refresh_token: 'nonsense' }, api)
      return grant('refresh_token', { refresh_token: 'nonsense' }, api)
    },
  ],
  [
    'over_email_send_rate_limit',
    429,
    async () => {
      const api = await authProject(it, { rate_limits: { ...noLimits, mail_interval_seconds: 60 } })
      const email = someone()
      await api.post('/recover', { email })
      return api.post('/recover', { email })
    },
  ],
  [
    'manual_linking_disabled',
    404,
    async () => {
      const api = await authProject(it)
      const { token } = await api.signUp()
      return api.ask('DELETE', `/user/identities/${someId}`, { token })
    },
  ],
  ['identity_not_found', 422, () => asMe('DELETE', `/user/identities/${someId}`)],
  [
    'single_identity_not_deletable',
    422,
    () => asMe('DELETE', `/user/identities/${me.session.user.identities[0].identity_id}`),
  ],
  ['validation_failed', 400, () => auth.get('/authorize?provider=nosuch', { as: 'nobody' })],
  ['validation_failed', 400, () => auth.get('/authorize?provider=github', { as: 'nobody' })],
  ['mfa_factor_not_found', 404, () => asMe('POST', `/factors/${someId}/challenge`, {})],
]

for (const [code, status, ask] of refusals)
  test(`auth contract §3: ${code} is ${status} (${ask.toString().replace(/\s+/g, ' ').slice(0, 60)}…)`, async () => {
    assertAuthError(await ask(), status, code)
  })

test('auth contract §3: a weak_password error has its reasons', async () => {
  const { body } = await auth.post('/signup', { email: someone(), password: '12345' })
  assert.deepEqual(body.weak_password.reasons, ['length'])
})

test('auth contract §3: messages that applications match on are unchanged', async () => {
  const text = async (reply: Promise<Reply>) => (await reply).body.msg
  assert.equal(
    await text(grant('password', { email: me.email, password: 'wrong password' })),
    'Invalid login credentials',
  )
  assert.equal(await text(auth.post('/signup', { email: me.email, password })), 'User already registered')
  const { email } = await confirming.createUser({ email_confirm: false })
  assert.equal(await text(grant('password', { email, password }, confirming)), 'Email not confirmed')
})

test('auth contract §3: without the version header the body is the same', async () => {
  const reply = await it.call('POST', `${authRoot(auth.project)}/token?grant_type=password`, {
    apikey: auth.project.anon_key,
    body: { email: me.email, password: 'wrong password' },
  })
  assert.equal(reply.status, 400)
  assert.partialDeepStrictEqual(reply.body, {
    error_code: 'invalid_credentials',
    msg: 'Invalid login credentials',
    message: 'Invalid login credentials',
    error: 'Invalid login credentials',
    statusCode: 400,
    hint: '',
    details: '',
  })
  for (const field of ['msg', 'message', 'error', 'error_code', 'hint', 'details'])
    assert.equal(typeof reply.body[field], 'string', field)
})

test('auth contract §3: the error code is the same in both shapes of the URL', async () => {
  for (const shape of ['native', 'alias'] as const) {
    assertAuthError(await auth.get('/user', { shape }), 401, 'no_authorization')
    assertAuthError(await auth.post('/recover', {}, { shape }), 400, 'validation_failed')
    assertAuthError(await auth.post('/recover', '{', { shape }), 400, 'bad_json')
  }
})

test('1 §7 a missing refresh_token is 400', async () => {
  for (const body of [{}, { refresh_token: '' }, { refresh_token: null }, { refresh_token: 5 }]) {
    const reply = await grant('refresh_token', body)
    assert.equal(reply.status, 400, reply.text)
    assert.equal(typeof reply.body.error, 'string')
    assert.equal(typeof (reply.body.error_description ?? reply.body.msg), 'string')
  }
})

test('1 §1, case 1: keys of another project and unknown projects get the same 401', async () => {
  const { anon_key, id, slug } = auth.project
  // Callers send the key alone, or also as Bearer as the client library does.
  for (const credentials of [
    (key: string) => ({ apikey: key }),
    (key: string) => ({ token: key }),
    (key: string) => ({ apikey: key, token: key }),
  ]) {
    const ask = async (path: string, key: string) =>
      seen(await it.call('POST', path, { body: {}, ...credentials(key) }))
    const reference = await ask(`/v1/${id}/auth/v1/signup`, 'wrong')
    assert.equal(reference.status, 401)
    for (const [path, key] of [
      [`/v1/${id}/auth/v1/signup`, other.anon_key],
      [`/v1/${id}/auth/v1/signup`, other.service_role_key],
      [`/v1/auth/${id}/signup`, other.anon_key],
      [`/v1/${someId}/auth/v1/signup`, anon_key],
      [`/v1/auth/${someId}/signup`, anon_key],
      [`/v1/auth/${slug}/signup`, anon_key],
      [`/v1/${id}/auth/v1/invite`, other.service_role_key],
    ] as const)
      assert.deepEqual(await ask(path, key), reference, path)
  }
})

test('auth contract §4: unsupported routes are 404, never 5xx', async () => {
  for (const [method, path, body] of [
    ['POST', '/sso', { domain: 'example.test', skip_http_redirect: true }],
    ['GET', '/oauth/authorizations/some-id', undefined],
    ['POST', '/oauth/authorizations/some-id/consent', { action: 'approve' }],
    ['GET', '/user/oauth/grants', undefined],
    ['POST', '/passkeys/registration/options', {}],
    ['GET', '/nosuch', undefined],
    ['GET', '/admin/nosuch', undefined],
    ['GET', '/', undefined],
  ] as const) {
    const reply = await auth.ask(method, path, { token: me.token, body })
    assert.equal(reply.status, 404, `${path}: ${reply.status} ${reply.text}`)
    assert.equal(typeof reply.body.code, 'string')
    assert.equal(typeof reply.body.message, 'string')
  }
  const web3 = await grant('web3', { chain: 'ethereum', message: 'x', signature: 'y' })
  assert.ok(web3.status >= 400 && web3.status < 500, `${web3.status} ${web3.text}`)
})

test('auth contract §1: CORS allows the headers of the client library', async () => {
  const origin = 'https://app.example.test'
  const preflight = await it.call('OPTIONS', `${authRoot(auth.project)}/token?grant_type=password`, {
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers':
        'apikey,authorization,content-type,x-client-info,x-supabase-api-version',
    },
  })
  assert.ok(preflight.status < 300, `${preflight.status}`)
  const allowed = (preflight.headers.get('access-control-allow-headers') ?? '').toLowerCase()
  for (const name of ['apikey', 'authorization', 'content-type', 'x-client-info', 'x-supabase-api-version'])
    assert.ok(allowed.includes(name), name)
  const reply = await auth.post('/recover', {}, { headers: { origin } })
  const exposed = (reply.headers.get('access-control-expose-headers') ?? '').toLowerCase()
  for (const name of ['x-supabase-api-version', 'x-sb-error-code', 'x-total-count', 'link'])
    assert.ok(exposed.includes(name), name)
})
