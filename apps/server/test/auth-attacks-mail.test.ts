// Attacks with codes, links and addresses of mail, and on rate limits.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthProject, address, authProject, follow, password, unique } from './auth-project.ts'
import { caughtMail, lastLink } from './caught-mail.ts'
import { startGithubLike } from './github-like.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { startIdentityProvider } from './identity-provider.ts'
import { openOauthStage, someone } from './oauth-setup.ts'

let platform: TestPlatform
/** auto_confirm is off. */
let confirming: AuthProject
before(async () => {
  platform = await startPlatform({
    settings: { PLATFORM_TRUSTED_PROXIES: '127.0.0.1', PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8' },
  })
  confirming = await authProject(platform, { auto_confirm: false })
})
after(() => platform?.stop())

const theirs = 'the attacker’s own'
const mailTo = (to: string) => lastLink(platform, confirming.id, to)
const look = (text: string) => confirming.rows(text)
const signedIn = (email: string) => confirming.openSession(email)

async function confirmed(email = address(), project = confirming) {
  const made = await project.asAdmin('POST', '/admin/users', { email, password, email_confirm: true })
  assert.equal(made.status, 200, JSON.stringify(made.body))
  return { email, id: made.body.id as string }
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
  test(`auth: a code is not valid for an address that is ${what}, although both concatenate to the same text`, async () => {
    const { email } = await confirmed()
    await confirming.auth('POST', '/signup', { email: cut.address(email), password: theirs })
    // Repeat until a code begins with 0.
    for (;;) {
      await confirming.auth('POST', '/otp', { email })
      if (what !== 'a digit longer' || (await mailTo(email)).code.startsWith('0')) break
    }
    const { code } = await mailTo(email)
    const typed = { type: 'magiclink', email: cut.address(email), token: cut.code(code) }
    const reply = await confirming.auth('POST', '/verify', typed)
    assert.deepEqual([reply.status, reply.body.code], [403, 'otp_expired'])
    const own = await confirming.auth('POST', '/verify', { type: 'magiclink', email, token: code })
    assert.equal(own.status, 200, 'nor is it taken away from its owner')
  })

test('auth: wrong codes for an address count against all users with a pending change to it', async () => {
  const target = address()
  const users = await Promise.all([confirmed(), confirmed()])
  const codes: string[] = []
  for (const { email } of users) {
    const { access_token } = await signedIn(email)
    const begun = await confirming.asUser(access_token, 'PUT', '/user', { email: target })
    assert.equal(begun.status, 200)
    codes.push((await mailTo(target)).code)
  }
  const wrong = Array.from({ length: 14 }, (_, n) => otherThan(codes[0]!, n + 1)).filter(
    code => !codes.includes(code),
  )
  for (const token of wrong)
    await confirming.auth('POST', '/verify', { type: 'email_change', email: target, token })
  for (const token of codes) {
    const late = await confirming.auth('POST', '/verify', { type: 'email_change', email: target, token })
    assert.equal(late.status, 403)
  }
})

test('auth: requesting a new code does not reset the count of wrong codes', async () => {
  const { email } = await confirmed()
  let guesses = 0
  for (let round = 0; round < 5; round++) {
    await confirming.auth('POST', '/otp', { email })
    const { code } = await mailTo(email)
    for (let n = 1; n <= 9; n++, guesses++)
      await confirming.auth('POST', '/verify', { type: 'magiclink', email, token: otherThan(code, n) })
  }
  await confirming.auth('POST', '/otp', { email })
  const { code } = await mailTo(email)
  const late = await confirming.auth('POST', '/verify', { type: 'magiclink', email, token: code })
  assert.equal(late.status, 403, `after ${guesses} wrong codes before the code expired`)
})

test('auth: requesting an email change again does not reset the count of wrong codes', async () => {
  const target = address()
  const { access_token } = await signedIn((await confirmed()).email)
  const begin = () => confirming.asUser(access_token, 'PUT', '/user', { email: target })
  const type = (token: string) =>
    confirming.auth('POST', '/verify', { type: 'email_change', email: target, token })
  for (let round = 0; round < 5; round++) {
    assert.equal((await begin()).status, 200)
    const { code } = await mailTo(target)
    for (let n = 1; n <= 9; n++) await type(otherThan(code, n))
  }
  await begin()
  assert.equal((await type((await mailTo(target)).code)).status, 403)
})

test('auth: a link confirms only the address it was sent to', async () => {
  const { email, id } = await confirmed()
  const [victim, other] = [address(), address()]
  await confirming.auth('POST', '/recover', { email })
  const { link } = await mailTo(email)
  await look(`update auth.users set email = '${victim}', email_confirmed_at = null where id = '${id}'`)
  const followed = await follow(link)
  assert.match(followed.headers.get('location')!, /error_code=otp_expired/)
  const [user] = await look(`select email_confirmed_at from auth.users where id = '${id}'`)
  assert.equal(user.email_confirmed_at, null)

  const mover = await confirmed()
  const { access_token } = await signedIn(mover.email)
  await confirming.asUser(access_token, 'PUT', '/user', { email: other })
  const [toNew, toOld] = [await mailTo(other), await mailTo(mover.email)]
  await look(`update auth.users set email_change = '${victim}' where id = '${mover.id}'`)
  for (const { token } of [toNew, toOld])
    await confirming.auth('POST', '/verify', { type: 'email_change', token_hash: token })
  const [moved] = await look(`select email from auth.users where id = '${mover.id}'`)
  assert.equal(moved.email, mover.email)
})

// Accounts that an attacker signed up first

const arrivals: Record<string, (email: string) => Promise<unknown>> = {
  'signs up themselves': email =>
    confirming.auth('POST', '/signup', { email, password: 'the victim’s own', data: { name: 'Victor' } }),
  'asks for a code': email => confirming.auth('POST', '/otp', { email }),
  'asks for a new password': email => confirming.auth('POST', '/recover', { email }),
  'is invited': email => confirming.asAdmin('POST', '/invite', { email }),
  'asks for a code, and the attacker requests the confirmation again': async email => {
    await confirming.auth('POST', '/otp', { email })
    await confirming.auth('POST', '/resend', { email, type: 'signup' })
  },
  'asks for a code, and the attacker signs up again': async email => {
    await confirming.auth('POST', '/otp', { email })
    await confirming.auth('POST', '/signup', { email, password: theirs })
  },
}
for (const [what, arrive] of Object.entries(arrivals))
  test(`auth: an earlier sign-up by an attacker loses password, name and session once the owner of the address ${what}`, async () => {
    const email = address()
    await confirming.auth('POST', '/signup', { email, password: theirs, data: { full_name: 'Mallory' } })
    await arrive(email)
    const { link } = await mailTo(email)
    const followed = await follow(link)
    assert.match(followed.headers.get('location')!, /access_token=/)
    const attacker = await confirming.signIn(email, theirs)
    assert.deepEqual([attacker.status, attacker.body.code], [400, 'invalid_credentials'])
    const [user] = await look(`select raw_user_meta_data as data from auth.users where email = '${email}'`)
    assert.equal(user.data.full_name, undefined)
  })

test('auth: a sign-up link from the admin API sets the password of its request', async () => {
  const email = address()
  await confirming.auth('POST', '/signup', { email, password: theirs })
  const body = { type: 'signup', email, password: 'given by the server' }
  const made = await confirming.asAdmin('POST', '/admin/generate_link', body)
  assert.equal(made.status, 200, JSON.stringify(made.body))
  await follow(made.body.action_link)
  assert.equal((await confirming.signIn(email, theirs)).status, 400)
  assert.equal((await confirming.signIn(email, 'given by the server')).status, 200)
})

test('auth: a user who follows the link of the own sign-up keeps the password', async () => {
  const email = address()
  await confirming.auth('POST', '/signup', { email, password })
  await confirming.auth('POST', '/resend', { email, type: 'signup' })
  await follow((await mailTo(email)).link)
  assert.equal((await confirming.signIn(email)).status, 200)
})

test('auth: an auto-confirmed address stays unproven after auto_confirm is switched off', async () => {
  const [identity, github] = await Promise.all([startIdentityProvider(), startGithubLike()])
  try {
    const setup = await openOauthStage(platform, identity, github)
    const { name, email } = someone()
    identity.accounts.set(name, { sub: name, email, email_verified: true })
    const given = { body: { email, password: theirs } }
    const attacker = await setup.call('POST', 'signup', given)
    await setup.configure({ auto_confirm: false })
    const landing = await setup.signIn('google', name)
    assert.ok(landing.fragment['access_token'], JSON.stringify(landing))
    assert.equal((await setup.call('POST', 'token?grant_type=password', given)).status, 400)
    const token = attacker.body.access_token
    assert.equal((await setup.call('GET', 'user', { token })).status, 403)
  } finally {
    await identity.close()
    await github.close()
  }
})

// Addresses

test('auth: an address that cannot receive mail is rejected and creates no user', async () => {
  for (const email of [`${'a'.repeat(65)}@example.test`, `${unique()}@${'b.'.repeat(127)}c`])
    for (const path of ['/signup', '/otp', '/recover']) {
      const reply = await confirming.auth('POST', path, { email, password })
      assert.equal(reply.status, 400, `${path} ${email}`)
      assert.deepEqual(await look(`select from auth.users where email = '${email}'`), [])
    }
})

test('auth: addresses that differ only in case folding are the same mailbox', async () => {
  const name = unique()
  await confirmed(`k${name}@example.test`)
  // The lower case of the Kelvin sign is the letter k.
  await confirming.auth('POST', '/recover', { email: `\u212a${name}@example.test` })
  assert.equal((await caughtMail(platform, confirming.id, `k${name}@example.test`)).length, 1)
  assert.deepEqual(await caughtMail(platform, confirming.id, `\u212a${name}@example.test`), [])
})

test('auth: a redirect URL with non-ASCII characters is percent-encoded in the Location header', async () => {
  const project = await authProject(platform, { site_url: 'https://例え.example/ü' })
  const landed = await follow(`${platform.url}/v1/${project.id}/auth/v1/verify?token=x&type=signup`)
  assert.equal(landed.status, 303)
  assert.match(landed.headers.get('location')!, /^https:\/\/xn--r8jz45g\.example\/%C3%BC#error=/)
})

// Limits

test('auth: welcome mails count against the mail limit of the project', async () => {
  const project = await authProject(platform, {
    rate_limits: { email: 0, token: 0, mail: 3, mail_interval_seconds: 0 },
  })
  for (let n = 0; n < 6; n++)
    assert.equal((await project.auth('POST', '/signup', { email: address(), password })).status, 200)
  const outbox = `/api/v1/projects/${project.id}/email/outbox`
  const { body } = await platform.call('GET', outbox, { token: platform.adminToken })
  assert.equal(body.total, 3)
})

test('auth: a user name with a link does not appear in a mail', async () => {
  for (const full_name of ['Win at https://evil.test/now', 'www.evil.test', 'evil.test/now']) {
    const email = address()
    await confirming.auth('POST', '/signup', { email, password, data: { full_name } })
    const { text, html } = await mailTo(email)
    for (const body of [text, html]) assert.ok(!body.includes('evil.test'), full_name)
  }
})

test('auth: rate limits count an IPv6 network as one client', async () => {
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
  assert.deepEqual(await statusesFrom(['2001:db8:1:3::1']), [200], 'the next network has its own limit')
  const twice = ['192.0.2.1', '::ffff:192.0.2.1', '192.0.2.1', '::ffff:192.0.2.1']
  assert.deepEqual(await statusesFrom(twice), [200, 200, 200, 429])
  assert.deepEqual(
    await statusesFrom(['198.51.100.1, 192.0.2.1']),
    [429],
    'addresses written by the client are ignored',
  )
})

test('auth: an exceeded mail limit does not show whether an address has an account', async () => {
  const answers = []
  for (const isKnown of [true, false]) {
    const project = await authProject(platform, {
      auto_confirm: false,
      rate_limits: { email: 0, mail: 3, mail_interval_seconds: 0 },
    })
    const { email } = await confirmed(undefined, project)
    for (let n = 0; n < 2; n++) await project.auth('POST', '/otp', { email: address() })
    const replies = []
    for (const each of [isKnown ? email : address(), address(), email, address()])
      replies.push(await project.auth('POST', '/recover', { email: each }))
    answers.push(replies.map(({ status, body }) => `${status} ${body.code}`))
  }
  assert.deepEqual(answers[0], answers[1])
})
