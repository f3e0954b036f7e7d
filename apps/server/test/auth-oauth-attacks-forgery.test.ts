// Attacks on sign-in with providers (faults-and-attacks 20; GHSA-5hvv-9cqv-894r, GHSA-9wqv-qhrh-87f4, CVE-2026-44166,
// CVE-2024-38351). No forged callback, redirect, code or ID token may sign in as another user.
import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { before, test } from 'node:test'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { GithubLike } from './github-like.ts'
import type { TestPlatform } from './harness.ts'
import type { IdentityProvider } from './identity-provider.ts'
import { oauthAttackStage } from './oauth-attack-stage.ts'
import { newPkce, type OauthStage, openOauthStage, site, someone } from './oauth-setup.ts'

const { stage, assertNothing, openid, verifiedOnGithub } = oauthAttackStage()
let platform: TestPlatform
let identity: IdentityProvider
let github: GithubLike
let setup: OauthStage
let confirming: OauthStage
before(() => {
  ;({ platform, identity, github, setup, confirming } = stage)
})

test('OAuth: a state works once, in its project, until it expires', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const answer = await setup.answerOf('google', name)
  const elsewhere = new URL(answer)
  elsewhere.pathname = elsewhere.pathname.replace(setup.project.id, confirming.project.id)
  await assertNothing(await setup.deliver(elsewhere), 'bad_oauth_state')
  const replies = await Promise.all([setup.deliver(answer), setup.deliver(answer), setup.deliver(answer)])
  assert.equal(replies.filter(({ fragment }) => fragment['access_token']).length, 1)
  const before = await setup.counts()
  await assertNothing(await setup.deliver(answer), 'bad_oauth_state', setup, before)

  const old = await setup.answerOf('google', name)
  await setup.rows(sql`update auth.flow_state set expires_at = now() - interval '1 second'`)
  await assertNothing(await setup.deliver(old), 'bad_oauth_state', setup, before)

  for (const state of ['', 'nonsense', randomUUID(), "' or true --", `${randomUUID()}\0`]) {
    const forged = new URL(setup.url('callback', { code: 'x', state }))
    await assertNothing(await setup.deliver(forged), 'bad_oauth_state', setup, before)
  }
})

test('OAuth: a callback without a code, or with the code of another sign-in, is refused', async () => {
  const [ada, eve] = [someone('ada'), someone('eve')]
  for (const { name, email } of [ada, eve]) openid(name, { email, email_verified: true })
  const without = await setup.answerOf('google', ada.name)
  without.searchParams.delete('code')
  await assertNothing(await setup.deliver(without), 'bad_oauth_callback')
  // The code of one sign-in with the state of another: the verifier does not match.
  for (const provider of ['google', 'github']) {
    verifiedOnGithub(ada.name, ada.email, ada.number)
    verifiedOnGithub(eve.name, eve.email, eve.number)
    const [own, foreign] = [
      await setup.answerOf(provider, ada.name),
      await setup.answerOf(provider, eve.name),
    ]
    foreign.searchParams.set('code', own.searchParams.get('code')!)
    await assertNothing(await setup.deliver(foreign), 'bad_oauth_callback')
  }
  const mixedUp = await setup.answerOf('google', ada.name)
  mixedUp.searchParams.set('iss', 'https://evil.example')
  await assertNothing(await setup.deliver(mixedUp), 'bad_oauth_callback')
})

test('OAuth: the error text of a provider is passed on as plain text only', async () => {
  const first = await fetch(setup.url('authorize', { provider: 'google' }), { redirect: 'manual' })
  const state = new URL(first.headers.get('location')!).searchParams.get('state')!
  const description = 'no#access_token=x&"<script>\r\nset-cookie: a=b'
  const error = 'access_denied\r\nlocation: https://evil.example'
  const answer = new URL(setup.url('callback', { state, error, error_description: description }))
  const landing = await setup.deliver(answer)
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
  test(`OAuth: no redirect goes to ${redirect_to}`, async () => {
    const { email, name } = someone()
    openid(name, { email, email_verified: true })
    const landing = await setup.signIn('google', name, { query: { redirect_to } })
    assert.equal(landing.place, site)
    const turnedBack = await setup.signIn('google', 'nobody at all', { query: { redirect_to } })
    assert.equal(turnedBack.place, site)
    assert.equal(turnedBack.fragment['error'], 'access_denied')
  })

test('OAuth: the fragment of redirect_to is dropped', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const redirect_to = `${site}?code=planted#access_token=planted&code=planted`
  const { query } = newPkce()
  const landing = await setup.signIn('google', name, { query: { ...query, redirect_to } })
  assert.notEqual(landing.query['code'], 'planted')
  const implicit = await setup.signIn('google', name, { query: { redirect_to } })
  assert.notEqual(implicit.fragment['access_token'], 'planted')
})

test('OAuth: a PKCE code is invalid without its verifier', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const { query } = newPkce()
  const { code } = (await setup.signIn('google', name, { query })).query
  for (const code_verifier of [undefined, null, '', 'x', query.code_challenge]) {
    const body = { auth_code: code, code_verifier }
    const { status, body: reply } = await setup.call('POST', 'token?grant_type=pkce', { body })
    assert.equal(status, 400)
    assert.equal(reply.access_token, undefined)
  }
})

test('OAuth: a code of one project is unknown in another', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const { verifier, query } = newPkce()
  const { code } = (await setup.signIn('google', name, { query })).query
  const body = { auth_code: code, code_verifier: verifier }
  const { status } = await confirming.call('POST', 'token?grant_type=pkce', { body })
  assert.equal(status, 404)
})

/** An issuer with its own keys that signs any claims. */
async function startIssuer(documentIssuer?: (issuer: string) => string) {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' }
  let issuer = ''
  const requested: string[] = []
  const server = createServer((request, response) => {
    requested.push(request.url!)
    response.setHeader('content-type', 'application/json')
    const isKeys = request.url === '/keys'
    const document = { issuer: documentIssuer?.(issuer) ?? issuer, jwks_uri: `${issuer}/keys` }
    response.end(JSON.stringify(isKeys ? { keys: [key] } : document))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    issuer,
    requested,
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

test('OAuth: an ID token must be signed by the configured issuer for this client and not be expired', async () => {
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
    assert.deepEqual(evil.requested, [], 'the keys of the other issuer were not requested')

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

test('OAuth: a multi-tenant issuer must match the tenant id of the token', async () => {
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
    // Only Microsoft's issuer has a tenant placeholder; at any other provider it is a wrong issuer.
    assert.equal((await byIdToken(there, await many.sign(claims))).status, 400)
    assert.equal((await there.counts()).users, 0)
    assert.equal((await byIdToken(there, await many.sign(claims), microsoft)).status, 200)
  } finally {
    await many.close()
  }
})

test('OAuth: no secret of a sign-in is in the log', async () => {
  const { name, email } = someone()
  openid(name, { email, email_verified: true })
  const answer = await setup.answerOf('google', name)
  const { fragment } = await setup.deliver(answer)
  await setup.deliver(answer)
  const log = platform.logged.join('')
  for (const secret of [
    answer.searchParams.get('code')!,
    answer.searchParams.get('state')!,
    fragment['access_token']!,
    fragment['provider_token']!,
    setup.client.client_secret,
  ])
    assert.ok(!log.includes(secret))
})
