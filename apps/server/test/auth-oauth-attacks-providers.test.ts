// Attacks on sign-in with providers (faults-and-attacks 20; GHSA-5hvv-9cqv-894r, GHSA-9wqv-qhrh-87f4, CVE-2026-44166,
// CVE-2024-38351). No answer of a provider may sign in as another user.
import assert from 'node:assert/strict'
import { afterEach, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { GithubLike, Misbehaviour } from './github-like.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import type { IdentityProvider } from './identity-provider.ts'
import { oauthAttackStage } from './oauth-attack-stage.ts'
import { unlimited } from './oauth-platform.ts'
import { type OauthStage, openOauthStage, someone } from './oauth-setup.ts'

const { stage, assertNothing, openid, verifiedOnGithub } = oauthAttackStage()
let platform: TestPlatform
let identity: IdentityProvider
let github: GithubLike
let setup: OauthStage
let confirming: OauthStage
before(() => {
  ;({ platform, identity, github, setup, confirming } = stage)
})
afterEach(() => {
  github.misbehave.clear()
  github.requested.length = 0
})

const password = 'correct horse battery'

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
    // GitHub returns a list of addresses. A list without a primary address is the same as none.
    if (endpoint === 'emails' && misbehaviour === 'error with 200') continue
    test(`OAuth: a ${endpoint} endpoint that answers with ${misbehaviour} is refused`, async () => {
      const { name, email, number } = someone('octo')
      verifiedOnGithub(name, email, number)
      github.misbehave.set(endpoint, misbehaviour)
      await assertNothing(await setup.signIn('github', name), 'bad_oauth_callback')
      assert.ok(!github.requested.includes('/redirected'))
    })
  }

test('OAuth: an error body from the emails endpoint gives no address', async () => {
  const { name, email, number } = someone('octo')
  verifiedOnGithub(name, email, number)
  github.misbehave.set('emails', 'error with 200')
  await assertNothing(await setup.signIn('github', name), 'bad_oauth_callback')
})

test('OAuth: a provider that never finishes its answer times out', async () => {
  const { name, email, number } = someone('octo')
  verifiedOnGithub(name, email, number)
  github.misbehave.set('user', 'hanging')
  await assertNothing(await setup.signIn('github', name), 'bad_oauth_callback')
})

for (const id of ['', ' ', 0, -1, 1.5, null, undefined, true, {}, ['1'], 'abc', '0', '1e3', '12\u0000'])
  test(`OAuth: an account with the id ${JSON.stringify(id)} is rejected`, async () => {
    const { name, email } = someone('octo')
    verifiedOnGithub(name, email, id)
    await assertNothing(await setup.signIn('github', name), 'bad_oauth_callback')
    github.discordAccounts.set(name, { id, username: name, email, verified: true })
    await assertNothing(await setup.signIn('discord', name), 'bad_oauth_callback')
  })

test('OAuth: an account without an address does not become a user', async () => {
  const { name } = someone()
  openid(name, {})
  await assertNothing(await setup.signIn('google', name), 'bad_oauth_callback')
})

test('OAuth: an unverified address does not link to an existing user', async () => {
  const { email, name, number } = someone('victim')
  const { body: victim } = await setup.call('POST', 'signup', { body: { email, password } })
  const before = await setup.counts()
  openid(name, { email, email_verified: false })
  await assertNothing(await setup.signIn('google', name), 'user_already_exists', setup, before)
  openid(name, { email })
  await assertNothing(await setup.signIn('apple', name), 'user_already_exists', setup, before)
  github.githubAccounts.set(name, {
    id: number,
    login: name,
    email,
    emails: [
      { email, primary: true, verified: false },
      { email: someone().email, primary: false, verified: true },
    ],
  })
  await assertNothing(await setup.signIn('github', name), 'user_already_exists', setup, before)
  github.discordAccounts.set(name, { id: String(number), username: name, email, verified: false })
  await assertNothing(await setup.signIn('discord', name), 'user_already_exists', setup, before)
  const { body: user } = await setup.call('GET', 'user', { token: victim.access_token })
  assert.equal(user.identities.length, 1)
})

test('OAuth: an address from Microsoft is verified only with xms_edov', async () => {
  const { email, name } = someone('victim')
  await setup.call('POST', 'signup', { body: { email, password } })
  const before = await setup.counts()
  openid(name, { email, email_verified: true })
  await assertNothing(await setup.signIn('microsoft', name), 'user_already_exists', setup, before)
  openid(name, { email, email_verified: true, xms_edov: false })
  await assertNothing(await setup.signIn('microsoft', name), 'user_already_exists', setup, before)
  openid(name, { email, xms_edov: true })
  assert.ok((await setup.signIn('microsoft', name)).fragment['access_token'])
})

test('OAuth: without auto_confirm, an unverified address gets the same answer whether it is taken or not', async () => {
  const [known, unknown] = [someone('known'), someone('unknown')]
  const body = { email: known.email, password, email_confirm: true }
  await confirming.call('POST', 'admin/users', { apikey: confirming.project.service_role_key, body })
  openid(known.name, { email: known.email, email_verified: false })
  openid(unknown.name, { email: unknown.email, email_verified: false })
  const landings = [
    await confirming.signIn('google', known.name),
    await confirming.signIn('google', unknown.name),
  ]
  assert.equal(landings[0]!.fragment['error_code'], 'email_not_confirmed')
  assert.deepEqual(landings[0], landings[1])
  const [user] = await confirming.rows(sql`
    select count(i.id)::int as identities from auth.users u join auth.identities i on i.user_id = u.id
     where u.email = ${known.email}`)
  assert.equal(user.identities, 1)
})

test('OAuth: an unconfirmed account is reset when the owner of its address signs in with a provider', async () => {
  const { email, name } = someone('victim')
  const { status } = await confirming.call('POST', 'signup', {
    body: { email, password, data: { role: 'planted' } },
  })
  assert.equal(status, 200)
  const [planted] = await confirming.rows(sql`select id from auth.users where email = ${email}`)
  // Sessions and factors of the attacker exist already.
  await confirming.rows(sql`
    insert into auth.identities (user_id, provider, provider_id, identity_data)
    values (${planted.id}, 'github', '424242', '{"sub":"424242","email":"attacker@example.com","email_verified":true}')`)
  await confirming.rows(sql`insert into auth.sessions (user_id) values (${planted.id})`)
  await confirming.rows(sql`
    insert into auth.mfa_factors (user_id, factor_type, status) values (${planted.id}, 'totp', 'verified')`)
  openid(name, { email, email_verified: true })
  const landing = await confirming.signIn('google', name)
  const token = landing.fragment['access_token']!
  const { body: user } = await confirming.call('GET', 'user', { token })
  assert.equal(user.email, email)
  assert.deepEqual(
    user.identities.map(({ provider }: { provider: string }) => provider),
    ['google'],
  )
  assert.equal(user.factors, undefined)
  assert.equal(user.user_metadata.role, undefined)
  const [left] = await confirming.rows(sql`
    select encrypted_password, (select count(*)::int from auth.sessions s where s.user_id = u.id) as sessions,
           (select count(*)::int from auth.one_time_tokens t where t.user_id = u.id) as tokens
      from auth.users u where id = ${user.id}`)
  assert.deepEqual(left, { encrypted_password: null, sessions: 1, tokens: 0 })
  const signIn = await confirming.call('POST', 'token?grant_type=password', { body: { email, password } })
  assert.deepEqual([signIn.status, signIn.body.error_code], [400, 'invalid_credentials'])
})

test('OAuth: an auto-confirmed account is reset, too', async () => {
  const { email, name } = someone('victim')
  const { body: planted } = await setup.call('POST', 'signup', { body: { email, password } })
  assert.ok(planted.access_token)
  openid(name, { email, email_verified: true })
  const { fragment } = await setup.signIn('google', name)
  const { body: user } = await setup.call('GET', 'user', { token: fragment['access_token']! })
  assert.equal(user.id, planted.user.id)
  assert.deepEqual(user.app_metadata, { provider: 'google', providers: ['google'] })
  assert.notEqual((await setup.call('GET', 'user', { token: planted.access_token })).status, 200)
  const refresh = { refresh_token: planted.refresh_token }
  assert.equal((await setup.call('POST', 'token?grant_type=refresh_token', { body: refresh })).status, 400)
  const signIn = await setup.call('POST', 'token?grant_type=password', { body: { email, password } })
  assert.deepEqual([signIn.status, signIn.body.error_code], [400, 'invalid_credentials'])
})

test('OAuth: an account with an identity of an unverified address is reset, too', async () => {
  const [mallory, victim] = [someone('mallory'), someone('victim')]
  openid(mallory.name, { email: victim.email, email_verified: false })
  const first = await setup.signIn('google', mallory.name)
  const token = first.fragment['access_token']!
  assert.ok(token, 'sign-ups are confirmed by themselves here')
  verifiedOnGithub(victim.name, victim.email, victim.number)
  const landing = await setup.signIn('github', victim.name)
  const { body: user } = await setup.call('GET', 'user', { token: landing.fragment['access_token']! })
  assert.equal(user.email, victim.email)
  assert.deepEqual(user.app_metadata, { provider: 'github', providers: ['github'] })
  assert.equal(user.identities.length, 1)
  assert.notEqual((await setup.call('GET', 'user', { token })).status, 200)
  const before = await setup.counts()
  await assertNothing(await setup.signIn('google', mallory.name), 'user_already_exists', setup, before)
})

test('OAuth: a banned user cannot sign in with any provider flow', async () => {
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  const { fragment } = await setup.signIn('google', name)
  const { body: user } = await setup.call('GET', 'user', { token: fragment['access_token']! })
  await setup.call('PUT', `admin/users/${user.id}`, {
    apikey: setup.project.service_role_key,
    body: { ban_duration: '1h' },
  })
  const before = await setup.counts()
  await assertNothing(await setup.signIn('google', name), 'user_banned', setup, before)
  await assertNothing(await setup.signIn('apple', name), 'user_banned', setup, before)
  const { id_token } = await identity.tokens(setup.client, setup.callback, name)
  const body = { provider: 'google', id_token }
  const reply = await setup.call('POST', 'token?grant_type=id_token', { body })
  assert.deepEqual([reply.status, reply.body.error_code], [400, 'user_banned'])
})

test('OAuth: with signup_enabled false, a provider creates no user', async () => {
  const closed = await openOauthStage(platform, identity, github, { signup_enabled: false })
  const { email, name } = someone()
  openid(name, { email, email_verified: true })
  await assertNothing(await closed.signIn('google', name), 'signup_disabled', closed, await closed.counts())
})

test('OAuth: a provider on a private address is called only if the operator allows it', async () => {
  const strict = await startPlatform({ settings: { ...unlimited, PLATFORM_OUTBOUND_ALLOW: '' } })
  try {
    const there = await openOauthStage(strict, identity, github)
    const reply = await fetch(there.url('authorize', { provider: 'google' }), { redirect: 'manual' })
    assert.equal(reply.status, 400, 'its issuer cannot be reached')
    const { name, email, number } = someone('octo')
    verifiedOnGithub(name, email, number)
    const { fragment } = await there.signIn('github', name)
    assert.equal(fragment['error_code'], 'bad_oauth_callback')
    assert.deepEqual(
      github.requested,
      ['/login/oauth/authorize'],
      'the browser went there, the platform did not',
    )
    assert.ok(!fragment['error_description']!.includes('127.0.0.1'))
  } finally {
    await strict.stop()
  }
})

test('OAuth: oversized claims and characters that cannot be stored do not prevent sign-in', async () => {
  const { name, email, number } = someone('octo')
  const long = { name: `N\0ul ${'ü'.repeat(100_000)}`, avatar_url: `https://example.com/${'x'.repeat(5000)}` }
  verifiedOnGithub(name, email, number)
  github.githubAccounts.set(name, { ...github.githubAccounts.get(name)!, ...long })
  openid(name, { email, email_verified: true, name: long.name.slice(0, 2000), picture: '\ud800' })
  for (const provider of ['github', 'google']) {
    const token = (await setup.signIn(provider, name)).fragment['access_token']!
    const { body } = await setup.call('GET', 'user', { token })
    assert.match(body.user_metadata.full_name, /^Nul ü{100,130}$/)
    assert.equal(body.user_metadata.avatar_url, undefined)
  }
})

test('OAuth: claims of a provider never displace metadata that the user has set', async () => {
  const { name, email } = someone()
  openid(name, { email, email_verified: true, name: 'First' })
  const token = (await setup.signIn('google', name)).fragment['access_token']!
  const data = { notes: 'n'.repeat(7000) }
  assert.equal((await setup.call('PUT', 'user', { token, body: { data } })).status, 200)
  openid(name, {
    email,
    email_verified: true,
    name: 'x'.repeat(250),
    picture: `https://e.com/${'x'.repeat(490)}`,
  })
  const again = (await setup.signIn('google', name)).fragment['access_token']!
  const { body } = await setup.call('GET', 'user', { token: again })
  assert.equal(body.user_metadata.notes, data.notes)
  assert.equal(body.user_metadata.full_name, 'First')
  assert.equal(body.identities[0].identity_data.full_name, 'x'.repeat(250))
})
