// Sign-in with providers under attack (faults-and-attacks 20; GHSA-5hvv-9cqv-894r, GHSA-9wqv-qhrh-87f4,
// CVE-2026-44166, CVE-2024-38351): whatever a provider or a browser does, nobody becomes somebody else.
import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type GithubLike, type Misbehaviour, startGithubLike } from './github-like.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts'
import { type Landing, newPkce, type OauthStage, openOauthStage, site, someone } from './oauth-stage.ts'

const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8',
}
const password = 'correct horse battery'

let platform: TestPlatform
let identity: IdentityProvider
let github: GithubLike
let stage: OauthStage
let careful: OauthStage

before(async () => {
  ;[platform, identity, github] = await Promise.all([
    startPlatform({ settings: unlimited }),
    startIdentityProvider(),
    startGithubLike(),
  ])
  stage = await openOauthStage(platform, identity, github)
  careful = await openOauthStage(platform, identity, github, { auto_confirm: false })
})
after(async () => {
  await platform?.stop()
  await identity?.close()
  await github?.close()
})

let counted: Awaited<ReturnType<OauthStage['counts']>>
beforeEach(async () => {
  counted = await stage.counts()
})
afterEach(() => {
  github.misbehave.clear()
  github.asked.length = 0
})

/** Nobody was signed in, made or linked, and the application is told so in both places. */
async function assertNothing(landing: Landing, code: string, at: OauthStage = stage, before = counted) {
  assert.equal(landing.place, site)
  for (const told of [landing.query, landing.fragment]) {
    assert.equal(told['error_code'], code, JSON.stringify(told))
    assert.ok(told['error'] && told['error_description'])
    assert.ok(!('access_token' in told) && !('code' in told) && !('provider_token' in told))
  }
  assert.deepEqual(await at.counts(), before)
}

const openid = (name: string, claims: object) =>
  identity.accounts.set(name, { sub: `sub-${name}`, ...claims })
const verifiedOnGithub = (name: string, email: string, id: unknown) =>
  github.githubAccounts.set(name, { id, login: name, emails: [{ email, primary: true, verified: true }] })

const misbehaviours: Misbehaviour[] = [
  'error with 200',
  'error with 401',
  'not JSON',
  'a list',
  'huge',
  'redirect',
  'empty',
  'compressed',
]
for (const endpoint of ['token', 'user', 'emails'] as const)
  for (const misbehaviour of misbehaviours) {
    // GitHub's addresses are a list; one without an address in it is the same as none.
    if (endpoint === 'emails' && misbehaviour === 'error with 200') continue
    test(`a ${endpoint} endpoint that answers with: ${misbehaviour}`, async () => {
      const { name, email, number } = someone('octo')
      verifiedOnGithub(name, email, number)
      github.misbehave.set(endpoint, misbehaviour)
      await assertNothing(await stage.signIn('github', name), 'bad_oauth_callback')
      assert.ok(!github.asked.includes('/redirected'))
    })
  }

test('an error where addresses should be is no address', async () => {
  const { name, email, number } = someone('octo')
  verifiedOnGithub(name, email, number)
  github.misbehave.set('emails', 'error with 200')
  await assertNothing(await stage.signIn('github', name), 'bad_oauth_callback')
})

test('a provider that never finishes is given up', async () => {
  const { name, email, number } = someone('octo')
  verifiedOnGithub(name, email, number)
  github.misbehave.set('user', 'hanging')
  await assertNothing(await stage.signIn('github', name), 'bad_oauth_callback')
})

for (const id of ['', ' ', 0, -1, 1.5, null, undefined, true, {}, ['1'], 'abc', '0', '1e3', '12\u0000'])
  test(`an account whose id is ${JSON.stringify(id)} is nobody’s`, async () => {
    const { name, email } = someone('octo')
    verifiedOnGithub(name, email, id)
    await assertNothing(await stage.signIn('github', name), 'bad_oauth_callback')
    github.discordAccounts.set(name, { id, username: name, email, verified: true })
    await assertNothing(await stage.signIn('discord', name), 'bad_oauth_callback')
  })

test('an account without an address does not become a user', async () => {
  const { name } = someone()
  openid(name, {})
  await assertNothing(await stage.signIn('google', name), 'bad_oauth_callback')
})

test('an address the provider does not vouch for opens nobody’s account', async () => {
  const { email, name, number } = someone('victim')
  const { body: victim } = await stage.call('POST', 'signup', { body: { email, password } })
  const before = await stage.counts()
  openid(name, { email, email_verified: false })
  await assertNothing(await stage.signIn('google', name), 'user_already_exists', stage, before)
  openid(name, { email })
  await assertNothing(await stage.signIn('apple', name), 'user_already_exists', stage, before)
  github.githubAccounts.set(name, {
    id: number,
    login: name,
    email,
    emails: [
      { email, primary: true, verified: false },
      { email: someone().email, primary: false, verified: true },
    ],
  })
  await assertNothing(await stage.signIn('github', name), 'user_already_exists', stage, before)
  github.discordAccounts.set(name, { id: String(number), username: name, email, verified: false })
  await assertNothing(await stage.signIn('discord', name), 'user_already_exists', stage, before)
  const { body: user } = await stage.call('GET', 'user', { token: victim.access_token })
  assert.equal(user.identities.length, 1)
})

test('what Microsoft says of an address counts only if its domain was proven', async () => {
  const { email, name } = someone('victim')
  await stage.call('POST', 'signup', { body: { email, password } })
  const before = await stage.counts()
  openid(name, { email, email_verified: true })
  await assertNothing(await stage.signIn('microsoft', name), 'user_already_exists', stage, before)
  openid(name, { email, email_verified: true, xms_edov: false })
  await assertNothing(await stage.signIn('microsoft', name), 'user_already_exists', stage, before)
  openid(name, { email, xms_edov: true })
  assert.ok((await stage.signIn('microsoft', name)).fragment['access_token'])
})

test('where addresses are verified by mail, an unproven one says the same whether somebody has it or not', async () => {
  const [known, unknown] = [someone('known'), someone('unknown')]
  const body = { email: known.email, password, email_confirm: true }
  await careful.call('POST', 'admin/users', { apikey: careful.project.service_role_key, body })
  openid(known.name, { email: known.email, email_verified: false })
  openid(unknown.name, { email: unknown.email, email_verified: false })
  const landings = [await careful.signIn('google', known.name), await careful.signIn('google', unknown.name)]
  assert.equal(landings[0]!.fragment['error_code'], 'email_not_confirmed')
  assert.deepEqual(landings[0], landings[1])
  const [user] = await careful.rows(sql`
    select count(i.id)::int as identities from auth.users u join auth.identities i on i.user_id = u.id
     where u.email = ${known.email}`)
  assert.equal(user.identities, 1)
})

test('whoever waits in an account under somebody’s address loses it when that somebody comes', async () => {
  const { email, name } = someone('victim')
  const { status } = await careful.call('POST', 'signup', {
    body: { email, password, data: { role: 'planted' } },
  })
  assert.equal(status, 200)
  const [planted] = await careful.rows(sql`select id from auth.users where email = ${email}`)
  // As if the attacker had found a way in before, too.
  await careful.rows(sql`
    insert into auth.identities (user_id, provider, provider_id, identity_data)
    values (${planted.id}, 'github', '424242', '{"sub":"424242","email":"attacker@example.com","email_verified":true}')`)
  await careful.rows(sql`insert into auth.sessions (user_id) values (${planted.id})`)
  await careful.rows(sql`
    insert into auth.mfa_factors (user_id, factor_type, status) values (${planted.id}, 'totp', 'verified')`)
  openid(name, { email, email_verified: true })
  const landing = await careful.signIn('google', name)
  const token = landing.fragment['access_token']!
  const { body: user } = await careful.call('GET', 'user', { token })
  assert.equal(user.email, email)
  assert.deepEqual(
    user.identities.map(({ provider }: { provider: string }) => provider),
    ['google'],
  )
  assert.equal(user.factors, undefined)
  assert.equal(user.user_metadata.role, undefined)
  const [left] = await careful.rows(sql`
    select encrypted_password, (select count(*)::int from auth.sessions s where s.user_id = u.id) as sessions,
           (select count(*)::int from auth.one_time_tokens t where t.user_id = u.id) as tokens
      from auth.users u where id = ${user.id}`)
  assert.deepEqual(left, { encrypted_password: null, sessions: 1, tokens: 0 })
  const signIn = await careful.call('POST', 'token?grant_type=password', { body: { email, password } })
  assert.deepEqual([signIn.status, signIn.body.error_code], [400, 'invalid_credentials'])
})

test('a sign-up that is confirmed by itself proves nothing: it loses the account as well', async () => {
  const { email, name } = someone('victim')
  const { body: planted } = await stage.call('POST', 'signup', { body: { email, password } })
  assert.ok(planted.access_token)
  openid(name, { email, email_verified: true })
  const { fragment } = await stage.signIn('google', name)
  const { body: user } = await stage.call('GET', 'user', { token: fragment['access_token']! })
  assert.equal(user.id, planted.user.id)
  assert.deepEqual(user.app_metadata, { provider: 'google', providers: ['google'] })
  assert.notEqual((await stage.call('GET', 'user', { token: planted.access_token })).status, 200)
  const refresh = { refresh_token: planted.refresh_token }
  assert.equal((await stage.call('POST', 'token?grant_type=refresh_token', { body: refresh })).status, 400)
  const signIn = await stage.call('POST', 'token?grant_type=password', { body: { email, password } })
  assert.deepEqual([signIn.status, signIn.body.error_code], [400, 'invalid_credentials'])
})

test('nor does it help to wait there with an identity whose provider does not vouch for the address', async () => {
  const [mallory, victim] = [someone('mallory'), someone('victim')]
  openid(mallory.name, { email: victim.email, email_verified: false })
  const first = await stage.signIn('google', mallory.name)
  const token = first.fragment['access_token']!
  assert.ok(token, 'sign-ups are confirmed by themselves here')
  verifiedOnGithub(victim.name, victim.email, victim.number)
  const landing = await stage.signIn('github', victim.name)
  const { body: user } = await stage.call('GET', 'user', { token: landing.fragment['access_token']! })
  assert.equal(user.email, victim.email)
  assert.deepEqual(user.app_metadata, { provider: 'github', providers: ['github'] })
  assert.equal(user.identities.length, 1)
  assert.notEqual((await stage.call('GET', 'user', { token })).status, 200)
  const before = await stage.counts()
  await assertNothing(await stage.signIn('google', mallory.name), 'user_already_exists', stage, before)
})

test('a banned user stays out, whichever way they come', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const { fragment } = await stage.signIn('google', name)
  const { body: user } = await stage.call('GET', 'user', { token: fragment['access_token']! })
  await stage.call('PUT', `admin/users/${user.id}`, {
    apikey: stage.project.service_role_key,
    body: { ban_duration: '1h' },
  })
  const before = await stage.counts()
  await assertNothing(await stage.signIn('google', name), 'user_banned', stage, before)
  await assertNothing(await stage.signIn('apple', name), 'user_banned', stage, before)
  const { id_token } = await identity.tokens(stage.client, stage.callback, name)
  const body = { provider: 'google', id_token }
  const reply = await stage.call('POST', 'token?grant_type=id_token', { body })
  assert.deepEqual([reply.status, reply.body.error_code], [400, 'user_banned'])
})

test('nobody new comes where nobody may sign up', async () => {
  const closed = await openOauthStage(platform, identity, github, { signup_enabled: false })
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  await assertNothing(await closed.signIn('google', name), 'signup_disabled', closed, await closed.counts())
})

test('a state counts once, and only where and when it was given', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const answer = await stage.answerOf('google', name)
  const elsewhere = new URL(answer)
  elsewhere.pathname = elsewhere.pathname.replace(stage.project.id, careful.project.id)
  await assertNothing(await stage.deliver(elsewhere), 'bad_oauth_state')
  const replies = await Promise.all([stage.deliver(answer), stage.deliver(answer), stage.deliver(answer)])
  assert.equal(replies.filter(({ fragment }) => fragment['access_token']).length, 1)
  const before = await stage.counts()
  await assertNothing(await stage.deliver(answer), 'bad_oauth_state', stage, before)

  const old = await stage.answerOf('google', name)
  await stage.rows(sql`update auth.flow_state set expires_at = now() - interval '1 second'`)
  await assertNothing(await stage.deliver(old), 'bad_oauth_state', stage, before)

  for (const state of ['', 'nonsense', randomUUID(), "' or true --", `${randomUUID()}\0`]) {
    const forged = new URL(stage.url('callback', { code: 'x', state }))
    await assertNothing(await stage.deliver(forged), 'bad_oauth_state', stage, before)
  }
})

test('a provider’s answer without a code, or with another’s, is refused', async () => {
  const [ada, eve] = [someone('ada'), someone('eve')]
  for (const { name, email } of [ada, eve]) openid(name, { email, email_verified: true })
  const without = await stage.answerOf('google', ada.name)
  without.searchParams.delete('code')
  await assertNothing(await stage.deliver(without), 'bad_oauth_callback')
  // The code of one sign-in put into another: it belongs to the other's verifier.
  for (const provider of ['google', 'github']) {
    verifiedOnGithub(ada.name, ada.email, ada.number)
    verifiedOnGithub(eve.name, eve.email, eve.number)
    const [hers, theirs] = [
      await stage.answerOf(provider, ada.name),
      await stage.answerOf(provider, eve.name),
    ]
    theirs.searchParams.set('code', hers.searchParams.get('code')!)
    await assertNothing(await stage.deliver(theirs), 'bad_oauth_callback')
  }
  const mixedUp = await stage.answerOf('google', ada.name)
  mixedUp.searchParams.set('iss', 'https://evil.example')
  await assertNothing(await stage.deliver(mixedUp), 'bad_oauth_callback')
})

test('what a provider says of a refusal is passed on as text and nothing more', async () => {
  const first = await fetch(stage.url('authorize', { provider: 'google' }), { redirect: 'manual' })
  const state = new URL(first.headers.get('location')!).searchParams.get('state')!
  const description = 'no#access_token=x&"<script>\r\nset-cookie: a=b'
  const error = 'access_denied\r\nlocation: https://evil.example'
  const answer = new URL(stage.url('callback', { state, error, error_description: description }))
  const landing = await stage.deliver(answer)
  assert.equal(landing.query['error'], 'server_error')
  assert.equal(landing.query['error_description'], description)
  assert.equal(landing.fragment['error_description'], description)
  assert.ok(!('access_token' in landing.fragment))
})

const places = [
  'https://evil.example/',
  'https://app.example.com.evil.example/home',
  'https://app.example.com@evil.example/home',
  'https://evil.example/#https://app.example.com/home',
  'https://evil.example\\@app.example.com/home',
  'http://app.example.com/home',
  'https://app.example.com:8443/home',
  'http://127.0.0.1/',
  'http://169.254.169.254/latest',
  'javascript:alert(1)//https://app.example.com',
  'data:text/html,x',
  '//evil.example',
  '/\\evil.example',
]
for (const redirect_to of places)
  test(`a browser is never sent on to ${redirect_to}`, async () => {
    const { email, name } = someone()
    openid(name, { email, email_verified: true })
    const landing = await stage.signIn('google', name, { query: { redirect_to } })
    assert.equal(landing.place, site)
    const turnedBack = await stage.signIn('google', 'nobody at all', { query: { redirect_to } })
    assert.equal(turnedBack.place, site)
    assert.equal(turnedBack.fragment['error'], 'access_denied')
  })

test('the fragment of a place is not where a code can hide, and its own is dropped', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const redirect_to = `${site}?code=planted#access_token=planted&code=planted`
  const { query } = newPkce()
  const landing = await stage.signIn('google', name, { query: { ...query, redirect_to } })
  assert.notEqual(landing.query['code'], 'planted')
  const implicit = await stage.signIn('google', name, { query: { redirect_to } })
  assert.notEqual(implicit.fragment['access_token'], 'planted')
})

test('a code of a flow with a challenge is worth nothing without the verifier', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const { query } = newPkce()
  const { code } = (await stage.signIn('google', name, { query })).query
  for (const code_verifier of [undefined, null, '', 'x', query.code_challenge]) {
    const body = { auth_code: code, code_verifier }
    const { status, body: reply } = await stage.call('POST', 'token?grant_type=pkce', { body })
    assert.equal(status, 400)
    assert.equal(reply.access_token, undefined)
  }
})

test('a code of one project is unknown in another', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const { verifier, query } = newPkce()
  const { code } = (await stage.signIn('google', name, { query })).query
  const body = { auth_code: code, code_verifier: verifier }
  const { status } = await careful.call('POST', 'token?grant_type=pkce', { body })
  assert.equal(status, 404)
})

/** An issuer with keys of its own, which signs whatever it is asked to. */
async function startIssuer(documentIssuer?: (issuer: string) => string) {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' }
  let issuer = ''
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url!)
    response.setHeader('content-type', 'application/json')
    const isKeys = request.url === '/keys'
    const document = { issuer: documentIssuer?.(issuer) ?? issuer, jwks_uri: `${issuer}/keys` }
    response.end(JSON.stringify(isKeys ? { keys: [key] } : document))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    issuer,
    asked,
    publicKey,
    sign: (claims: Record<string, unknown>, header: object = {}) =>
      new SignJWT({ iss: issuer, sub: `sub-${randomUUID()}`, ...claims })
        .setProtectedHeader({ alg: 'RS256', kid: 'one', ...header })
        .setIssuedAt()
        .setExpirationTime(typeof claims['exp'] === 'number' ? claims['exp'] : '5m')
        .sign(privateKey),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const byIdToken = (at: OauthStage, id_token: string, more: object = {}) =>
  at.call('POST', 'token?grant_type=id_token', { body: { provider: 'google', id_token, ...more } })

test('an ID token counts only if the issuer that was set has signed it, for this client, now', async () => {
  const [ours, evil] = [await startIssuer(), await startIssuer()]
  try {
    const client_id = 'the-client'
    const there = await openOauthStage(platform, identity, github, {
      providers: { google: { client_id, client_secret: 's', enabled: true, issuer: ours.issuer } },
    })
    const { email } = someone('victim')
    const claims = { aud: client_id, email, email_verified: true }
    const now = Math.floor(Date.now() / 1000)
    const good = await ours.sign(claims)
    const [head, payload, signature] = good.split('.') as [string, string, string]
    const coded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const withKeyAsSecret = `${coded({ alg: 'HS256', kid: 'one' })}.${payload}`
    const publicPem = await exportSPKI(ours.publicKey)
    const tokens: Record<string, string> = {
      'another issuer': await evil.sign(claims),
      'another issuer that says it is ours': await evil.sign({ ...claims, iss: ours.issuer }),
      'our issuer under another name': await ours.sign({ ...claims, iss: evil.issuer }),
      'no issuer': await ours.sign({ ...claims, iss: undefined }),
      'a header that points to other keys': await evil.sign(
        { ...claims, iss: ours.issuer },
        { jku: `${evil.issuer}/keys`, jwk: await exportJWK(evil.publicKey) },
      ),
      'another client': await ours.sign({ ...claims, aud: 'another' }),
      'no client': await ours.sign({ ...claims, aud: undefined }),
      'another client as well': await ours.sign({ ...claims, aud: [client_id, 'another'] }),
      expired: await ours.sign({ ...claims, exp: now - 60 }),
      'not yet valid': await ours.sign({ ...claims, nbf: now + 600 }),
      'a nonce nobody shows': await ours.sign({ ...claims, nonce: 'n' }),
      'no signature': `${coded({ alg: 'none' })}.${payload}.`,
      'the public key as a secret': `${withKeyAsSecret}.${createHmac('sha256', publicPem).update(withKeyAsSecret).digest('base64url')}`,
      'a changed payload': `${head}.${coded({ ...claims, iss: ours.issuer, sub: 'victim', exp: now + 60 })}.${signature}`,
      'an empty subject': await ours.sign({ ...claims, sub: '' }),
      'a blank subject': await ours.sign({ ...claims, sub: '  ' }),
      'no subject': await ours.sign({ ...claims, sub: undefined }),
      'a subject that is no text': await ours.sign({ ...claims, sub: 42 }),
      'an endless token': `${good}${'x'.repeat(20_000)}`,
      'no token': 'nonsense',
    }
    for (const [what, token] of Object.entries(tokens)) {
      const { status, body } = await byIdToken(there, token)
      assert.equal(status, 400, `${what}: ${JSON.stringify(body)}`)
      assert.equal(body.access_token, undefined, what)
    }
    assert.deepEqual(await there.counts(), { users: 0, identities: 0, sessions: 0 })
    assert.deepEqual(evil.asked, [], 'nobody has even asked the other issuer for its keys')

    const nonce = await ours.sign({ ...claims, nonce: 'shown as it is' })
    assert.equal((await byIdToken(there, nonce, { nonce: 'shown as it is' })).status, 400)
    assert.equal((await byIdToken(there, good, { nonce: 'not in the token' })).status, 400)
    const bound = await ours.sign({ ...claims, at_hash: 'AAAAAAAAAAAAAAAAAAAAAA' })
    assert.equal((await byIdToken(there, bound, { access_token: 'another' })).status, 400)
    assert.equal((await byIdToken(there, good, { provider: 'github' })).status, 400)
    assert.equal((await byIdToken(there, good, { provider: 'apple' })).status, 400)
    assert.deepEqual(await there.counts(), { users: 0, identities: 0, sessions: 0 })
    assert.equal((await byIdToken(there, good)).status, 200)
  } finally {
    await ours.close()
    await evil.close()
  }
})

test('an issuer for many tenants is believed for the tenant its token names, and for no other issuer', async () => {
  const many = await startIssuer(issuer => `${issuer}/{tenantid}/v2.0`)
  try {
    const there = await openOauthStage(platform, identity, github, {
      providers: {
        microsoft: { client_id: 'c', client_secret: 's', enabled: true, issuer: many.issuer },
        google: { client_id: 'c', client_secret: 's', enabled: true, issuer: many.issuer },
      },
    })
    const tid = randomUUID()
    const { email } = someone()
    const claims = { aud: 'c', email, tid, iss: `${many.issuer}/${tid}/v2.0` }
    const microsoft = { provider: 'microsoft' }
    const wrong = [
      { ...claims, tid: randomUUID() },
      { ...claims, tid: undefined },
      { ...claims, tid: '../common', iss: `${many.issuer}/../common/v2.0` },
      { ...claims, iss: many.issuer },
      { ...claims, iss: `https://evil.example/${tid}/v2.0` },
    ]
    for (const each of wrong) {
      const { status } = await byIdToken(there, await many.sign(each), microsoft)
      assert.equal(status, 400, JSON.stringify(each))
    }
    // Only Microsoft describes its issuer with a gap; from any other provider it is a wrong name.
    assert.equal((await byIdToken(there, await many.sign(claims))).status, 400)
    assert.equal((await there.counts()).users, 0)
    assert.equal((await byIdToken(there, await many.sign(claims), microsoft)).status, 200)
  } finally {
    await many.close()
  }
})

test('a provider on a private address is not called unless the operator allows it', async () => {
  const strict = await startPlatform({ settings: { ...unlimited, PLATFORM_OUTBOUND_ALLOW: '' } })
  try {
    const there = await openOauthStage(strict, identity, github)
    const reply = await fetch(there.url('authorize', { provider: 'google' }), { redirect: 'manual' })
    assert.equal(reply.status, 400, 'its issuer cannot be asked')
    const { name, email, number } = someone('octo')
    verifiedOnGithub(name, email, number)
    const { fragment } = await there.signIn('github', name)
    assert.equal(fragment['error_code'], 'bad_oauth_callback')
    assert.deepEqual(github.asked, ['/login/oauth/authorize'], 'the browser went there, the platform did not')
    assert.ok(!fragment['error_description']!.includes('127.0.0.1'))
  } finally {
    await strict.stop()
  }
})

test('claims too large for a token, and characters no database takes, do not keep anybody out', async () => {
  const { name, email, number } = someone('octo')
  const long = { name: `N\0ul ${'ü'.repeat(100_000)}`, avatar_url: `https://example.com/${'x'.repeat(5000)}` }
  verifiedOnGithub(name, email, number)
  github.githubAccounts.set(name, { ...github.githubAccounts.get(name)!, ...long })
  openid(name, { email, email_verified: true, name: long.name.slice(0, 2000), picture: '\ud800' })
  for (const provider of ['github', 'google']) {
    const token = (await stage.signIn(provider, name)).fragment['access_token']!
    const { body } = await stage.call('GET', 'user', { token })
    assert.match(body.user_metadata.full_name, /^Nul ü{100,130}$/)
    assert.equal(body.user_metadata.avatar_url, undefined)
  }
})

test('what a provider tells never pushes out what the user has set', async () => {
  const { name, email } = someone()
  openid(name, { email, email_verified: true, name: 'First' })
  const token = (await stage.signIn('google', name)).fragment['access_token']!
  const data = { notes: 'n'.repeat(7000) }
  assert.equal((await stage.call('PUT', 'user', { token, body: { data } })).status, 200)
  openid(name, {
    email,
    email_verified: true,
    name: 'x'.repeat(250),
    picture: `https://e.com/${'x'.repeat(490)}`,
  })
  const again = (await stage.signIn('google', name)).fragment['access_token']!
  const { body } = await stage.call('GET', 'user', { token: again })
  assert.equal(body.user_metadata.notes, data.notes)
  assert.equal(body.user_metadata.full_name, 'First')
  assert.equal(body.identities[0].identity_data.full_name, 'x'.repeat(250))
})

test('no secret of a sign-in is in the log', async () => {
  const { name, email } = someone()
  openid(name, { email, email_verified: true })
  const answer = await stage.answerOf('google', name)
  const { fragment } = await stage.deliver(answer)
  await stage.deliver(answer)
  const log = platform.logged.join('')
  for (const secret of [
    answer.searchParams.get('code')!,
    answer.searchParams.get('state')!,
    fragment['access_token']!,
    fragment['provider_token']!,
    stage.client.client_secret,
  ])
    assert.ok(!log.includes(secret))
})
