// 1 §4.5 and auth contract §2, §4: users without an address, and how they become permanent.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  assertUser,
  authProject,
  claimsOf,
  password,
  someone,
  succeeded,
} from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let confirming: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

async function anonymous(api = auth, body: unknown = { data: {} }): Promise<any> {
  const session = succeeded(await api.post('/signup', body))
  assertSession(session)
  return session
}
const update = (session: any, change: unknown, api = auth) =>
  api.put('/user', change, { token: session.access_token })

test('1 §4.5 a sign-up without an address is anonymous, in both shapes of the URL', async () => {
  for (const shape of ['native', 'alias'] as const)
    for (const body of [{}, { data: {}, gotrue_meta_security: {} }]) {
      const session = succeeded(await auth.post('/signup', body, { shape }))
      assertSession(session)
      assert.partialDeepStrictEqual(session.user, {
        email: '',
        phone: '',
        role: 'authenticated',
        is_anonymous: true,
      })
      assert.deepEqual(session.user.identities, [])
      assert.deepEqual(session.user.app_metadata, {})
      assert.deepEqual(session.user.user_metadata, {})
      for (const field of ['email_confirmed_at', 'confirmed_at']) assert.ok(!(field in session.user), field)
    }
})

test('1 §4.5 an anonymous sign-up works without auto_confirm', async () => {
  assert.equal((await anonymous(confirming)).user.is_anonymous, true)
})

test('1 §4.5 an anonymous sign-up stores its data and no other field', async () => {
  const data = { nickname: 'fox', level: 3 }
  const session = await anonymous(auth, { data })
  assert.deepEqual(session.user.user_metadata, data)
  assert.deepEqual((await auth.readUser(session.user.id)).user_metadata, data)
  assert.deepEqual(claimsOf(session.access_token).user_metadata, data)
})

test('auth contract §5: an anonymous user has the role authenticated and is_anonymous true', async () => {
  const session = await anonymous()
  const claims = claimsOf(session.access_token)
  assert.partialDeepStrictEqual(claims, {
    aud: 'authenticated',
    role: 'authenticated',
    is_anonymous: true,
    email: '',
    sub: session.user.id,
  })
  assert.deepEqual(
    claims.amr.map(({ method }: any) => method),
    ['anonymous'],
  )
  const me = await it.call('GET', `/v1/whoami/${auth.project.id}`, {
    apikey: auth.project.anon_key,
    token: session.access_token,
  })
  assert.deepEqual([me.body.role, me.body.user_id], ['authenticated', session.user.id])
})

test('1 §4.5 each anonymous sign-up is a new user', async () => {
  const [one, two] = [await anonymous(), await anonymous()]
  assert.notEqual(one.user.id, two.user.id)
})

test('auth contract §4: with auto_confirm an address makes an anonymous user permanent immediately', async () => {
  const session = await anonymous(auth, { data: { nickname: 'fox' } })
  const email = someone()
  const user = succeeded(await update(session, { email }))
  assertUser(user)
  assert.deepEqual([user.id, user.email, user.is_anonymous], [session.user.id, email, false])
  assert.ok(user.email_confirmed_at)
  assert.ok(!('new_email' in user))
  assert.deepEqual(
    user.identities.map(({ provider, email }: any) => [provider, email]),
    [['email', email]],
  )
  assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
  assert.equal(user.user_metadata.nickname, 'fox')
  succeeded(await update(session, { password }))
  assert.equal((await auth.signIn({ email, password })).id, user.id)
  const refreshed = succeeded(
    await auth.post('/token?grant_type=refresh_token', { refresh_token: session.refresh_token }),
  )
  assert.partialDeepStrictEqual(claimsOf(refreshed.access_token), { is_anonymous: false, email })
})

test('auth contract §4: an anonymous user can set address and password together', async () => {
  const session = await anonymous()
  const email = someone()
  succeeded(await update(session, { email, password }))
  assert.equal((await auth.signIn({ email, password })).id, session.user.id)
})

test('auth contract §4: an anonymous user who sets only a password is 422', async () => {
  const session = await anonymous()
  const reply = await update(session, { password })
  assert.equal(reply.status, 422, reply.text)
  assertAuthError(reply, 422, reply.body.code)
  assert.equal((await auth.readUser(session.user.id)).is_anonymous, true)
})

test('auth contract §4: an anonymous user cannot take an address of another user', async () => {
  const me = await auth.signUp()
  const session = await anonymous()
  assertAuthError(await update(session, { email: me.email }), 422, 'email_exists')
  assert.equal((await auth.readUser(session.user.id)).email, '')
})

test('auth contract §7: without auto_confirm, an anonymous user is permanent after verifying the address', async () => {
  const session = await anonymous(confirming)
  const email = someone()
  const user = succeeded(await update(session, { email }, confirming))
  assert.deepEqual([user.email, user.new_email, user.is_anonymous], ['', email, true])
  const mail = await confirming.mailTo(email, 'verify_email')
  const verified = succeeded(
    await confirming.post('/verify', { type: 'email_change', email, token: mail.code }),
  )
  assertSession(verified)
  assert.deepEqual(
    [verified.user.id, verified.user.email, verified.user.is_anonymous],
    [session.user.id, email, false],
  )
  assert.ok(verified.user.email_confirmed_at && !('new_email' in verified.user))
  assert.equal(claimsOf(verified.access_token).is_anonymous, false)
})
