// Ways to somebody else's account, and what a user may not do even with their own.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { raw } from '#src/kernel/postgres/sql.ts'
import { totpCode } from '#src/services/auth/mfa/totp.ts'
import { caughtMail, lastLink } from './caught-mail.ts'
import { startGithubLike } from './github-like.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { startIdentityProvider } from './identity-provider.ts'
import { newPkce, openOauthStage, someone } from './oauth-stage.ts'
import { type AuthProject, authProject, password } from './signed-up.ts'

let platform: TestPlatform
/** Sign-ups are sessions at once, as they are unless somebody says otherwise. */
let quick: AuthProject
/** Addresses are verified by mail. */
let careful: AuthProject
before(async () => {
  platform = await startPlatform({
    settings: { PLATFORM_TRUSTED_PROXIES: '127.0.0.1', PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8' },
  })
  ;[quick, careful] = await Promise.all([
    authProject(platform, { providers: { github: { enabled: true, client_id: 'a', client_secret: 'b' } } }),
    authProject(platform, { auto_confirm: false }),
  ])
})
after(() => platform?.stop())

const theirs = 'the attacker’s own'
const unique = () => randomBytes(6).toString('hex')
const address = () => `${unique()}@example.test`
const mailTo = (to: string, project = careful) => lastLink(platform, project.id, to)
const follow = (link: string) => fetch(link, { redirect: 'manual' })
const look = async <T = any>(text: string, project = careful) =>
  platform.asSuperuser(await platform.refOf(project.id), session => session.rows<T>(raw(text)))

async function confirmed(email = address(), project = careful) {
  const made = await project.asAdmin('POST', '/admin/users', { email, password, email_confirm: true })
  assert.equal(made.status, 200, JSON.stringify(made.body))
  return { email, id: made.body.id as string }
}
const signedIn = async (email: string, project = careful) => {
  const { status, body } = await project.signIn(email)
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const otherThan = (code: string, by: number) => String((Number(code) + by) % 1_000_000).padStart(6, '0')

// One-time codes

for (const [what, cut] of [
  [
    'a letter shorter',
    { address: (email: string) => email.slice(0, -1), code: (code: string) => `t${code}` },
  ],
  ['a digit longer', { address: (email: string) => `${email}0`, code: (code: string) => code.slice(1) }],
] as const)
  test(`a code cannot be typed for an address that is ${what}: address and code together are not enough`, async () => {
    const { email } = await confirmed()
    await careful.auth('POST', '/signup', { email: cut.address(email), password: theirs })
    // Until there is one that begins with 0.
    for (;;) {
      await careful.auth('POST', '/otp', { email })
      if (what !== 'a digit longer' || (await mailTo(email)).code.startsWith('0')) break
    }
    const { code } = await mailTo(email)
    const typed = { type: 'magiclink', email: cut.address(email), token: cut.code(code) }
    const reply = await careful.auth('POST', '/verify', typed)
    assert.deepEqual([reply.status, reply.body.code], [403, 'otp_expired'])
    const own = await careful.auth('POST', '/verify', { type: 'magiclink', email, token: code })
    assert.equal(own.status, 200, 'nor is it taken away from its owner')
  })

test('codes for an address that several users want are counted for all of them', async () => {
  const target = address()
  const users = await Promise.all([confirmed(), confirmed()])
  const codes: string[] = []
  for (const { email } of users) {
    const { access_token } = await signedIn(email)
    const begun = await careful.asUser(access_token, 'PUT', '/user', { email: target })
    assert.equal(begun.status, 200)
    codes.push((await mailTo(target)).code)
  }
  const wrong = Array.from({ length: 14 }, (_, n) => otherThan(codes[0]!, n + 1)).filter(
    code => !codes.includes(code),
  )
  for (const token of wrong)
    await careful.auth('POST', '/verify', { type: 'email_change', email: target, token })
  for (const token of codes) {
    const late = await careful.auth('POST', '/verify', { type: 'email_change', email: target, token })
    assert.equal(late.status, 403)
  }
})

test('a code asked for anew does not give the guesses back', async () => {
  const { email } = await confirmed()
  let guesses = 0
  for (let round = 0; round < 5; round++) {
    await careful.auth('POST', '/otp', { email })
    const { code } = await mailTo(email)
    for (let n = 1; n <= 9; n++, guesses++)
      await careful.auth('POST', '/verify', { type: 'magiclink', email, token: otherThan(code, n) })
  }
  await careful.auth('POST', '/otp', { email })
  const { code } = await mailTo(email)
  const late = await careful.auth('POST', '/verify', { type: 'magiclink', email, token: code })
  assert.equal(late.status, 403, `after ${guesses} wrong codes within the life of one`)
})

test('a change of address that is asked for anew does not give the guesses back, either', async () => {
  const target = address()
  const { access_token } = await signedIn((await confirmed()).email)
  const begin = () => careful.asUser(access_token, 'PUT', '/user', { email: target })
  const type = (token: string) =>
    careful.auth('POST', '/verify', { type: 'email_change', email: target, token })
  for (let round = 0; round < 5; round++) {
    assert.equal((await begin()).status, 200)
    const { code } = await mailTo(target)
    for (let n = 1; n <= 9; n++) await type(otherThan(code, n))
  }
  await begin()
  assert.equal((await type((await mailTo(target)).code)).status, 403)
})

test('a link proves the address it was sent to, and no other', async () => {
  const { email, id } = await confirmed()
  const [victim, other] = [address(), address()]
  await careful.auth('POST', '/recover', { email })
  const { link } = await mailTo(email)
  await look(`update auth.users set email = '${victim}', email_confirmed_at = null where id = '${id}'`)
  const followed = await follow(link)
  assert.match(followed.headers.get('location')!, /error_code=otp_expired/)
  const [user] = await look(`select email_confirmed_at from auth.users where id = '${id}'`)
  assert.equal(user.email_confirmed_at, null)

  const mover = await confirmed()
  const { access_token } = await signedIn(mover.email)
  await careful.asUser(access_token, 'PUT', '/user', { email: other })
  const [toNew, toOld] = [await mailTo(other), await mailTo(mover.email)]
  await look(`update auth.users set email_change = '${victim}' where id = '${mover.id}'`)
  for (const { token } of [toNew, toOld])
    await careful.auth('POST', '/verify', { type: 'email_change', token_hash: token })
  const [moved] = await look(`select email from auth.users where id = '${mover.id}'`)
  assert.equal(moved.email, mover.email)
})

// Accounts somebody else has begun

const arrivals: Record<string, (email: string) => Promise<unknown>> = {
  'signs up themselves': email =>
    careful.auth('POST', '/signup', { email, password: 'the victim’s own', data: { name: 'Victor' } }),
  'asks for a code': email => careful.auth('POST', '/otp', { email }),
  'asks for a new password': email => careful.auth('POST', '/recover', { email }),
  'is invited': email => careful.asAdmin('POST', '/invite', { email }),
  'asks for a code, and the stranger has the confirmation sent again': async email => {
    await careful.auth('POST', '/otp', { email })
    await careful.auth('POST', '/resend', { email, type: 'signup' })
  },
  'asks for a code, and the stranger signs up once more': async email => {
    await careful.auth('POST', '/otp', { email })
    await careful.auth('POST', '/signup', { email, password: theirs })
  },
}
for (const [what, arrive] of Object.entries(arrivals))
  test(`a stranger who signed up first has no password, no name and no session once the owner of the address ${what}`, async () => {
    const email = address()
    await careful.auth('POST', '/signup', { email, password: theirs, data: { full_name: 'Mallory' } })
    await arrive(email)
    const { link } = await mailTo(email)
    const followed = await follow(link)
    assert.match(followed.headers.get('location')!, /access_token=/)
    const stranger = await careful.signIn(email, theirs)
    assert.deepEqual([stranger.status, stranger.body.code], [400, 'invalid_credentials'])
    const [user] = await look(`select raw_user_meta_data as data from auth.users where email = '${email}'`)
    assert.equal(user.data.full_name, undefined)
  })

test('a link that the project’s server makes for a sign-up gives the password it was asked for', async () => {
  const email = address()
  await careful.auth('POST', '/signup', { email, password: theirs })
  const body = { type: 'signup', email, password: 'given by the server' }
  const made = await careful.asAdmin('POST', '/admin/generate_link', body)
  assert.equal(made.status, 200, JSON.stringify(made.body))
  await follow(made.body.action_link)
  assert.equal((await careful.signIn(email, theirs)).status, 400)
  assert.equal((await careful.signIn(email, 'given by the server')).status, 200)
})

test('whoever follows the link of their own sign-up keeps the password', async () => {
  const email = address()
  await careful.auth('POST', '/signup', { email, password })
  await careful.auth('POST', '/resend', { email, type: 'signup' })
  await follow((await mailTo(email)).link)
  assert.equal((await careful.signIn(email)).status, 200)
})

test('a sign-up that proved nothing proves nothing after the setting was changed', async () => {
  const [identity, github] = await Promise.all([startIdentityProvider(), startGithubLike()])
  try {
    const stage = await openOauthStage(platform, identity, github)
    const { name, email } = someone()
    identity.accounts.set(name, { sub: name, email, email_verified: true })
    const given = { body: { email, password: theirs } }
    const stranger = await stage.call('POST', 'signup', given)
    await stage.configure({ auto_confirm: false })
    const landing = await stage.signIn('google', name)
    assert.ok(landing.fragment['access_token'], JSON.stringify(landing))
    assert.equal((await stage.call('POST', 'token?grant_type=password', given)).status, 400)
    const token = stranger.body.access_token
    assert.equal((await stage.call('GET', 'user', { token })).status, 403)
  } finally {
    await identity.close()
    await github.close()
  }
})

// What ends with a password, a session, an address

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
  test(`a code that is not exchanged yet is worth nothing once its user ${what}`, async () => {
    const email = address()
    const made = await quick.signUp(email)
    const exchange = await codeInHand(email)
    const ended = await end(made)
    assert.ok([200, 204].includes(ended.status), JSON.stringify(ended.body))
    const reply = await exchange()
    assert.ok([400, 404].includes(reply.status), `${reply.status} ${JSON.stringify(reply.body)}`)
  })

test('an identity cannot be added by a session that has ended meanwhile', async () => {
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

/** Enrols one; answers the token of the session that has passed it. */
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

test('without the second factor nobody adds or removes a way to sign in', async () => {
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

test('a second factor ends what others have begun without it', async () => {
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

test('without the second factor nobody learns whether a password is the right one', async () => {
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

test('data that no access token can carry is refused, and nobody locks themselves out', async () => {
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
  assert.ok(aud.status === 400 || aud.status === 422, 'nor does the audience grow')
})

// Addresses

test('what cannot be mailed to is no address, and leaves nothing behind', async () => {
  for (const email of [`${'a'.repeat(65)}@example.test`, `${unique()}@${'b.'.repeat(127)}c`])
    for (const path of ['/signup', '/otp', '/recover']) {
      const reply = await careful.auth('POST', path, { email, password })
      assert.equal(reply.status, 400, `${path} ${email}`)
      assert.deepEqual(await look(`select from auth.users where email = '${email}'`), [])
    }
})

test('letters that fold into others lead to the one mailbox that is meant', async () => {
  const name = unique()
  await confirmed(`k${name}@example.test`)
  // The sign of the kelvin is a K to whoever makes small letters of it.
  await careful.auth('POST', '/recover', { email: `\u212a${name}@example.test` })
  assert.equal((await caughtMail(platform, careful.id, `k${name}@example.test`)).length, 1)
  assert.deepEqual(await caughtMail(platform, careful.id, `\u212a${name}@example.test`), [])
})

// Limits

test('a welcome is a mail like any other to the limit of the project', async () => {
  const project = await authProject(platform, {
    rate_limits: { email: 0, token: 0, mail: 3, mail_interval_seconds: 0 },
  })
  for (let n = 0; n < 6; n++)
    assert.equal((await project.auth('POST', '/signup', { email: address(), password })).status, 200)
  const outbox = `/api/v1/projects/${project.id}/email/outbox`
  const { body } = await platform.call('GET', outbox, { token: platform.adminToken })
  assert.equal(body.total, 3)
})

test('the name a stranger gives carries no link into somebody’s mailbox', async () => {
  for (const full_name of ['Win at https://evil.test/now', 'www.evil.test', 'evil.test/now']) {
    const email = address()
    await careful.auth('POST', '/signup', { email, password, data: { full_name } })
    const { text, html } = await mailTo(email)
    for (const body of [text, html]) assert.ok(!body.includes('evil.test'), full_name)
  }
})

test('a network counts as one address, however many it has', async () => {
  const limit = { anonymous: 3, token: 3, email: 3, verify: 3, mfa: 3 }
  const project = await authProject(platform, { rate_limits: limit })
  const statusesFrom = async (addresses: string[]) => {
    const statuses = []
    for (const from of addresses)
      statuses.push(
        (await project.auth('POST', '/signup', {}, { headers: { 'x-forwarded-for': from } })).status,
      )
    return statuses
  }
  const network = Array.from({ length: 5 }, (_, n) => `2001:db8:1:2:${n}::${n}`)
  assert.deepEqual(await statusesFrom(network), [200, 200, 200, 429, 429])
  assert.deepEqual(await statusesFrom(['2001:db8:1:3::1']), [200], 'the next network has its own')
  const twice = ['192.0.2.1', '::ffff:192.0.2.1', '192.0.2.1', '::ffff:192.0.2.1']
  assert.deepEqual(await statusesFrom(twice), [200, 200, 200, 429])
  assert.deepEqual(await statusesFrom(['198.51.100.1, 192.0.2.1']), [429], 'what the client wrote itself')
})

test('mail that is used up tells nobody whether an address has an account', async () => {
  const answers = []
  for (const isKnown of [true, false]) {
    const project = await authProject(platform, {
      auto_confirm: false,
      rate_limits: { email: 0, mail: 3, mail_interval_seconds: 0 },
    })
    const { email } = await confirmed(undefined, project)
    for (let n = 0; n < 2; n++) await project.auth('POST', '/otp', { email: address() })
    const asked = []
    for (const each of [isKnown ? email : address(), address(), email, address()])
      asked.push(await project.auth('POST', '/recover', { email: each }))
    answers.push(asked.map(({ status, body }) => `${status} ${body.code}`))
  }
  assert.deepEqual(answers[0], answers[1])
})

// Sessions

test('a user has a bounded number of sessions; the oldest make room', async () => {
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

test('a place that no header can carry is written so that one can', async () => {
  const project = await authProject(platform, { site_url: 'https://例え.example/ü' })
  const landed = await follow(`${platform.url}/v1/${project.id}/auth/v1/verify?token=x&type=signup`)
  assert.equal(landed.status, 303)
  assert.match(landed.headers.get('location')!, /^https:\/\/xn--r8jz45g\.example\/%C3%BC#error=/)
})

test('keys of a project open nothing of the management plane, and its credentials nothing of a project', async () => {
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

test('nothing secret of a user is in the log or the audit log', async () => {
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
  // A body that is no JSON, and a database that refuses in the middle of things.
  await platform.call('POST', `/v1/${project.id}/auth/v1/token?grant_type=password`, {
    apikey: project.anon_key,
    body: `{"email":"${email}","password":"${secret}"`,
  })
  await look('alter table auth.sessions rename to away', project)
  await project.signIn(email, `old-${secret}`)
  await project.auth('POST', '/token?grant_type=refresh_token', { refresh_token })
  await look('alter table auth.away rename to sessions', project)
  const audit = await platform.call('GET', '/api/v1/platform/audit?limit=500', { token: platform.adminToken })
  const told = platform.logged.join('\n') + JSON.stringify(audit.body)
  assert.ok(told.includes('SQLSTATE 42P01'), 'the failures were logged')
  for (const each of secrets) assert.ok(each && !told.includes(each), `${each} is in the log`)
  assert.ok(!told.includes(email), 'nor is an address')
})
