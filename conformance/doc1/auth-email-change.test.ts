// Auth contract §4 and §7: an email change takes effect when both addresses have confirmed it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  assertUser,
  authProject,
  claimsOf,
  type Mail,
  otherCode,
  password,
  type SignedIn,
  siteUrl,
  someone,
  succeeded,
  tokenHash,
} from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
})
after(() => it.stop())

interface Change {
  me: SignedIn
  email: string
  user: any
  /** The mails to the old and to the new address. */
  old: Mail
  fresh: Mail
}

async function change(email = someone('new')): Promise<Change> {
  const me = await auth.signUp()
  const user = succeeded(await auth.put('/user', { email }, { token: me.token }))
  const address = email.toLowerCase()
  return {
    me,
    email: address,
    user,
    old: await auth.mailTo(me.email, 'verify_email'),
    fresh: await auth.mailTo(address, 'verify_email'),
  }
}
const verify = (email: string, token: string, type = 'email_change') =>
  auth.post('/verify', { type, email, token })

/** Two ways to confirm, for either address. */
function assertHalf(reply: { status: number; body: any; text: string }): void {
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.body.code, '200', reply.text)
  assert.equal(typeof reply.body.msg, 'string')
  assert.ok(!('access_token' in reply.body))
}

test('auth contract §4: the old address stays until the change is verified', async () => {
  const { me, email, user, old, fresh } = await change()
  assertUser(user)
  assert.deepEqual([user.email, user.new_email], [me.email, email])
  assert.ok(user.email_change_sent_at)
  assert.deepEqual([old.type, fresh.type], ['email_change', 'email_change'])
  for (const mail of [old, fresh]) assert.match(mail.code, /^\d{6}$/)
  assert.equal(fresh.hash, tokenHash(email, fresh.code))
  assert.equal(old.hash, tokenHash(me.email, old.code))
  assert.equal((await auth.signIn(me)).session.user.email, me.email)
  const early = await auth.post('/token?grant_type=password', { email, password })
  assertAuthError(early, 400, 'invalid_credentials')
})

for (const first of ['old', 'fresh'] as const) {
  test(`auth contract §7: both codes are needed, the ${first} address first`, async () => {
    const { me, email, old, fresh } = await change()
    const half = { old: [me.email, old.code], fresh: [email, fresh.code] } as const
    assertHalf(await verify(...half[first]))
    assert.equal((await auth.readUser(me.id)).email, me.email)
    assertAuthError(await verify(...half[first]), 403, 'otp_expired')
    const session = succeeded(await verify(...half[first === 'old' ? 'fresh' : 'old']))
    assertSession(session)
    assert.deepEqual([session.user.id, session.user.email], [me.id, email])
    assert.ok(!('new_email' in session.user))
    assert.equal(claimsOf(session.access_token).email, email)
    assert.deepEqual(
      session.user.identities.map((each: any) => [each.provider, each.email, each.identity_data.email]),
      [['email', email, email]],
    )
    assert.equal(session.user.user_metadata.email, email)
    assert.equal((await auth.signIn({ email, password })).id, me.id)
    const before = await auth.post('/token?grant_type=password', { email: me.email, password })
    assertAuthError(before, 400, 'invalid_credentials')
  })

  test(`auth contract §7: both links are needed, the ${first} address first`, async () => {
    const { me, email, old, fresh } = await change()
    const [one, two] = first === 'old' ? [old, fresh] : [fresh, old]
    const half = await auth.follow(one.link)
    assert.deepEqual([half.status, half.place], [303, siteUrl])
    assert.deepEqual(Object.keys(half.fragment).toSorted(), ['message', 'sb'])
    assert.notEqual(half.fragment['message'], '')
    const whole = await auth.follow(two.link)
    assert.deepEqual([whole.status, whole.place], [303, siteUrl])
    assert.equal(whole.fragment['type'], 'email_change')
    assert.partialDeepStrictEqual(claimsOf(whole.fragment['access_token'] ?? ''), { sub: me.id, email })
    assert.equal((await auth.readUser(me.id)).email, email)
  })
}

test('auth contract §7: a link and a code, or two token hashes, work as well', async () => {
  const one = await change()
  assert.equal((await auth.follow(one.fresh.link)).status, 303)
  assertSession(succeeded(await verify(one.me.email, one.old.code)))
  const two = await change()
  const byHash = (hash: string) => auth.post('/verify', { type: 'email_change', token_hash: hash })
  assertHalf(await byHash(two.old.hash))
  assert.equal(succeeded(await byHash(two.fresh.hash)).user.email, two.email)
})

test('auth contract §7: the code of one address is not valid for the other', async () => {
  const { me, email, old, fresh } = await change()
  if (old.code !== fresh.code) {
    assertAuthError(await verify(me.email, fresh.code), 403, 'otp_expired')
    assertAuthError(await verify(email, old.code), 403, 'otp_expired')
  }
  for (const wrong of [otherCode(fresh.code), '', '000000000'])
    if (wrong !== old.code) assert.ok((await verify(email, wrong)).status >= 400)
  for (const type of ['signup', 'magiclink', 'recovery', 'invite', 'email'])
    assertAuthError(await verify(email, fresh.code, type), 403, 'otp_expired')
  assert.equal((await auth.readUser(me.id)).email, me.email)
})

test('auth contract §7: a second request invalidates the mails of the first', async () => {
  const { me, email, old, fresh } = await change()
  const other = someone('newer')
  const user = succeeded(await auth.put('/user', { email: other }, { token: me.token }))
  assert.equal(user.new_email, other)
  const newest = await auth.mailTo(me.email, 'verify_email', old)
  assertAuthError(await verify(email, fresh.code), 403, 'otp_expired')
  if (newest.code !== old.code) assertAuthError(await verify(me.email, old.code), 403, 'otp_expired')
  assertHalf(await verify(me.email, newest.code))
  const last = await auth.mailTo(other, 'verify_email')
  assert.equal(succeeded(await verify(other, last.code)).user.email, other)
})

test('auth contract §7: a confirmation for one new address does not count for the next', async () => {
  const { me, old } = await change()
  assertHalf(await verify(me.email, old.code))
  const other = someone('newer')
  succeeded(await auth.put('/user', { email: other }, { token: me.token }))
  const last = await auth.mailTo(other, 'verify_email')
  assertHalf(await verify(other, last.code))
  assert.equal((await auth.readUser(me.id)).email, me.email)
})

test('auth contract §3: a taken address is 422, case-insensitively', async () => {
  const [me, other] = [await auth.signUp(), await auth.signUp()]
  for (const email of [other.email, other.email.toUpperCase()])
    assertAuthError(await auth.put('/user', { email }, { token: me.token }), 422, 'email_exists')
  assert.ok(!('new_email' in (await auth.readUser(me.id))))
})

test('auth contract §3: an invalid address is 400', async () => {
  const me = await auth.signUp()
  for (const email of ['ada', 'ada@', 5, `ada@example.test\nBcc: ${someone()}`])
    assertAuthError(await auth.put('/user', { email }, { token: me.token }), 400, 'validation_failed')
})

test('auth contract §4: the new address is lower-cased', async () => {
  const { user, email } = await change(someone('New').toUpperCase())
  assert.equal(user.new_email, email)
})

test('auth contract §7: an address that another user took meanwhile is refused', async () => {
  const { me, email, old, fresh } = await change()
  const rival = await auth.signUp({ email })
  await verify(me.email, old.code)
  const reply = await verify(email, fresh.code)
  assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status} ${reply.text}`)
  assert.equal((await auth.readUser(me.id)).email, me.email)
  assert.equal((await auth.readUser(rival.id)).email, email)
})

test('auth contract §7: another user can take the old address', async () => {
  const { me, email, old, fresh } = await change()
  await verify(me.email, old.code)
  await verify(email, fresh.code)
  assert.notEqual((await auth.signUp({ email: me.email })).id, me.id)
})

for (const named of ['old', 'new'] as const)
  test(`auth contract §4: resend sends the pending change again, asked for with the ${named} address`, async () => {
    const { me, email, old, fresh } = await change()
    const address = named === 'old' ? me.email : email
    assert.deepEqual(succeeded(await auth.post('/resend', { type: 'email_change', email: address })), {})
    await auth.mailTo(address, 'verify_email', named === 'old' ? old : fresh)
    const [toOld, toNew] = [
      await auth.mailTo(me.email, 'verify_email'),
      await auth.mailTo(email, 'verify_email'),
    ]
    assertHalf(await verify(me.email, toOld.code))
    assert.equal(succeeded(await verify(email, toNew.code)).user.email, email)
  })
