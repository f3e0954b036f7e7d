// Auth contract §4 and §7, case 23: requesting and verifying codes and links by mail.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  authProject,
  authRoot,
  claimsOf,
  type Mail,
  otherCode,
  password,
  type SignedIn,
  seen,
  siteUrl,
  someone,
  succeeded,
  tokenHash,
} from '../auth.ts'
import { sleep } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let confirming: AuthApi
/** Sent before the first test and used by the last one, because it expires after a minute. */
let shortLived: { api: AuthApi; me: SignedIn; mail: Mail; sentAt: number }
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
  const api = await authProject(it, { otp_expiry_seconds: 60 })
  const me = await api.signUp()
  succeeded(await api.post('/otp', { email: me.email }))
  const mail = await api.mailTo(me.email, 'magic_link')
  shortLived = { api, me, mail, sentAt: Date.now() }
})
after(() => it.stop())

const verify = (body: unknown, api = auth) => api.post('/verify', body)
async function magicLink(me: { email: string }, after?: Mail, api = auth): Promise<Mail> {
  assert.deepEqual(succeeded(await api.post('/otp', { email: me.email, create_user: false })), {})
  return api.mailTo(me.email, 'magic_link', after)
}

for (const path of ['/otp', '/magiclink', '/magic-link'])
  for (const shape of ['native', 'alias'] as const)
    test(`auth contract §4: ${path} sends a link and a code (${shape})`, async () => {
      const me = await auth.signUp()
      const body = { email: me.email, data: {}, create_user: true, gotrue_meta_security: {} }
      assert.deepEqual(succeeded(await auth.post(path, body, { shape })), {})
      const mail = await auth.mailTo(me.email, 'magic_link')
      const link = new URL(mail.link)
      assert.ok(
        [`${authRoot(auth.project)}/verify`, `${authRoot(auth.project, 'native')}/verify`].includes(
          link.pathname,
        ),
        mail.link,
      )
      assert.equal(link.searchParams.get('type'), 'magiclink')
      assert.equal(link.searchParams.get('redirect_to'), siteUrl)
      assert.match(mail.code, /^\d{6}$/)
      assert.equal(mail.hash, tokenHash(me.email, mail.code))
    })

test('auth contract §7: a code signs in with the types magiclink and email', async () => {
  for (const type of ['magiclink', 'email']) {
    const me = await auth.signUp()
    const { code } = await magicLink(me)
    const fields = { type, email: me.email.toUpperCase(), token: code, options: {}, gotrue_meta_security: {} }
    const session = succeeded(await verify(fields))
    assertSession(session)
    assert.equal(session.user.id, me.id)
    assert.notEqual(claimsOf(session.access_token).session_id, me.sessionId)
    assert.equal(succeeded(await auth.get('/user', { token: session.access_token })).id, me.id)
    succeeded(await auth.get('/user', { token: me.token }))
  }
})

test('auth contract §4: the token hash from the link signs in as well', async () => {
  for (const type of ['magiclink', 'email']) {
    const me = await auth.signUp()
    const { hash } = await magicLink(me)
    assert.equal(succeeded(await verify({ type, token_hash: hash })).user.id, me.id)
    assertAuthError(await verify({ type, token_hash: hash }), 403, 'otp_expired')
  }
})

test('auth contract §7: a code works once, and so does its link', async () => {
  const me = await auth.signUp()
  const byCode = await magicLink(me)
  const fields = { type: 'email', email: me.email, token: byCode.code }
  assertSession(succeeded(await verify(fields)))
  assertAuthError(await verify(fields), 403, 'otp_expired')
  assert.equal((await auth.follow(byCode.link)).fragment['error_code'], 'otp_expired')
  const byLink = await magicLink(me, byCode)
  assert.ok((await auth.follow(byLink.link)).fragment['access_token'])
  assertAuthError(await verify({ ...fields, token: byLink.code }), 403, 'otp_expired')
})

test('case 23: of twenty concurrent uses of one code one signs in', async () => {
  const me = await auth.signUp()
  const mail = await magicLink(me)
  const [byCode, byHash] = [
    { type: 'email', email: me.email, token: mail.code },
    { type: 'email', token_hash: mail.hash },
  ]
  const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => verify(n % 2 ? byCode : byHash)))
  const statuses = replies.map(({ status }) => status).toSorted()
  assert.deepEqual(statuses, [200, ...Array(19).fill(403)])
})

test('auth contract §7: a newer code replaces the older one', async () => {
  const me = await auth.signUp()
  const first = await magicLink(me)
  const second = await magicLink(me, first)
  if (first.code !== second.code) {
    const old = { type: 'email', email: me.email, token: first.code }
    assertAuthError(await verify(old), 403, 'otp_expired')
    assertAuthError(await verify({ type: 'email', token_hash: first.hash }), 403, 'otp_expired')
  }
  assertSession(succeeded(await verify({ type: 'email', email: me.email, token: second.code })))
})

test('auth contract §7: magic links and recoveries share one slot', async () => {
  const me = await auth.signUp()
  const link = await magicLink(me)
  succeeded(await auth.post('/recover', { email: me.email }))
  const recovery = await auth.mailTo(me.email, 'reset_password')
  if (link.code !== recovery.code)
    assertAuthError(
      await verify({ type: 'magiclink', email: me.email, token: link.code }),
      403,
      'otp_expired',
    )
  const newest = await magicLink(me, link)
  if (newest.code !== recovery.code)
    assertAuthError(
      await verify({ type: 'recovery', email: me.email, token: recovery.code }),
      403,
      'otp_expired',
    )
  assertSession(succeeded(await verify({ type: 'magiclink', email: me.email, token: newest.code })))
})

test('auth contract §7: every failure is the same 403', async () => {
  const [me, other] = [await auth.signUp(), await auth.signUp()]
  const mail = await magicLink(me)
  const wrong = otherCode(mail.code)
  const replies = []
  for (const fields of [
    { type: 'email', email: me.email, token: wrong },
    { type: 'magiclink', email: me.email, token: wrong },
    { type: 'signup', email: me.email, token: mail.code },
    { type: 'invite', email: me.email, token: mail.code },
    { type: 'email_change', email: me.email, token: mail.code },
    { type: 'email', email: other.email, token: mail.code },
    { type: 'email', email: someone(), token: mail.code },
    { type: 'email', email: me.email, token: 'not a code' },
    { type: 'email', token_hash: tokenHash(me.email, wrong) },
    { type: 'email', token_hash: 'nonsense' },
    { type: 'email', token_hash: mail.code },
    { type: 'signup', token_hash: mail.hash },
  ]) {
    const reply = await verify(fields)
    assertAuthError(reply, 403, 'otp_expired')
    replies.push(seen(reply))
  }
  for (const reply of replies) assert.deepEqual(reply, replies[0])
  assertSession(succeeded(await verify({ type: 'email', email: me.email, token: mail.code })))
})

test('1 §1 a code of one project is invalid in another', async () => {
  const me = await auth.signUp()
  await confirming.createUser({ email: me.email })
  const mail = await magicLink(me)
  const elsewhere = { type: 'email', email: me.email, token: mail.code }
  assertAuthError(await verify(elsewhere, confirming), 403, 'otp_expired')
  assertAuthError(await verify({ type: 'email', token_hash: mail.hash }, confirming), 403, 'otp_expired')
  const link = mail.link.replaceAll(auth.project.id, confirming.project.id)
  assert.equal((await auth.follow(link)).fragment['error_code'], 'otp_expired')
  assertSession(succeeded(await verify(elsewhere)))
})

test('auth contract §7: a verification takes either token, or only token_hash and type', async () => {
  const me = await auth.signUp()
  const mail = await magicLink(me)
  for (const fields of [
    {},
    { type: 'email' },
    { email: me.email, token: mail.code },
    { type: 'email', token: mail.code },
    { type: 'email', email: me.email },
    { type: 'email', email: me.email, token: '' },
    { type: 'email', email: me.email, token: mail.code, token_hash: mail.hash },
    { type: 'email', email: me.email, token_hash: mail.hash },
    { type: 'email', phone: '+4915112345678', token_hash: mail.hash },
    { type: 'email', redirect_to: siteUrl, token_hash: mail.hash },
    { type: 'email', token_hash: '' },
    { type: 'nosuch', email: me.email, token: mail.code },
    { type: 'nosuch', token_hash: mail.hash },
    { type: 5, token_hash: mail.hash },
    { type: 'email', email: me.email, token: Number(mail.code) },
    { type: 'email', email: 'nonsense', token: mail.code },
  ]) {
    const reply = await verify(fields)
    assert.equal(reply.status, 400, `${JSON.stringify(fields)}: ${reply.status} ${reply.text}`)
    assertAuthError(reply, 400, 'validation_failed')
  }
  for (const type of ['sms', 'phone_change']) {
    const reply = await verify({ type, phone: '+4915112345678', token: mail.code })
    assert.ok(reply.status === 400 || reply.status === 403, `${reply.status} ${reply.text}`)
  }
  assertSession(succeeded(await verify({ type: 'email', email: me.email, token: mail.code })))
})

test('auth contract §4: a request needs an address', async () => {
  for (const path of ['/otp', '/magiclink', '/magic-link'])
    for (const body of [{}, { email: '' }, { email: 'nonsense' }, { email: 5 }])
      assertAuthError(await auth.post(path, body), 400, 'validation_failed')
  const phone = await auth.post('/otp', { phone: '+4915112345678', create_user: true })
  assert.ok(phone.status === 400 || phone.status === 422, `${phone.status} ${phone.text}`)
})

test('auth contract §7: an unknown address gets a confirmation mail, which signs up', async () => {
  for (const api of [auth, confirming])
    for (const type of ['signup', 'email']) {
      const email = someone()
      assert.deepEqual(succeeded(await api.post('/otp', { email, create_user: true })), {})
      const mail = await api.mailTo(email, 'magic_link')
      assert.equal(mail.type, 'signup')
      const [{ id, confirmed }] = await api.sql(
        `select id, email_confirmed_at is not null as confirmed from auth.users where email = '${email}'`,
      )
      assert.equal(confirmed, false)
      assertAuthError(await verify({ type: 'magiclink', email, token: mail.code }, api), 403, 'otp_expired')
      const session = succeeded(await verify({ type, email, token: mail.code }, api))
      assertSession(session)
      assert.deepEqual([session.user.id, session.user.email], [id, email])
      assert.ok(session.user.email_confirmed_at)
      assert.deepEqual(session.user.app_metadata, { provider: 'email', providers: ['email'] })
      assert.deepEqual(
        session.user.identities.map(({ provider }: any) => provider),
        ['email'],
      )
    }
})

test('auth contract §7: a user created by mail has no password and can set one', async () => {
  const email = someone()
  succeeded(await auth.post('/otp', { email }))
  const mail = await auth.mailTo(email, 'magic_link')
  const session = succeeded(await verify({ type: 'email', email, token: mail.code }))
  for (const given of ['', email, mail.code])
    assertAuthError(
      await auth.post('/token?grant_type=password', { email, password: given }),
      400,
      'invalid_credentials',
    )
  succeeded(await auth.put('/user', { password }, { token: session.access_token }))
  assert.equal((await auth.signIn({ email, password })).id, session.user.id)
})

test('1 §4.5 a sign-up by code or magic link does not capture data at the first verification', async () => {
  for (const path of ['/otp', '/magiclink', '/magic-link'])
    for (const api of [auth, confirming]) {
      const email = someone()
      succeeded(await api.post(path, { email, data: { plan: 'gold' }, create_user: true }))
      const mail = await api.mailTo(email, 'magic_link')
      const { user } = succeeded(await verify({ type: 'email', email, token: mail.code }, api))
      assert.equal(user.user_metadata.plan, undefined, path)
      assert.equal((await api.readUser(user.id)).user_metadata.plan, undefined, path)
    }
})

test('1 §4.5 a one-time code does not change the data of an existing user', async () => {
  const me = await auth.signUp({ data: { plan: 'silver' } })
  succeeded(await auth.post('/otp', { email: me.email, data: { plan: 'gold' } }))
  const mail = await auth.mailTo(me.email, 'magic_link')
  const { user } = succeeded(await verify({ type: 'email', email: me.email, token: mail.code }))
  assert.equal(user.user_metadata.plan, 'silver')
})

test('auth contract §4: create_user false creates no user and gives the same answer', async () => {
  const email = someone()
  assert.deepEqual(succeeded(await auth.post('/otp', { email, create_user: false })), {})
  assert.deepEqual(await auth.kindsTo(email), [])
  assert.deepEqual(await auth.sql(`select 1 from auth.users where email = '${email}'`), [])
})

test('auth contract §7: a recovery confirms an unconfirmed address', async () => {
  const { email, id } = await confirming.createUser({ email_confirm: false })
  succeeded(await confirming.post('/recover', { email }))
  const mail = await confirming.mailTo(email, 'reset_password')
  const { user } = succeeded(await verify({ type: 'recovery', email, token: mail.code }, confirming))
  assert.equal(user.id, id)
  assert.ok(user.email_confirmed_at)
  assert.equal(user.identities[0].identity_data.email_verified, true)
})

test('auth contract §3: a banned user gets no session by mail', async () => {
  const me = await auth.signUp()
  const mail = await magicLink(me)
  succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, { ban_duration: '1h' }))
  const reply = await verify({ type: 'email', email: me.email, token: mail.code })
  assert.equal(reply.status, 403, reply.text)
  const landing = await auth.follow(mail.link)
  assert.equal(landing.fragment['access_token'], undefined)
  assert.equal(landing.fragment['error'], 'access_denied')
})

test('issue: codes and links are stored hashed', async () => {
  const email = someone()
  succeeded(await confirming.post('/signup', { email, password }))
  const mail = await confirming.mailTo(email, 'verify_email')
  const rows = await confirming.sql(
    `select t::text as row from auth.one_time_tokens t union all select u::text from auth.users u`,
  )
  assert.ok(rows.length > 1)
  // As a separate number, because times and hashes may contain the same digits.
  const code = new RegExp(`(?<![\\w.])${mail.code}(?![\\w.])`)
  for (const { row } of rows) {
    assert.ok(!row.includes(mail.hash), 'the token of the link is stored')
    assert.doesNotMatch(row, code, 'the code is stored')
  }
  assertSession(succeeded(await verify({ type: 'signup', email, token: mail.code }, confirming)))
})

test('auth contract §7: after otp_expiry_seconds neither code nor link signs in', async () => {
  const { api, me, mail, sentAt } = shortLived
  await sleep(Math.max(0, sentAt + 61_000 - Date.now()))
  assertAuthError(await verify({ type: 'email', email: me.email, token: mail.code }, api), 403, 'otp_expired')
  assertAuthError(await verify({ type: 'email', token_hash: mail.hash }, api), 403, 'otp_expired')
  const landing = await api.follow(mail.link)
  assert.equal(landing.fragment['error_code'], 'otp_expired')
  assert.equal(landing.fragment['access_token'], undefined)
})
