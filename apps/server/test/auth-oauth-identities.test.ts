// The accounts that providers report, and the users that they sign in. A real OpenID provider is used as Google, Apple
// and Microsoft, and a test server with the same API as GitHub and Discord.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { GithubLike } from './github-like.ts'
import type { TestPlatform } from './harness.ts'
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts'
import { type Mailbox, openMailbox } from './mailbox.ts'
import { oauthPlatform } from './oauth-platform.ts'
import { type OauthStage, openOauthStage, site, someone } from './oauth-setup.ts'

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

test('OAuth: a later sign-in is the same user, also after the address at the provider changed', async () => {
  const { name, account } = openidAccount()
  const first = await userOf(await setup.signIn('google', name))
  identity.accounts.set(name, { ...account, email: someone().email, name: 'Ada King' })
  const second = await userOf(await setup.signIn('google', name))
  assert.equal(second.id, first.id)
  assert.equal(second.email, first.email)
  assert.equal(second.user_metadata.full_name, 'Ada King')
  assert.equal(second.identities.length, 1)
})

test('OAuth: claims missing in the ID token are read from the userinfo endpoint', async () => {
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

test('OAuth: configured endpoints override discovered ones', async () => {
  const { name } = openidAccount()
  await setup.configureProvider('google', { token_url: `${github.url}/nothing-here` })
  const { fragment } = await setup.signIn('google', name)
  await setup.configureProvider('google', { token_url: identity.tokenUrl })
  assert.equal(fragment['error_code'], 'bad_oauth_callback')
  await userOf(await setup.signIn('google', name))
})

test('OAuth: Apple posts a form that has the name at the first sign-in', async () => {
  const { name, account } = openidAccount({ name: undefined })
  const user = JSON.stringify({ name: { firstName: 'Ada', lastName: 'King' }, email: 'mallory@example.com' })
  const first = await userOf(await setup.signIn('apple', name, { fields: { user } }))
  assert.equal(first.email, account.email)
  assert.equal(first.user_metadata.full_name, 'Ada King')
  const second = await userOf(await setup.signIn('apple', name))
  assert.equal(second.id, first.id)
  assert.equal(second.user_metadata.full_name, 'Ada King')
})

test('OAuth: GitHub identities use the account id and a verified address', async () => {
  const { name, account, email } = githubAccount()
  const user = await userOf(await setup.signIn('github', name))
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

test('OAuth: a token endpoint may answer with a form', async () => {
  const { name } = githubAccount()
  github.answersForms = true
  try {
    await userOf(await setup.signIn('github', name))
  } finally {
    github.answersForms = false
  }
})

test('OAuth: the Discord claim verified decides whether the address is verified', async () => {
  const { name, email, number } = someone('wump')
  github.discordAccounts.set(name, {
    id: String(number),
    username: name,
    global_name: 'Wumpus',
    avatar: 'a_0123',
    email,
    verified: true,
  })
  const user = await userOf(await setup.signIn('discord', name))
  assert.equal(user.email, email)
  assert.ok(user.email_confirmed_at)
  assert.equal(user.user_metadata.full_name, 'Wumpus')
  assert.equal(user.user_metadata.avatar_url, `https://cdn.discordapp.com/avatars/${number}/a_0123.png`)
  assert.deepEqual(user.user_metadata.custom_claims, { global_name: 'Wumpus' })
})

test('OAuth: a verified address links the identity to the user who has confirmed it', async () => {
  const { email } = someone()
  const body = { email, password: 'correct horse battery', email_confirm: true }
  const made = await setup.call('POST', 'admin/users', { apikey: setup.project.service_role_key, body })
  assert.equal(made.status, 200, JSON.stringify(made.body))
  const { name } = openidAccount({ email: email.toUpperCase() })
  const user = await userOf(await setup.signIn('google', name))
  assert.equal(user.id, made.body.id)
  assert.deepEqual(user.app_metadata.providers, ['email', 'google'])
  assert.equal(user.app_metadata.provider, 'email')
  const signIn = await setup.call('POST', 'token?grant_type=password', { body })
  assert.equal(signIn.status, 200, 'the password still works')
})

test('OAuth: two providers with the same verified address give one user', async () => {
  const { name, email } = githubAccount()
  const { name: other } = openidAccount({ email })
  const first = await userOf(await setup.signIn('github', name))
  const second = await userOf(await setup.signIn('google', other))
  assert.equal(second.id, first.id)
  assert.deepEqual(second.app_metadata.providers, ['github', 'google'])
})

test('OAuth: concurrent first sign-ins create one user', async () => {
  const { name, account } = openidAccount()
  const answers = await Promise.all(Array.from({ length: 5 }, () => setup.answerOf('google', name)))
  const landings = await Promise.all(answers.map(answer => setup.deliver(answer)))
  const users = await Promise.all(landings.map(landing => userOf(landing)))
  assert.equal(new Set(users.map(({ id }) => id)).size, 1)
  const rows = await setup.rows(sql`select from auth.users where email = ${account.email}`)
  assert.equal(rows.length, 1)
})

test('OAuth: without auto_confirm, an unverified address must be confirmed by mail first', async () => {
  const confirming = await openOauthStage(platform, identity, github, { auto_confirm: false })
  await mailbox.servedBy(platform, confirming.project.id)
  const { name, account } = openidAccount({ email_verified: false })
  const first = await confirming.signIn('google', name)
  for (const parameters of [first.query, first.fragment])
    assert.equal(parameters['error_code'], 'email_not_confirmed')
  assert.equal((await confirming.counts()).sessions, 0)
  const [user] = await confirming.rows(sql`select * from auth.users where email = ${account.email}`)
  assert.equal(user.email_confirmed_at, null)
  assert.ok(user.confirmation_sent_at)
  const { link: followed } = await mailbox.nextLink(account.email)
  assert.equal((await fetch(followed, { redirect: 'manual' })).status, 303)
  assert.equal((await userOf(await confirming.signIn('google', name), confirming)).id, user.id)
  const { name: elsewhere } = githubAccount({
    emails: [{ email: account.email, primary: true, verified: true }],
  })
  const joined = await userOf(await confirming.signIn('github', elsewhere), confirming)
  assert.deepEqual([joined.id, joined.app_metadata.providers], [user.id, ['google', 'github']])

  // Once the provider has verified the address, no mail is needed.
  const { name: other, account: late } = openidAccount({ email_verified: false })
  assert.equal((await confirming.signIn('google', other)).fragment['error_code'], 'email_not_confirmed')
  identity.accounts.set(other, { ...late, email_verified: true })
  assert.ok((await userOf(await confirming.signIn('google', other), confirming)).email_confirmed_at)
})

test('OAuth: a new user gets one welcome mail', async () => {
  const { name, account } = openidAccount()
  await setup.signIn('google', name)
  await setup.signIn('google', name)
  const { subject } = await mailbox.next(account.email)
  assert.match(subject, /welcome/i)
  // Mail is sent in order: when the next user's mail is there, a second mail to the first user would be, too.
  const { name: next, account: other } = openidAccount()
  await setup.signIn('google', next)
  await mailbox.next(other.email)
  assert.deepEqual(mailbox.waiting(account.email), [])
})

const signedUp = async (email = someone().email) => {
  const body = { email, password: 'correct horse battery' }
  const { body: session } = await setup.call('POST', 'signup', { body })
  return session as { access_token: string; user: { id: string; email: string; identities: any[] } }
}
const linkUrl = async (token: string, query: Record<string, string>) => {
  const path = `user/identities/authorize?${new URLSearchParams({ skip_http_redirect: 'true', ...query })}`
  const { status, body } = await setup.call('GET', path, { token })
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

test('OAuth: a signed-in user links and unlinks identities, but not the last one', async () => {
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
  const remove = (id: string) => setup.call('DELETE', `user/identities/${id}`, { token })
  // After unlinking the first identity the user has the address of the remaining one.
  assert.equal((await remove(mail.identity_id)).status, 200)
  const left = (await setup.call('GET', 'user', { token })).body
  assert.equal(left.email, account.email)
  assert.deepEqual(left.app_metadata, { provider: 'google', providers: ['google'] })
  const body = { email: account.email, password: 'correct horse battery' }
  assert.equal((await setup.call('POST', 'token?grant_type=password', { body })).status, 400)
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

test('OAuth: unlinking is refused if the remaining address belongs to another user', async () => {
  const { access_token: token } = await signedUp()
  const { name, account } = openidAccount()
  const linked = await userOf({ place: site, query: {}, fragment: await link(token, 'google', name) })
  await signedUp(account.email)
  const mail = linked.identities.find(({ provider }: { provider: string }) => provider === 'email')
  const { status, body } = await setup.call('DELETE', `user/identities/${mail.identity_id}`, { token })
  assert.deepEqual([status, body.error_code], [422, 'email_conflict_identity_not_deletable'])
})

test('OAuth: linking an identity makes an anonymous user permanent', async () => {
  const { body: session } = await setup.call('POST', 'signup', { body: {} })
  const { name, account } = openidAccount()
  const fragment = await link(session.access_token, 'google', name)
  const user = await userOf({ place: site, query: {}, fragment })
  assert.deepEqual([user.id, user.is_anonymous, user.email], [session.user.id, false, account.email])
  assert.ok(user.email_confirmed_at)
})

test('OAuth: an ID token signs in with its nonce, for any client id of the project', async () => {
  const native = await identity.register('http://native.example/callback')
  const client_id = `${setup.client.client_id}, ${native.client_id}`
  await setup.configureProvider('google', { client_id })
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
  const { status, body: session } = await setup.call('POST', 'token?grant_type=id_token', { body })
  assert.equal(status, 200, JSON.stringify(session))
  assert.equal(session.user.email, account.email)
  assert.equal(session.user.identities[0].id, account.sub)
  // The first client id is the one sent to the provider.
  const landing = await setup.signIn('google', name)
  await setup.configureProvider('google', { client_id: setup.client.client_id })
  assert.equal((await userOf(landing)).id, session.user.id)
})

test('OAuth: an ID token links an identity to the signed-in user', async () => {
  const { access_token: token, user } = await signedUp()
  const { name } = openidAccount()
  const { id_token } = await identity.tokens(setup.client, setup.callback, name)
  const body = { provider: 'google', id_token, link_identity: true }
  const withoutSession = await setup.call('POST', 'token?grant_type=id_token', { body })
  assert.deepEqual([withoutSession.status, withoutSession.body.error_code], [401, 'no_authorization'])
  const { status, body: session } = await setup.call('POST', 'token?grant_type=id_token', { body, token })
  assert.equal(status, 200, JSON.stringify(session))
  assert.equal(session.user.id, user.id)
  assert.equal(session.user.identities.length, 2)
})
