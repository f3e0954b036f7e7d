// 1 §2.4 and §4.5: the six native routes, each in both shapes of the URL.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  assertTime,
  assertUser,
  authProject,
  authRoot,
  claimsOf,
  password,
  type Shape,
  siteUrl,
  someone,
  succeeded,
} from '../auth.ts'
import { type CreatedProject, createProject } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let other: CreatedProject
before(async () => {
  it = await target()
  auth = await authProject(it)
  other = await createProject(it)
})
after(() => it.stop())

const shapes: Shape[] = ['native', 'alias']

for (const shape of shapes) {
  test(`1 §4.5 sign-up takes e-mail and password and returns a session (${shape})`, async () => {
    const email = someone()
    const session = succeeded(await auth.post('/sign-up', { email, password }, { shape }))
    assertSession(session)
    assert.equal(session.user.email, email)
    assert.ok(session.user.email_confirmed_at)
    assert.deepEqual(await auth.kindsTo(email), ['welcome'])
    const again = await auth.post('/sign-up', { email, password }, { shape })
    assertAuthError(again, 422, 'user_already_exists', /^User already registered$/)
  })

  test(`1 §4.5 sign-in returns a full session with access_token (${shape})`, async () => {
    const me = await auth.signUp()
    const fields = { email: me.email, password: me.password }
    const session = succeeded(await auth.post('/sign-in', fields, { shape }))
    assertSession(session)
    assert.equal(session.user.id, me.id)
    const whoami = await it.call('GET', `/v1/whoami/${auth.project.id}`, {
      apikey: auth.project.anon_key,
      token: session.access_token,
    })
    assert.deepEqual([whoami.body.role, whoami.body.user_id], ['authenticated', me.id])
    succeeded(await auth.post('/token?grant_type=refresh_token', { refresh_token: session.refresh_token }))
  })

  test(`1 §4.5 sign-in gives the same error for a wrong password and an unknown address (${shape})`, async () => {
    const { email } = await auth.signUp()
    for (const fields of [
      { email, password: 'wrong password' },
      { email: someone(), password },
      { email, password: '' },
      { email },
      { email, password: password.toUpperCase() },
    ]) {
      const reply = await auth.post('/sign-in', fields, { shape })
      assertAuthError(reply, 400, 'invalid_credentials', /^Invalid login credentials$/)
    }
  })

  test(`1 §4.5 session returns the session and its user (${shape})`, async () => {
    const me = await auth.signUp()
    const { session, user } = succeeded(await auth.get('/session', { token: me.token, shape }))
    assertUser(user)
    assert.deepEqual([user.id, user.email], [me.id, me.email])
    assert.deepEqual([session.id, session.user_id], [me.sessionId, me.id])
    assertTime(session.created_at, 'created_at')
    assert.ok(!JSON.stringify({ session, user }).includes(me.refreshToken), 'no refresh token is shown')
    const second = await auth.signIn(me)
    const shown = succeeded(await auth.get('/session', { token: second.token, shape }))
    assert.equal(shown.session.id, second.sessionId)
  })

  test(`1 §4.5 sign-out ends the session and returns no body (${shape})`, async () => {
    const me = await auth.signUp()
    const reply = await auth.post('/sign-out', undefined, { token: me.token, shape })
    assert.deepEqual([reply.status, reply.text], [204, ''])
    for (const path of ['/session', '/user'])
      assertAuthError(await auth.get(path, { token: me.token, shape }), 403, 'session_not_found')
    const refresh = { refresh_token: me.refreshToken }
    assert.equal((await auth.post('/token?grant_type=refresh_token', refresh, { shape })).status, 400)
    assert.equal((await auth.signIn(me)).id, me.id)
  })

  test(`1 §4.5 session and sign-out need the JWT of a user (${shape})`, async () => {
    for (const [method, path] of [
      ['GET', '/session'],
      ['POST', '/sign-out'],
    ] as const) {
      assertAuthError(await auth.ask(method, path, { shape }), 401, 'no_authorization')
      const service = await auth.ask(method, path, { shape, as: 'service_role' })
      assertAuthError(service, 401, 'no_authorization')
      assertAuthError(await auth.ask(method, path, { shape, token: 'a.b.c' }), 401, 'bad_jwt')
    }
  })

  test(`1 §4.5 magic-link sends a link that signs in (${shape})`, async () => {
    const me = await auth.signUp()
    assert.deepEqual(succeeded(await auth.post('/magic-link', { email: me.email }, { shape })), {})
    const mail = await auth.mailTo(me.email, 'magic_link')
    const landing = await auth.follow(mail.link)
    assert.deepEqual([landing.status, landing.place], [303, siteUrl])
    const token = landing.fragment['access_token'] ?? ''
    assert.equal(claimsOf(token).sub, me.id)
    assert.equal(succeeded(await auth.get('/session', { token, shape })).user.id, me.id)
  })

  test(`1 §4.5 magic-link signs up an unknown address (${shape})`, async () => {
    const email = someone()
    assert.deepEqual(succeeded(await auth.post('/magic-link', { email }, { shape })), {})
    const { link } = await auth.mailTo(email, 'magic_link')
    const landing = await auth.follow(link)
    const token = landing.fragment['access_token'] ?? ''
    assert.equal(succeeded(await auth.get('/session', { token, shape })).user.email, email)
  })

  test(`1 §4.5 oauth/<provider> redirects to the provider and needs no header (${shape})`, async () => {
    const authorize_url = 'https://idp.example.test/authorize'
    const provider = { provider: 'github', client_id: 'our-client', client_secret: 'hush', authorize_url }
    succeeded(await it.manage('PUT', `/projects/${auth.project.id}/auth/providers`, provider))
    const path = `${authRoot(auth.project, shape)}/oauth/github`
    const reply = await it.call('GET', `${path}?redirect_to=${encodeURIComponent(siteUrl)}&scopes=gist`)
    assert.equal(reply.status, 302, reply.text)
    const to = new URL(reply.headers.get('location') ?? '')
    assert.equal(to.origin + to.pathname, authorize_url)
    assert.equal(to.searchParams.get('client_id'), 'our-client')
    assert.equal(to.searchParams.get('response_type'), 'code')
    assert.match(to.searchParams.get('state') ?? '', /^[\w.-]{20,}$/)
    assert.match(to.searchParams.get('redirect_uri') ?? '', /\/callback$/)
    assert.match(to.searchParams.get('scope') ?? '', /\bgist\b/)
    assert.ok(!reply.headers.get('location')?.includes('hush'))
    const twin = await it.call('GET', path)
    assert.notEqual(
      new URL(twin.headers.get('location') ?? '').searchParams.get('state'),
      to.searchParams.get('state'),
    )
  })

  test(`auth contract §8: oauth of an unknown or disabled provider is 400, not a redirect (${shape})`, async () => {
    for (const provider of ['google', 'nosuch', 'GitHub', 'github\u0000', '../user']) {
      const reply = await auth.get(`/oauth/${encodeURIComponent(provider)}`, { as: 'nobody', shape })
      assert.equal(reply.headers.get('location'), null)
      assert.ok([400, 404].includes(reply.status), `${provider}: ${reply.status} ${reply.text}`)
    }
    assertAuthError(await auth.get('/oauth/google', { as: 'nobody', shape }), 400, 'validation_failed')
    assertAuthError(await auth.get('/oauth/nosuch', { as: 'nobody', shape }), 400, 'validation_failed')
  })

  test(`1 §5.1 without a key of the project the routes are 401 (${shape})`, async () => {
    const me = await auth.signUp()
    for (const [method, path, body] of [
      ['POST', '/sign-up', { email: someone(), password }],
      ['POST', '/sign-in', { email: me.email, password }],
      ['POST', '/magic-link', { email: me.email }],
      ['POST', '/sign-out', undefined],
      ['GET', '/session', undefined],
    ] as const)
      for (const credentials of [
        {},
        { apikey: 'wrong' },
        { apikey: other.anon_key },
        { apikey: other.anon_key, token: me.token },
        { token: me.token },
      ]) {
        const reply = await it.call(method, authRoot(auth.project, shape) + path, { ...credentials, body })
        assert.equal(reply.status, 401, `${path}: ${reply.status} ${reply.text}`)
      }
    assert.deepEqual(await auth.kindsTo(me.email), ['welcome'])
  })
}

test('1 §4.5 native sign-up without auto_confirm returns only the user', async () => {
  const confirming = await authProject(it, { auto_confirm: false })
  const email = someone()
  const user = succeeded(await confirming.post('/sign-up', { email, password }, { shape: 'native' }))
  assertUser(user)
  const refused = await confirming.post('/sign-in', { email, password }, { shape: 'native' })
  assertAuthError(refused, 400, 'email_not_confirmed', /^Email not confirmed$/)
  const mail = await confirming.mailTo(email, 'verify_email')
  assert.equal((await confirming.follow(mail.link)).fragment['type'], 'signup')
  assertSession(succeeded(await confirming.post('/sign-in', { email, password }, { shape: 'native' })))
})

test('1 §1 a suspended project answers 403 on every auth route', async () => {
  const idle = await authProject(it)
  const me = await idle.signUp()
  succeeded(await it.manage('POST', `/projects/${idle.project.id}/suspend`))
  for (const [method, path, options] of [
    ['POST', '/sign-up', { body: { email: someone(), password } }],
    ['POST', '/sign-in', { body: { email: me.email, password } }],
    ['GET', '/session', { token: me.token }],
    ['GET', '/user', { token: me.token }],
    ['GET', '/admin/users', { as: 'service_role' }],
    ['GET', '/verify?token=x&type=signup', { as: 'nobody' }],
    ['GET', '/oauth/github', { as: 'nobody' }],
  ] as const)
    for (const shape of shapes) {
      const reply = await idle.ask(method, path, { ...options, shape })
      assert.equal(reply.status, 403, `${path} ${shape}: ${reply.status} ${reply.text}`)
    }
  succeeded(await it.manage('POST', `/projects/${idle.project.id}/resume`))
  assert.equal((await idle.signIn(me)).id, me.id)
})
