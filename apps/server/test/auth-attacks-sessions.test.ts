// Attacks with sessions, pending codes and missing second factors, and secrets that must not leak.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { totpCode } from '#src/services/auth/mfa/totp.ts'
import { type AuthProject, address, authProject, follow, password, unique } from './auth-project.ts'
import { lastLink } from './caught-mail.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { newPkce } from './oauth-setup.ts'

let platform: TestPlatform
/** auto_confirm is on, the default. */
let quick: AuthProject
before(async () => {
  platform = await startPlatform()
  quick = await authProject(platform, {
    manual_linking_enabled: true,
    providers: { github: { enabled: true, client_id: 'a', client_secret: 'b' } },
  })
})
after(() => platform?.stop())

const look = (text: string, project: AuthProject) => project.rows(text)
const signedIn = (email: string, project: AuthProject) => project.openSession(email)

// What a change of password, session or address invalidates

async function codeInHand(email: string) {
  const { verifier, query } = newPkce()
  await quick.auth('POST', '/otp', { email, ...query })
  const { link } = await lastLink(platform, quick.id, email)
  const code = new URL((await follow(link)).headers.get('location')!).searchParams.get('code')
  assert.ok(code)
  return () => quick.auth('POST', '/token?grant_type=pkce', { auth_code: code, code_verifier: verifier })
}
const endings: Record<string, (made: { access_token: string; user: { id: string } }) => Promise<Reply>> = {
  'sets a new password': ({ access_token }) =>
    quick.asUser(access_token, 'PUT', '/user', { password: 'a newer one' }),
  'signs out everywhere': ({ access_token }) => quick.asUser(access_token, 'POST', '/logout'),
  'is given a new password': ({ user }) =>
    quick.asAdmin('PUT', `/admin/users/${user.id}`, { password: 'a newer one' }),
  'is given a new address': ({ user }) =>
    quick.asAdmin('PUT', `/admin/users/${user.id}`, { email: address() }),
  'is banned': ({ user }) => quick.asAdmin('PUT', `/admin/users/${user.id}`, { ban_duration: '1h' }),
  'is deleted softly': ({ user }) =>
    quick.asAdmin('DELETE', `/admin/users/${user.id}`, { should_soft_delete: true }),
  'is deleted': ({ user }) => quick.asAdmin('DELETE', `/admin/users/${user.id}`, {}),
}
for (const [what, end] of Object.entries(endings))
  test(`auth: a pending auth code is invalid once its user ${what}`, async () => {
    const email = address()
    const made = await quick.signUp(email)
    const exchange = await codeInHand(email)
    const ended = await end(made)
    assert.ok([200, 204].includes(ended.status), JSON.stringify(ended.body))
    const reply = await exchange()
    assert.ok([400, 404].includes(reply.status), `${reply.status} ${JSON.stringify(reply.body)}`)
  })

test('auth: an ended session cannot link an identity', async () => {
  const made = await quick.signUp(address())
  const path = '/user/identities/authorize?provider=github&skip_http_redirect=true'
  const begun = await quick.asUser(made.access_token, 'GET', path)
  assert.equal(begun.status, 200, JSON.stringify(begun.body))
  await quick.asUser(made.access_token, 'POST', '/logout')
  assert.deepEqual(
    await look(`select from auth.flow_state where linking_user_id = '${made.user.id}'`, quick),
    [],
  )
})

// A second factor

/** Enrols a factor and returns the access token of the session at aal2. */
async function passSecondFactor(token: string): Promise<string> {
  const { body: factor } = await quick.asUser(token, 'POST', '/factors', { factor_type: 'totp' })
  const path = `/factors/${factor.id}`
  const { body: challenge } = await quick.asUser(token, 'POST', `${path}/challenge`, {})
  const code = totpCode(factor.totp.secret, Math.floor(Date.now() / 30_000))
  const answer = { challenge_id: challenge.id, code }
  const passed = await quick.asUser(token, 'POST', `${path}/verify`, answer)
  assert.equal(passed.status, 200, JSON.stringify(passed.body))
  return passed.body.access_token
}

async function withSecondFactor() {
  const email = address()
  const made = await quick.signUp(email)
  const high = await passSecondFactor(made.access_token)
  const { access_token: low } = await signedIn(email, quick)
  return { id: made.user.id as string, low: low as string, high }
}

test('auth: linking and unlinking an identity needs the second factor', async () => {
  const { id, low, high } = await withSecondFactor()
  await look(
    `insert into auth.identities (user_id, provider, provider_id, identity_data)
     values ('${id}', 'github', '${unique()}', '{"email": "${address()}", "email_verified": true}')`,
    quick,
  )
  const path = '/user/identities/authorize?provider=github&skip_http_redirect=true'
  const added = await quick.asUser(low, 'GET', path)
  assert.equal(added.body.code, 'insufficient_aal', JSON.stringify(added.body))
  const { identities } = (await quick.asUser(low, 'GET', '/user')).body
  for (const { identity_id } of identities) {
    const removed = await quick.asUser(low, 'DELETE', `/user/identities/${identity_id}`)
    assert.equal(removed.body.code, 'insufficient_aal', JSON.stringify(removed.body))
  }
  assert.equal((await quick.asUser(high, 'GET', path)).status, 200)
})

test('auth: verifying a second factor ends sessions and pending flows without it', async () => {
  const email = address()
  const made = await quick.signUp(email)
  const thief = await signedIn(email, quick)
  const path = '/user/identities/authorize?provider=github&skip_http_redirect=true'
  assert.equal((await quick.asUser(thief.access_token, 'GET', path)).status, 200)
  await passSecondFactor(made.access_token)
  assert.equal((await quick.asUser(thief.access_token, 'GET', '/user')).status, 403)
  const left = await look(`select from auth.flow_state where linking_user_id = '${made.user.id}'`, quick)
  assert.deepEqual(left, [])
})

test('auth: a session without the second factor cannot test passwords', async () => {
  const { low } = await withSecondFactor()
  const answers = await Promise.all(
    [password, 'another one'].map(each => quick.asUser(low, 'PUT', '/user', { password: each })),
  )
  assert.deepEqual(
    answers.map(({ status, body }) => [status, body.code]),
    [
      [401, 'insufficient_aal'],
      [401, 'insufficient_aal'],
    ],
  )
})

// Metadata

test('auth: metadata too large for an access token is rejected, and the user can still sign in', async () => {
  const large = { text: 'x'.repeat(9000) }
  const email = address()
  const refused = await quick.auth('POST', '/signup', { email, password, data: large })
  assert.equal(refused.status, 422, JSON.stringify(refused.body))
  const made = await quick.signUp(email)
  for (const part of ['a', 'b', 'c', 'd'])
    await quick.asUser(made.access_token, 'PUT', '/user', { data: { [part]: 'x'.repeat(3000) } })
  const { access_token } = await signedIn(email, quick)
  const own = await quick.asUser(access_token, 'PUT', '/user', { data: { a: null } })
  assert.equal(own.status, 200, JSON.stringify(own.body))
  const asAdmin = { email: address(), user_metadata: large }
  assert.equal((await quick.asAdmin('POST', '/admin/users', asAdmin)).status, 422)
  const app = await quick.asAdmin('PUT', `/admin/users/${made.user.id}`, { app_metadata: large })
  assert.equal(app.status, 422)
  const aud = await quick.asAdmin('PUT', `/admin/users/${made.user.id}`, { aud: 'x'.repeat(4000) })
  assert.ok(aud.status === 400 || aud.status === 422, 'a large audience is rejected')
})

// Sessions

test('auth: a new session above the maximum ends the oldest', async () => {
  const email = address()
  const first = await quick.signUp(email)
  await look(
    `insert into auth.sessions (user_id, created_at)
     select '${first.user.id}', now() - make_interval(secs => n) from generate_series(1, 300) n`,
    quick,
  )
  await signedIn(email, quick)
  const [{ count }] = await look(
    `select count(*)::int from auth.sessions where user_id = '${first.user.id}'`,
    quick,
  )
  assert.ok(count <= 100, `${count} sessions`)
})

test('auth: project keys are invalid on the management plane, and management credentials on the data plane', async () => {
  const made = await quick.signUp(address())
  const keys = [quick.anon_key, quick.service_role_key, made.access_token, made.refresh_token]
  for (const path of ['users', 'auth', 'email/outbox', 'email/smtp', 'members', 'invites'])
    for (const token of keys) {
      const reply = await platform.call('GET', `/api/v1/projects/${quick.id}/${path}`, { token })
      assert.equal(reply.status, 401, path)
    }
  for (const path of ['/admin/users', '/user', '/settings'])
    for (const options of [{ apikey: platform.adminToken }, { token: platform.adminToken }])
      assert.equal((await quick.auth('GET', path, undefined, options)).status, 401, path)
})

test('auth: no secret of a user is in the log or the audit log', async () => {
  const project = await authProject(platform, {
    auto_confirm: false,
    providers: { github: { enabled: true, client_id: 'c', client_secret: 'github-secret-of-the-client' } },
  })
  const [email, secret] = [address(), `pass-${unique()}`]
  const secrets = new Set([secret, `old-${secret}`, 'github-secret-of-the-client', 'smtp-secret-of-the-mail'])
  const smtp = { host: '127.0.0.1', port: 9, username: 'u', password: 'smtp-secret-of-the-mail' }
  const { verifier, query } = newPkce()
  await project.auth('POST', '/signup', { email, password: secret, ...query })
  const note = async (to: string) => {
    const mail = await lastLink(platform, project.id, to)
    secrets.add(mail.token)
    return mail
  }
  const { link } = await note(email)
  const code = new URL((await follow(link)).headers.get('location')!).searchParams.get('code')!
  const exchanged = await project.auth('POST', '/token?grant_type=pkce', {
    auth_code: code,
    code_verifier: verifier,
  })
  for (const each of [code, verifier]) secrets.add(each)
  const { access_token, refresh_token } = exchanged.body
  assert.ok(access_token, JSON.stringify(exchanged.body))
  const refreshed = await project.auth('POST', '/token?grant_type=refresh_token', { refresh_token })
  for (const each of [access_token, refresh_token, refreshed.body.access_token, refreshed.body.refresh_token])
    secrets.add(each)
  const factor = await project.asUser(access_token, 'POST', '/factors', { factor_type: 'totp' })
  secrets.add(factor.body.totp.secret)
  await project.signIn(email, secret)
  await project.signIn(email, `${secret}\0`)
  await project.auth('POST', '/otp', { email })
  await note(email)
  await project.asUser(access_token, 'PUT', '/user', { password: `old-${secret}`, nonce: '123123' })
  await project.asAdmin('POST', '/admin/generate_link', { type: 'recovery', email })
  const manage = (method: string, path: string, body?: unknown) =>
    platform.call(method, `/api/v1/projects/${project.id}${path}`, {
      token: platform.adminToken,
      ...(body !== undefined && { body }),
    })
  await manage('PUT', '/email/smtp', smtp)
  await manage('POST', '/email/test', { to: email })
  await manage('GET', '/auth')
  // A body that is not JSON, and a database error within a flow.
  await platform.call('POST', `/v1/${project.id}/auth/v1/token?grant_type=password`, {
    apikey: project.anon_key,
    body: `{"email":"${email}","password":"${secret}"`,
  })
  await look('alter table auth.sessions rename to away', project)
  await project.signIn(email, `old-${secret}`)
  await project.auth('POST', '/token?grant_type=refresh_token', { refresh_token })
  await look('alter table auth.away rename to sessions', project)
  const audit = await platform.call('GET', '/api/v1/platform/audit?limit=500', { token: platform.adminToken })
  const logged = platform.logged.join('\n') + JSON.stringify(audit.body)
  assert.ok(logged.includes('SQLSTATE 42P01'), 'the failures were logged')
  for (const each of secrets) assert.ok(each && !logged.includes(each), `${each} is in the log`)
  assert.ok(!logged.includes(email), 'no address is in the log')
})
