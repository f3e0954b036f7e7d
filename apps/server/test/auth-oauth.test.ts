// Signing in with providers: a real OpenID provider stands for Google, Apple and Microsoft, and a server that answers
// as they do for GitHub and Discord.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type GithubLike, startGithubLike } from './github-like.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts'
import { type Mailbox, openMailbox } from './mailbox.ts'
import { type Landing, newPkce, type OauthStage, openOauthStage, site, someone } from './oauth-stage.ts'

const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8',
}
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

let platform: TestPlatform
let identity: IdentityProvider
let github: GithubLike
let mailbox: Mailbox
let stage: OauthStage

before(async () => {
  ;[platform, identity, github, mailbox] = await Promise.all([
    startPlatform({ settings: unlimited }),
    startIdentityProvider(),
    startGithubLike(),
    openMailbox(),
  ])
  stage = await openOauthStage(platform, identity, github)
  await mailbox.servedBy(platform, stage.project.id)
})
after(async () => {
  await platform?.stop()
  await identity?.close()
  await github?.close()
  await mailbox?.stop()
})

/** An account at the OpenID provider. */
function openidAccount(claims: object = {}) {
  const { name, email } = someone()
  const account = { sub: `sub-${name}`, email, email_verified: true, name: 'Ada Lovelace', ...claims }
  identity.accounts.set(name, account)
  return { name, account }
}
function githubAccount(claims: object = {}) {
  const { name, email, number } = someone('octo')
  const account = {
    id: number,
    login: name,
    name: 'Octo Cat',
    avatar_url: 'https://example.com/cat.png',
    email: null,
    emails: [
      { email: `second-${email}`, primary: false, verified: true },
      { email, primary: true, verified: true },
    ],
    ...claims,
  }
  github.githubAccounts.set(name, account)
  return { name, account, email }
}

const userOf = async ({ fragment }: Landing, at: OauthStage = stage) => {
  assert.ok(fragment['access_token'], JSON.stringify(fragment))
  const { status, body } = await at.call('GET', 'user', { token: fragment['access_token'] })
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())
const eventsOf = (userId: string) =>
  stage
    .rows<{ type: string }>(sql`select type from auth.events where user_id = ${userId} order by created_at`)
    .then(events => events.map(({ type }) => type))

test('a browser is led to the provider with everything the provider needs, and nothing it must not have', async () => {
  const reply = await fetch(
    stage.url('authorize', {
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
    client_id: stage.client.client_id,
    redirect_uri: stage.callback,
    response_type: 'code',
    scope: 'openid email profile calendar drive',
    login_hint: 'ada',
    access_type: 'offline',
    code_challenge_method: 'S256',
  })
  assert.match(state!, uuid)
  assert.match(code_challenge!, /^[\w-]{43}$/)
  assert.ok(nonce && nonce !== 'forged')
  const [flow] = await stage.rows(sql`select * from auth.flow_state where id = ${state}`)
  assert.match(flow.secrets, /^sealed:/)
  assert.equal(flow.redirect_to, `${site}/inside`)
})

test('the platform’s own address does the same, and a client may ask for the address instead of going there', async () => {
  const native = `${platform.url}/v1/auth/${stage.project.id}/oauth/github?scopes=repo`
  const reply = await fetch(native, { redirect: 'manual' })
  assert.equal(reply.status, 302)
  const to = new URL(reply.headers.get('location')!)
  assert.equal(to.origin + to.pathname, github.github.authorize_url)
  assert.equal(to.searchParams.get('scope'), 'user:email repo')
  const asked = await fetch(stage.url('authorize', { provider: 'github', skip_http_redirect: 'true' }))
  assert.equal(asked.status, 200)
  const { url } = (await asked.json()) as { url: string }
  assert.ok(url.startsWith(github.github.authorize_url))
})

test('the client’s name for Microsoft is known', async () => {
  const reply = await fetch(stage.url('authorize', { provider: 'azure' }), { redirect: 'manual' })
  assert.equal(reply.status, 302)
})

test('an unknown provider, one that is switched off and half a challenge are 400 without a redirect', async () => {
  const other = await openOauthStage(platform, identity, github, {
    providers: { google: { client_id: 'x', client_secret: 'y', enabled: false }, github: { enabled: true } },
  })
  const attempts: [OauthStage, Record<string, string>][] = [
    [other, { provider: 'google' }],
    [other, { provider: 'github' }],
    [other, { provider: 'discord' }],
    [stage, { provider: 'constructor' }],
    [stage, { provider: '' }],
    [stage, {}],
    [stage, { provider: 'google', code_challenge: 'x'.repeat(43) }],
    [stage, { provider: 'google', code_challenge: 'short', code_challenge_method: 's256' }],
  ]
  for (const [at, query] of attempts) {
    const reply = await fetch(at.url('authorize', query), { redirect: 'manual' })
    assert.equal(reply.status, 400, JSON.stringify(query))
    assert.equal(((await reply.json()) as { error_code: string }).error_code, 'validation_failed')
  }
})

test('settings tell which providers are on', async () => {
  const other = await openOauthStage(platform, identity, github, {
    providers: { discord: { client_id: 'x', client_secret: 'y', enabled: true } },
  })
  const { body } = await other.call('GET', 'settings')
  assert.equal(body.external.discord, true)
  assert.equal(body.external.github, false)
})

test('a newcomer comes back with a session in the fragment, and is a user with all the provider tells', async () => {
  const { name, account } = openidAccount({ picture: 'https://example.com/ada.png' })
  const landing = await stage.signIn('google', name, { query: { redirect_to: `${site}?keep=this#drop` } })
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

test('whoever comes again is the same user, whatever address the provider tells now', async () => {
  const { name, account } = openidAccount()
  const first = await userOf(await stage.signIn('google', name))
  identity.accounts.set(name, { ...account, email: someone().email, name: 'Ada King' })
  const second = await userOf(await stage.signIn('google', name))
  assert.equal(second.id, first.id)
  assert.equal(second.email, first.email)
  assert.equal(second.user_metadata.full_name, 'Ada King')
  assert.equal(second.identities.length, 1)
})

test('with a challenge a code comes back, good once, for whoever kept the verifier', async () => {
  const { name, account } = openidAccount()
  const { verifier, query } = newPkce()
  const landing = await stage.signIn('google', name, { query: { ...query, redirect_to: `${site}?a=b` } })
  assert.deepEqual(landing.fragment, {})
  const { code, ...kept } = landing.query
  assert.deepEqual(kept, { a: 'b' })
  assert.match(code!, uuid)
  const [flow] = await stage.rows(sql`
    select auth_code_hash, secrets from auth.flow_state f join auth.users u on u.id = f.user_id
     where u.email = ${account.email}`)
  assert.ok(!flow.auth_code_hash.includes(code) && /^sealed:/.test(flow.secrets))

  const exchange = (body: object) => stage.call('POST', 'token?grant_type=pkce', { body })
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

test('a code is good for five minutes', async () => {
  const { name } = openidAccount()
  const { verifier, query } = newPkce()
  const { code } = (await stage.signIn('google', name, { query })).query
  await stage.rows(sql`update auth.flow_state set expires_at = now() - interval '1 second'`)
  const body = { auth_code: code, code_verifier: verifier }
  const reply = await stage.call('POST', 'token?grant_type=pkce', { body })
  assert.deepEqual([reply.status, reply.body.error_code], [422, 'flow_state_expired'])
})

test('claims that are told at the userinfo endpoint alone are asked for there', async () => {
  const shy = await startIdentityProvider({ claimsIn: 'userinfo' })
  try {
    const there = await openOauthStage(platform, shy, github)
    const user = await userOf(await there.signIn('google', 'alice'), there)
    assert.equal(user.email, 'alice@example.com')
    assert.ok(user.email_confirmed_at)
  } finally {
    await shy.close()
  }
})

test('endpoints that are set win over what the issuer publishes', async () => {
  const { name } = openidAccount()
  await stage.configureProvider('google', { token_url: `${github.url}/nothing-here` })
  const { fragment } = await stage.signIn('google', name)
  await stage.configureProvider('google', { token_url: identity.tokenUrl })
  assert.equal(fragment['error_code'], 'bad_oauth_callback')
  await userOf(await stage.signIn('google', name))
})

test('Apple answers by a form, and tells the name beside it the first time', async () => {
  const { name, account } = openidAccount({ name: undefined })
  const user = JSON.stringify({ name: { firstName: 'Ada', lastName: 'King' }, email: 'mallory@example.com' })
  const first = await userOf(await stage.signIn('apple', name, { fields: { user } }))
  assert.equal(first.email, account.email)
  assert.equal(first.user_metadata.full_name, 'Ada King')
  const second = await userOf(await stage.signIn('apple', name))
  assert.equal(second.id, first.id)
  assert.equal(second.user_metadata.full_name, 'Ada King')
})

test('GitHub is asked for the verified addresses, and its number is the identity', async () => {
  const { name, account, email } = githubAccount()
  const user = await userOf(await stage.signIn('github', name))
  assert.equal(user.email, email)
  assert.ok(user.email_confirmed_at)
  assert.equal(user.identities[0].id, String(account.id))
  assert.deepEqual(user.user_metadata, {
    iss: 'https://api.github.com',
    sub: String(account.id),
    provider_id: String(account.id),
    email,
    email_verified: true,
    phone_verified: false,
    name: 'Octo Cat',
    full_name: 'Octo Cat',
    preferred_username: name,
    user_name: name,
    picture: 'https://example.com/cat.png',
    avatar_url: 'https://example.com/cat.png',
  })
})

test('a token endpoint may answer with a form', async () => {
  const { name } = githubAccount()
  github.answersForms = true
  try {
    await userOf(await stage.signIn('github', name))
  } finally {
    github.answersForms = false
  }
})

test('Discord says itself whether the address is verified', async () => {
  const { name, email, number } = someone('wump')
  github.discordAccounts.set(name, {
    id: String(number),
    username: name,
    global_name: 'Wumpus',
    avatar: 'a_0123',
    email,
    verified: true,
  })
  const user = await userOf(await stage.signIn('discord', name))
  assert.equal(user.email, email)
  assert.ok(user.email_confirmed_at)
  assert.equal(user.user_metadata.full_name, 'Wumpus')
  assert.equal(user.user_metadata.avatar_url, `https://cdn.discordapp.com/avatars/${number}/a_0123.png`)
  assert.deepEqual(user.user_metadata.custom_claims, { global_name: 'Wumpus' })
})

test('a verified address leads to the user who has proven it, with one more identity', async () => {
  const { email } = someone()
  const body = { email, password: 'correct horse battery', email_confirm: true }
  const made = await stage.call('POST', 'admin/users', { apikey: stage.project.service_role_key, body })
  assert.equal(made.status, 200, JSON.stringify(made.body))
  const { name } = openidAccount({ email: email.toUpperCase() })
  const user = await userOf(await stage.signIn('google', name))
  assert.equal(user.id, made.body.id)
  assert.deepEqual(user.app_metadata.providers, ['email', 'google'])
  assert.equal(user.app_metadata.provider, 'email')
  const signIn = await stage.call('POST', 'token?grant_type=password', { body })
  assert.equal(signIn.status, 200, 'the password is still theirs')
})

test('two providers that vouch for one address lead to one user', async () => {
  const { name, email } = githubAccount()
  const { name: other } = openidAccount({ email })
  const first = await userOf(await stage.signIn('github', name))
  const second = await userOf(await stage.signIn('google', other))
  assert.equal(second.id, first.id)
  assert.deepEqual(second.app_metadata.providers, ['github', 'google'])
})

test('many browsers of one newcomer at once make one user', async () => {
  const { name, account } = openidAccount()
  const answers = await Promise.all(Array.from({ length: 5 }, () => stage.answerOf('google', name)))
  const landings = await Promise.all(answers.map(answer => stage.deliver(answer)))
  const users = await Promise.all(landings.map(landing => userOf(landing)))
  assert.equal(new Set(users.map(({ id }) => id)).size, 1)
  const rows = await stage.rows(sql`select from auth.users where email = ${account.email}`)
  assert.equal(rows.length, 1)
})

test('where addresses are verified by mail, one that the provider does not vouch for waits for that', async () => {
  const careful = await openOauthStage(platform, identity, github, { auto_confirm: false })
  await mailbox.servedBy(platform, careful.project.id)
  const { name, account } = openidAccount({ email_verified: false })
  const first = await careful.signIn('google', name)
  for (const told of [first.query, first.fragment]) assert.equal(told['error_code'], 'email_not_confirmed')
  assert.equal((await careful.counts()).sessions, 0)
  const [user] = await careful.rows(sql`select * from auth.users where email = ${account.email}`)
  assert.equal(user.email_confirmed_at, null)
  assert.ok(user.confirmation_sent_at)
  const { link: followed } = await mailbox.nextLink(account.email)
  assert.equal((await fetch(followed, { redirect: 'manual' })).status, 303)
  assert.equal((await userOf(await careful.signIn('google', name), careful)).id, user.id)
  const { name: elsewhere } = githubAccount({
    emails: [{ email: account.email, primary: true, verified: true }],
  })
  const joined = await userOf(await careful.signIn('github', elsewhere), careful)
  assert.deepEqual([joined.id, joined.app_metadata.providers], [user.id, ['google', 'github']])

  // Nor does anybody wait once the provider has made up its mind.
  const { name: other, account: late } = openidAccount({ email_verified: false })
  assert.equal((await careful.signIn('google', other)).fragment['error_code'], 'email_not_confirmed')
  identity.accounts.set(other, { ...late, email_verified: true })
  assert.ok((await userOf(await careful.signIn('google', other), careful)).email_confirmed_at)
})

test('a newcomer is welcomed by mail, once', async () => {
  const { name, account } = openidAccount()
  await stage.signIn('google', name)
  await stage.signIn('google', name)
  const { subject } = await mailbox.next(account.email)
  assert.match(subject, /welcome/i)
  // Mail goes out in turn: when the next newcomer's is there, a second one to the first would be, too.
  const { name: next, account: other } = openidAccount()
  await stage.signIn('google', next)
  await mailbox.next(other.email)
  assert.deepEqual(mailbox.waiting(account.email), [])
})

test('a link in a mail and a provider share one way to exchange a code', async () => {
  const { email } = someone()
  const { verifier, query } = newPkce()
  const body = { email, create_user: true, ...query }
  assert.equal((await stage.call('POST', 'otp', { body })).status, 200)
  const [flow] = await stage.rows(sql`
    select f.id from auth.flow_state f join auth.users u on u.id = f.user_id where u.email = ${email}`)
  const { link: followed } = await mailbox.nextLink(email)
  const reply = await fetch(followed, { redirect: 'manual' })
  assert.equal(reply.status, 303, await reply.text())
  const code = new URL(reply.headers.get('location')!).searchParams.get('code')
  const exchange = { auth_code: code, code_verifier: verifier }
  const { status, body: session } = await stage.call('POST', 'token?grant_type=pkce', { body: exchange })
  assert.equal(status, 200, JSON.stringify(session))
  assert.equal(session.user.email, email)
  assert.equal(session.provider_token, undefined)
  assert.deepEqual(await stage.rows(sql`select from auth.flow_state where id = ${flow.id}`), [])
})

test('a look ahead uses nothing up', async () => {
  const { name } = openidAccount()
  const answer = await stage.answerOf('google', name)
  const head = await fetch(answer, { method: 'HEAD', redirect: 'manual' })
  const prefetch = await fetch(answer, { redirect: 'manual', headers: { 'sec-purpose': 'prefetch' } })
  assert.deepEqual([head.status, prefetch.status], [204, 204])
  await userOf(await stage.deliver(answer))
})

const signedUp = async (email = someone().email) => {
  const body = { email, password: 'correct horse battery' }
  const { body: session } = await stage.call('POST', 'signup', { body })
  return session as { access_token: string; user: { id: string; email: string; identities: any[] } }
}
const linkUrl = async (token: string, query: Record<string, string>) => {
  const path = `user/identities/authorize?${new URLSearchParams({ skip_http_redirect: 'true', ...query })}`
  const { status, body } = await stage.call('GET', path, { token })
  assert.equal(status, 200, JSON.stringify(body))
  return body.url as string
}
const link = async (token: string, provider: string, account: string) => {
  const { url } = await identity.browse(await linkUrl(token, { provider }), {
    account,
    within: [platform.url, github.url],
  })
  return Object.fromEntries(new URLSearchParams(url.hash.slice(1)))
}

test('a signed-in user adds an identity and removes one, but never the last', async () => {
  const { access_token: token, user } = await signedUp()
  const { name, account } = openidAccount()
  const fragment = await link(token, 'google', name)
  const linked = await userOf({ place: site, query: {}, fragment })
  assert.equal(linked.id, user.id)
  assert.equal(linked.email, user.email)
  assert.deepEqual(linked.app_metadata, { provider: 'email', providers: ['email', 'google'] })
  const again = await link(token, 'google', name)
  assert.equal(again['error_code'], 'identity_already_exists')

  const [mail, google] = linked.identities
  const remove = (id: string) => stage.call('DELETE', `user/identities/${id}`, { token })
  // Without the address it signed up with, the user has the one that is left.
  assert.equal((await remove(mail.identity_id)).status, 200)
  const left = (await stage.call('GET', 'user', { token })).body
  assert.equal(left.email, account.email)
  assert.deepEqual(left.app_metadata, { provider: 'google', providers: ['google'] })
  const body = { email: account.email, password: 'correct horse battery' }
  assert.equal((await stage.call('POST', 'token?grant_type=password', { body })).status, 400)
  const last = await remove(google.identity_id)
  assert.deepEqual([last.status, last.body.error_code], [422, 'single_identity_not_deletable'])
  const unknown = await remove(mail.identity_id)
  assert.deepEqual([unknown.status, unknown.body.error_code], [422, 'identity_not_found'])
  assert.deepEqual(await eventsOf(user.id), [
    'user.created',
    'user.signed_in',
    'user.updated',
    'user.signed_in',
    'user.updated',
  ])
})

test('an identity stays when its user would be left with an address that another user has', async () => {
  const { access_token: token } = await signedUp()
  const { name, account } = openidAccount()
  const linked = await userOf({ place: site, query: {}, fragment: await link(token, 'google', name) })
  await signedUp(account.email)
  const mail = linked.identities.find(({ provider }: { provider: string }) => provider === 'email')
  const { status, body } = await stage.call('DELETE', `user/identities/${mail.identity_id}`, { token })
  assert.deepEqual([status, body.error_code], [422, 'email_conflict_identity_not_deletable'])
})

test('somebody anonymous who adds an identity is not anonymous any more', async () => {
  const { body: session } = await stage.call('POST', 'signup', { body: {} })
  const { name, account } = openidAccount()
  const fragment = await link(session.access_token, 'google', name)
  const user = await userOf({ place: site, query: {}, fragment })
  assert.deepEqual([user.id, user.is_anonymous, user.email], [session.user.id, false, account.email])
  assert.ok(user.email_confirmed_at)
})

test('an ID token signs in, with the nonce its application kept and for any of the project’s clients', async () => {
  const native = await identity.register('http://native.example/callback')
  const client_id = `${stage.client.client_id}, ${native.client_id}`
  await stage.configureProvider('google', { client_id })
  const { name, account } = openidAccount()
  const nonce = randomBytes(16).toString('hex')
  const hashed = createHash('sha256').update(nonce).digest('hex')
  const { id_token, access_token } = await identity.tokens(
    native,
    'http://native.example/callback',
    name,
    hashed,
  )
  const body = { provider: 'google', id_token, access_token, nonce }
  const { status, body: session } = await stage.call('POST', 'token?grant_type=id_token', { body })
  assert.equal(status, 200, JSON.stringify(session))
  assert.equal(session.user.email, account.email)
  assert.equal(session.user.identities[0].id, account.sub)
  // The first of them is the one whose name goes to the provider.
  const landing = await stage.signIn('google', name)
  await stage.configureProvider('google', { client_id: stage.client.client_id })
  assert.equal((await userOf(landing)).id, session.user.id)
})

test('an ID token adds an identity for whoever is signed in', async () => {
  const { access_token: token, user } = await signedUp()
  const { name } = openidAccount()
  const { id_token } = await identity.tokens(stage.client, stage.callback, name)
  const body = { provider: 'google', id_token, link_identity: true }
  const stranger = await stage.call('POST', 'token?grant_type=id_token', { body })
  assert.deepEqual([stranger.status, stranger.body.error_code], [401, 'no_authorization'])
  const { status, body: session } = await stage.call('POST', 'token?grant_type=id_token', { body, token })
  assert.equal(status, 200, JSON.stringify(session))
  assert.equal(session.user.id, user.id)
  assert.equal(session.user.identities.length, 2)
})

test('the secret of a client is sealed in the settings and never shown', async () => {
  const { id } = stage.project
  const [row] = await platform.app.control.rows<{ settings: unknown }>(
    sql`select settings from projects where id = ${id}`,
  )
  assert.ok(!JSON.stringify(row).includes(stage.client.client_secret))
  const shown = await platform.projects.read({ params: { id } })
  assert.ok(!JSON.stringify(shown).includes(stage.client.client_secret))
})
