// Routes of features that the platform does not offer answer with an error that says so.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthProject, address, authProject } from './auth-project.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: AuthProject
let token: string
before(async () => {
  platform = await startPlatform()
  project = await authProject(platform)
  token = (await project.signUp(address())).access_token
})
after(() => platform?.stop())

const id = crypto.randomUUID()
const phone = '+4915112345678'

const routes: Record<string, [status: number, code: string, routes: string[]]> = {
  'SAML and SSO': [
    404,
    'saml_provider_disabled',
    ['POST /sso', 'GET /sso/saml/metadata', 'POST /sso/saml/acs', 'GET /admin/sso/providers'],
  ],
  passkeys: [
    404,
    'feature_disabled',
    [
      'GET /passkeys',
      'DELETE /passkeys/1',
      'POST /passkeys/registration/options',
      'POST /passkeys/authentication/verify',
      `GET /admin/users/${id}/passkeys`,
    ],
  ],
  'the OAuth server': [
    404,
    'feature_disabled',
    [
      'GET /oauth/authorize',
      'POST /oauth/token',
      'GET /oauth/userinfo',
      'POST /oauth/clients/register',
      `GET /oauth/authorizations/${id}`,
      `POST /oauth/authorizations/${id}/consent`,
      'GET /user/oauth/grants',
      'GET /admin/oauth/clients',
      `POST /admin/oauth/clients/${id}/regenerate_secret`,
      'GET /.well-known/oauth-authorization-server',
      'GET /.well-known/openid-configuration',
    ],
  ],
  'custom providers': [
    404,
    'feature_disabled',
    ['GET /admin/custom-providers', 'PUT /admin/custom-providers/a'],
  ],
  'recovery codes': [404, 'feature_disabled', ['GET /factors/recovery-codes']],
}

function saysNotOffered(
  { status, headers, body }: Reply,
  expected: number,
  code: string,
  what: string,
): void {
  assert.deepEqual(
    [status, body.code, body.error_code],
    [expected, code, code],
    `${what}: ${JSON.stringify(body)}`,
  )
  assert.match(body.message, /not offered/, what)
  assert.equal(body.msg, body.message)
  assert.equal(headers.get('x-sb-error-code'), code)
}

for (const [feature, [status, code, paths]] of Object.entries(routes))
  test(`auth: ${feature}: the routes say that it is not offered, with and without a credential`, async () => {
    for (const each of paths)
      for (const prefix of [`/v1/auth/${project.id}`, `/v1/${project.id}/auth/v1`])
        for (const credentials of [{}, { apikey: project.anon_key }, { apikey: project.anon_key, token }]) {
          const [method, path] = each.split(' ') as [string, string]
          saysNotOffered(await platform.call(method, prefix + path, credentials), status, code, each)
        }
  })

test('auth: phone numbers are not offered anywhere', async () => {
  const password = 'correct horse'
  const calls: Record<string, Promise<Reply>> = {
    'sign-up': project.auth('POST', '/signup', { phone, password }),
    'sign-in': project.auth('POST', '/token?grant_type=password', { phone, password }),
    otp: project.auth('POST', '/otp', { phone, channel: 'sms' }),
    verify: project.auth('POST', '/verify', { phone, token: '123456', type: 'sms' }),
    resend: project.auth('POST', '/resend', { phone, type: 'sms' }),
    update: project.asUser(token, 'PUT', '/user', { phone }),
    'create by an administrator': project.asAdmin('POST', '/admin/users', { phone, password }),
  }
  for (const [what, reply] of Object.entries(calls))
    saysNotOffered(await reply, 400, 'phone_provider_disabled', what)
  const factor = await project.asUser(token, 'POST', '/factors', { factor_type: 'phone', phone })
  saysNotOffered(factor, 422, 'mfa_phone_enroll_not_enabled', 'a second factor')
})

test('auth: Web3 sign-in is not offered', async () => {
  const body = { chain: 'solana', message: 'hello', signature: 'x' }
  saysNotOffered(
    await project.auth('POST', '/token?grant_type=web3', body),
    422,
    'web3_provider_disabled',
    'web3',
  )
})

test('auth: an unknown route is 404, and needs a key as before', async () => {
  for (const path of [
    '/nosuch',
    '/ssoo',
    '/passkeys2',
    '/oauthx/token',
    '/admin/nosuch',
    '/.well-known/nosuch',
  ]) {
    const { status, body } = await project.auth('GET', path)
    assert.deepEqual([status, body.code], [404, 'route_not_found'], path)
    assert.equal((await platform.call('GET', `/v1/${project.id}/auth/v1${path}`)).status, 401, path)
  }
})
