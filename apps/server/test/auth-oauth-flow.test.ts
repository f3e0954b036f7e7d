// The sign-in flow with a provider: redirects, the callback, and the exchange of codes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { GithubLike } from './github-like.ts'
import type { TestPlatform } from './harness.ts'
import type { IdentityProvider } from './identity-provider.ts'
import { type Mailbox, openMailbox } from './mailbox.ts'
import { oauthPlatform } from './oauth-platform.ts'
import { newPkce, type OauthStage, openOauthStage, site, someone } from './oauth-setup.ts'

const { stage, openidAccount, userOf, eventsOf } = oauthPlatform()
let platform: TestPlatform
let identity: IdentityProvider
let github: GithubLike
let mailbox: Mailbox
let setup: OauthStage
before(async () => {
  ;({ platform, identity, github, setup } = stage)
  mailbox = await openMailbox()
  await mailbox.servedBy(platform, setup.project.id)
})
after(() => mailbox?.stop())

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())

test('OAuth: authorize redirects with all parameters of the provider and no reserved ones of the application', async () => {
  const reply = await fetch(
    setup.url('authorize', {
      provider: 'google',
      redirect_to: `${site}/inside`,
      scopes: 'calendar,openid drive',
      login_hint: 'ada',
      access_type: 'offline',
      state: 'forged',
      redirect_uri: 'https://evil.example/',
      client_id: 'forged',
      response_mode: 'fragment',
      nonce: 'forged',
    }),
    { redirect: 'manual' },
  )
  assert.equal(reply.status, 302)
  const to = new URL(reply.headers.get('location')!)
  assert.equal(to.origin + to.pathname, identity.authorizeUrl)
  const { state, nonce, code_challenge, ...rest } = Object.fromEntries(to.searchParams)
  assert.deepEqual(rest, {
    client_id: setup.client.client_id,
    redirect_uri: setup.callback,
    response_type: 'code',
    scope: 'openid email profile calendar drive',
    login_hint: 'ada',
    access_type: 'offline',
    code_challenge_method: 'S256',
  })
  assert.match(state!, uuid)
  assert.match(code_challenge!, /^[\w-]{43}$/)
  assert.ok(nonce && nonce !== 'forged')
  const [flow] = await setup.rows(sql`select * from auth.flow_state where id = ${state}`)
  assert.match(flow.secrets, /^sealed:/)
  assert.equal(flow.redirect_to, `${site}/inside`)
})

test('OAuth: /oauth/<provider> does the same, and skip_http_redirect returns the URL as JSON', async () => {
  const native = `${platform.url}/v1/auth/${setup.project.id}/oauth/github?scopes=repo`
  const reply = await fetch(native, { redirect: 'manual' })
  assert.equal(reply.status, 302)
  const to = new URL(reply.headers.get('location')!)
  assert.equal(to.origin + to.pathname, github.github.authorize_url)
  assert.equal(to.searchParams.get('scope'), 'user:email repo')
  const asJson = await fetch(setup.url('authorize', { provider: 'github', skip_http_redirect: 'true' }))
  assert.equal(asJson.status, 200)
  const { url } = (await asJson.json()) as { url: string }
  assert.ok(url.startsWith(github.github.authorize_url))
})

test('OAuth: azure is an alias of microsoft', async () => {
  const reply = await fetch(setup.url('authorize', { provider: 'azure' }), { redirect: 'manual' })
  assert.equal(reply.status, 302)
})

test('OAuth: an unknown or disabled provider and an incomplete challenge are 400 without a redirect', async () => {
  const other = await openOauthStage(platform, identity, github, {
    providers: { google: { client_id: 'x', client_secret: 'y', enabled: false }, github: { enabled: true } },
  })
  const attempts: [OauthStage, Record<string, string>][] = [
    [other, { provider: 'google' }],
    [other, { provider: 'github' }],
    [other, { provider: 'discord' }],
    [setup, { provider: 'constructor' }],
    [setup, { provider: '' }],
    [setup, {}],
    [setup, { provider: 'google', code_challenge: 'x'.repeat(43) }],
    [setup, { provider: 'google', code_challenge: 'short', code_challenge_method: 's256' }],
  ]
  for (const [at, query] of attempts) {
    const reply = await fetch(at.url('authorize', query), { redirect: 'manual' })
    assert.equal(reply.status, 400, JSON.stringify(query))
    assert.equal(((await reply.json()) as { error_code: string }).error_code, 'validation_failed')
  }
})

test('OAuth: GET /settings lists the enabled providers', async () => {
  const other = await openOauthStage(platform, identity, github, {
    providers: { discord: { client_id: 'x', client_secret: 'y', enabled: true } },
  })
  const { body } = await other.call('GET', 'settings')
  assert.equal(body.external.discord, true)
  assert.equal(body.external.github, false)
})

test('OAuth: a first sign-in returns a session in the fragment and creates a user with the claims', async () => {
  const { name, account } = openidAccount({ picture: 'https://example.com/ada.png' })
  const landing = await setup.signIn('google', name, { query: { redirect_to: `${site}?keep=this#drop` } })
  assert.equal(landing.place, site)
  assert.deepEqual(landing.query, { keep: 'this' })
  assert.deepEqual(Object.keys(landing.fragment), [
    'access_token',
    'expires_at',
    'expires_in',
    'provider_refresh_token',
    'provider_token',
    'refresh_token',
    'sb',
    'token_type',
  ])
  const user = await userOf(landing)
  assert.equal(user.email, account.email)
  assert.ok(user.email_confirmed_at)
  assert.deepEqual(user.app_metadata, { provider: 'google', providers: ['google'] })
  assert.deepEqual(user.user_metadata, {
    iss: identity.issuer,
    sub: account.sub,
    provider_id: account.sub,
    email: account.email,
    email_verified: true,
    phone_verified: false,
    name: 'Ada Lovelace',
    full_name: 'Ada Lovelace',
    picture: 'https://example.com/ada.png',
    avatar_url: 'https://example.com/ada.png',
  })
  assert.equal(user.identities.length, 1)
  assert.equal(user.identities[0].id, account.sub)
  assert.deepEqual(user.identities[0].identity_data, user.user_metadata)
  const { amr, aal } = claimsOf(landing.fragment['access_token']!)
  assert.deepEqual([amr[0].method, aal], ['oauth', 'aal1'])
  assert.deepEqual(await eventsOf(user.id), ['user.created', 'user.signed_in'])
})

test('OAuth: with a challenge the callback returns a code that works once with its verifier', async () => {
  const { name, account } = openidAccount()
  const { verifier, query } = newPkce()
  const landing = await setup.signIn('google', name, { query: { ...query, redirect_to: `${site}?a=b` } })
  assert.deepEqual(landing.fragment, {})
  const { code, ...kept } = landing.query
  assert.deepEqual(kept, { a: 'b' })
  assert.match(code!, uuid)
  const [flow] = await setup.rows(sql`
    select auth_code_hash, secrets from auth.flow_state f join auth.users u on u.id = f.user_id
     where u.email = ${account.email}`)
  assert.ok(!flow.auth_code_hash.includes(code) && /^sealed:/.test(flow.secrets))

  const exchange = (body: object) => setup.call('POST', 'token?grant_type=pkce', { body })
  const refusals: [object, number, string][] = [
    [{ auth_code: code, code_verifier: '' }, 400, 'validation_failed'],
    [{ auth_code: code }, 400, 'validation_failed'],
    [{ code_verifier: verifier }, 400, 'validation_failed'],
    [{ auth_code: 'nonsense', code_verifier: verifier }, 404, 'flow_state_not_found'],
    [{ auth_code: code, code_verifier: newPkce().verifier }, 400, 'bad_code_verifier'],
    [{ auth_code: code, code_verifier: query.code_challenge }, 400, 'bad_code_verifier'],
  ]
  for (const [body, status, wanted] of refusals) {
    const reply = await exchange(body)
    assert.deepEqual([reply.status, reply.body.error_code], [status, wanted], JSON.stringify(body))
  }
  const attempts = await Promise.all(
    Array.from({ length: 4 }, () => exchange({ auth_code: code, code_verifier: verifier })),
  )
  assert.deepEqual(attempts.map(({ status }) => status).sort(), [200, 404, 404, 404])
  const { body } = attempts.find(({ status }) => status === 200)!
  assert.equal(body.user.email, account.email)
  assert.ok(body.access_token && body.refresh_token && body.provider_token && body.provider_refresh_token)
  const gone = await exchange({ auth_code: code, code_verifier: verifier })
  assert.deepEqual([gone.status, gone.body.error_code], [404, 'flow_state_not_found'])
})

test('OAuth: a code expires after five minutes', async () => {
  const { name } = openidAccount()
  const { verifier, query } = newPkce()
  const { code } = (await setup.signIn('google', name, { query })).query
  await setup.rows(sql`update auth.flow_state set expires_at = now() - interval '1 second'`)
  const body = { auth_code: code, code_verifier: verifier }
  const reply = await setup.call('POST', 'token?grant_type=pkce', { body })
  assert.deepEqual([reply.status, reply.body.error_code], [422, 'flow_state_expired'])
})

test('OAuth: codes from mail links and from providers use the same exchange', async () => {
  const { email } = someone()
  const { verifier, query } = newPkce()
  const body = { email, create_user: true, ...query }
  assert.equal((await setup.call('POST', 'otp', { body })).status, 200)
  const [flow] = await setup.rows(sql`
    select f.id from auth.flow_state f join auth.users u on u.id = f.user_id where u.email = ${email}`)
  const { link: followed } = await mailbox.nextLink(email)
  const reply = await fetch(followed, { redirect: 'manual' })
  assert.equal(reply.status, 303, await reply.text())
  const code = new URL(reply.headers.get('location')!).searchParams.get('code')
  const exchange = { auth_code: code, code_verifier: verifier }
  const { status, body: session } = await setup.call('POST', 'token?grant_type=pkce', { body: exchange })
  assert.equal(status, 200, JSON.stringify(session))
  assert.equal(session.user.email, email)
  assert.equal(session.provider_token, undefined)
  assert.deepEqual(await setup.rows(sql`select from auth.flow_state where id = ${flow.id}`), [])
})

test('OAuth: a prefetch does not consume the state', async () => {
  const { name } = openidAccount()
  const answer = await setup.answerOf('google', name)
  const head = await fetch(answer, { method: 'HEAD', redirect: 'manual' })
  const prefetch = await fetch(answer, { redirect: 'manual', headers: { 'sec-purpose': 'prefetch' } })
  assert.deepEqual([head.status, prefetch.status], [204, 204])
  await userOf(await setup.deliver(answer))
})

test('OAuth: the client secret is sealed in the settings and never shown', async () => {
  const { id } = setup.project
  const [row] = await platform.app.control.rows<{ settings: unknown }>(
    sql`select settings from projects where id = ${id}`,
  )
  assert.ok(!JSON.stringify(row).includes(setup.client.client_secret))
  const shown = await platform.projects.read({ params: { id } })
  assert.ok(!JSON.stringify(shown).includes(setup.client.client_secret))
})
