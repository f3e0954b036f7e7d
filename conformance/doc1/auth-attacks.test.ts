// 1 §4.5, the auth contract §4 and cases 15, 22: fields that users must not set themselves, and facts about users that
// strangers must not find out.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertRefused,
  authProject,
  claimsOf,
  noLimits,
  password,
  seen,
  someone,
  succeeded,
} from '../auth.ts'
import { someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let open: AuthApi
/** Without auto_confirm. */
let confirming: AuthApi
before(async () => {
  it = await target()
  open = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

// Case 15: mass assignment

const past = '2020-01-01T00:00:00Z'

/** All privileged fields that an attacker might send. */
const privilegedFields: Record<string, unknown> = {
  id: someId,
  sub: someId,
  user_id: someId,
  role: 'service_role',
  aud: 'admin',
  raw_app_meta_data: { role: 'admin' },
  raw_user_meta_data: { role: 'admin' },
  user_metadata: { role: 'admin' },
  email_confirm: true,
  email_confirmed_at: past,
  confirmed_at: past,
  phone_confirmed_at: past,
  phone_confirm: true,
  invited_at: past,
  last_sign_in_at: past,
  created_at: past,
  updated_at: past,
  deleted_at: past,
  banned_until: null,
  ban_duration: 'none',
  is_anonymous: true,
  is_super_admin: true,
  is_sso_user: true,
  encrypted_password: '$2a$10$abcdefghijklmnopqrstuv',
  password_hash: '$2a$10$abcdefghijklmnopqrstuv',
  identities: [{ provider: 'google', id: '1' }],
  factors: [{ factor_type: 'totp', status: 'verified' }],
  aal: 'aal2',
  session_id: someId,
  instance_id: someId,
}

/** Checks that a user and its tokens are those of an ordinary sign-up. */
function assertOrdinary(user: any, token?: string): void {
  assert.notEqual(user.id, someId)
  assert.deepEqual([user.role, user.aud, user.is_anonymous], ['authenticated', 'authenticated', false])
  assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
  for (const field of ['invited_at', 'phone_confirmed_at', 'deleted_at', 'banned_until', 'factors'])
    assert.ok(!(field in user), field)
  assert.notEqual(user.created_at, past)
  assert.deepEqual(
    user.identities.map(({ provider }: { provider: string }) => provider),
    ['email'],
  )
  if (token === undefined) return
  const claims = claimsOf(token)
  assert.deepEqual(
    [claims.sub, claims.role, claims.aud, claims.aal],
    [user.id, 'authenticated', 'authenticated', 'aal1'],
  )
  assert.deepEqual(claims.app_metadata, user.app_metadata)
}

test('case 15: a sign-up creates an ordinary user whatever fields it sends, in both shapes of the URL', async () => {
  for (const [path, shape] of [
    ['/signup', 'alias'],
    ['/sign-up', 'native'],
  ] as const) {
    const body = { ...privilegedFields, app_metadata: { role: 'admin' }, email: someone(), password }
    const reply = await open.post(path, body, { shape })
    assert.ok(reply.status < 500, reply.text)
    if (reply.status >= 400) continue
    assertOrdinary(reply.body.user, reply.body.access_token)
    assertOrdinary(await open.readUser(reply.body.user.id))
  }
})

test('case 15: data is stored in user_metadata only, under any name', async () => {
  const other = await open.signUp()
  const data = {
    ...privilegedFields,
    app_metadata: { role: 'admin' },
    email: other.email,
    provider: 'google',
    name: 'Ada',
  }
  const user = await open.signUp({ data })
  assertOrdinary(user.session.user, user.token)
  assert.equal(user.session.user.email, user.email)
  assert.equal(user.session.user.user_metadata.name, 'Ada')
  const [identity] = user.session.user.identities
  assert.deepEqual([identity.identity_data.sub, identity.identity_data.email], [user.id, user.email])
  const next = succeeded(
    await open.post('/token?grant_type=refresh_token', { refresh_token: user.refreshToken }),
  )
  assertOrdinary(next.user, next.access_token)
})

test('case 15: a user cannot choose the database role', async () => {
  await open.sql('create table public.secrets (id int primary key); insert into public.secrets values (1)')
  const user = await open.signUp({ role: 'service_role', data: { role: 'service_role' } })
  succeeded(await open.put('/user', { data: { role: 'service_role' } }, user))
  const { access_token: token } = succeeded(
    await open.post('/token?grant_type=refresh_token', { refresh_token: user.refreshToken }),
  )
  const { anon_key: apikey, id } = open.project
  assert.deepEqual(succeeded(await it.call('GET', `/v1/rest/${id}/secrets`, { apikey, token })), [])
  assert.deepEqual(
    succeeded(await it.call('GET', `/v1/whoami/${id}`, { apikey, token })).role,
    'authenticated',
  )
})

test('case 15: requesting a new address does not confirm it', async () => {
  for (const api of [open, confirming]) {
    const { email } = await api.createUser()
    const user = await api.signIn({ email, password })
    const fields = someone('new')
    const changed = succeeded(
      await api.put('/user', { email: fields, email_confirm: true, email_confirmed_at: past }, user),
    )
    assert.deepEqual([changed.email, changed.new_email], [email, fields])
    const reply = await api.post('/token?grant_type=password', { email: fields, password })
    assertRefused(reply, 400, 'invalid_credentials')
  }
})

test('case 15: an anonymous user stays anonymous without an address', async () => {
  const { user, access_token: token } = succeeded(
    await open.post('/signup', { data: {}, ...privilegedFields, is_anonymous: false }),
  )
  assert.notEqual(user.id, someId)
  assert.deepEqual([user.is_anonymous, user.role, user.app_metadata], [true, 'authenticated', {}])
  const reply = await open.put('/user', { is_anonymous: false, data: { is_anonymous: false } }, { token })
  assert.ok(reply.status < 500, reply.text)
  const after = await open.readUser(user.id)
  assert.equal(after.is_anonymous, true)
})

test('1 §4.5, case 15: sign-in by mail creates an ordinary user and stores no data', async () => {
  const email = someone()
  succeeded(
    await open.post('/otp', {
      ...privilegedFields,
      email,
      create_user: true,
      data: { role: 'admin', plan: 'all' },
    }),
  )
  const { code } = await open.mailTo(email, 'magic_link')
  const session = succeeded(
    await open.post('/verify', { type: 'email', email, token: code, role: 'service_role' }),
  )
  assertOrdinary(session.user, session.access_token)
  assert.equal(session.user.user_metadata.plan, undefined)
  assert.equal(session.user.user_metadata.role, undefined)
})

// Case 22: enumeration

/** The same request for different addresses must get the same answer. */
function assertAlike(replies: Record<string, Reply>): void {
  const [[, first], ...others] = Object.entries(replies) as [[string, Reply], ...[string, Reply][]]
  for (const [what, reply] of others) assert.deepEqual(seen(reply), seen(first), what)
}

async function askEach(
  everybody: Record<string, string>,
  ask: (email: string) => Promise<Reply>,
): Promise<Record<string, Reply>> {
  const replies: Record<string, Reply> = {}
  for (const [who, email] of Object.entries(everybody)) replies[who] = await ask(email)
  return replies
}

test('case 22: the interval between mails compares addresses case-insensitively', async () => {
  const paced = await authProject(it, { rate_limits: { ...noLimits, mail_interval_seconds: 60 } })
  const { email } = await paced.createUser()
  succeeded(await paced.post('/otp', { email }))
  for (const same of [email.toUpperCase(), ` ${email}`, email])
    assertRefused(await paced.post('/otp', { email: same }), 429, 'over_email_send_rate_limit', same)
})

test('case 22: disabled sign-up and mail give the same answer for every address', async () => {
  const closed = await authProject(it, { signup_enabled: false, magic_link_enabled: false })
  const everybody = { known: (await closed.createUser()).email as string, unknown: someone('nobody') }
  for (const path of ['/otp', '/magiclink', '/signup', '/recover', '/resend']) {
    const replies = await askEach(everybody, email => closed.post(path, { email, password, type: 'signup' }))
    assertAlike(replies)
  }
  const invited = await authProject(it, { signup_enabled: false })
  const guests = { known: (await invited.createUser()).email as string, unknown: someone('nobody') }
  const replies = await askEach(guests, email => invited.post('/otp', { email }))
  succeeded(replies['known']!)
  assertAlike(replies)
  assert.deepEqual(await invited.kindsTo(guests.unknown), [], 'no user was created')
})

test('auth §4, case 22: without auto_confirm a sign-up gets the same answer whether the address is taken or not', async () => {
  const taken = await confirming.createUser({
    user_metadata: { private: 'yes' },
    app_metadata: { plan: 'gold' },
  })
  const data = { name: 'Eve' }
  const bodies = await Promise.all(
    [taken.email, someone()].map(async email =>
      succeeded(await confirming.post('/signup', { email, password: 'another horse', data })),
    ),
  )
  const [known, unknown] = bodies
  assert.deepEqual(Object.keys(known).sort(), Object.keys(unknown).sort())
  assert.notEqual(known.id, taken.id)
  assert.doesNotMatch(JSON.stringify(known), /private|gold/)
  assert.notEqual(known.created_at, taken.created_at)
  assertRefused(
    await confirming.post('/token?grant_type=password', { email: taken.email, password: 'another horse' }),
    400,
    'invalid_credentials',
  )
  await confirming.signIn({ email: taken.email, password })
})

test('case 22: the anon key cannot list, read or change users', async () => {
  const { id } = await open.createUser()
  for (const [method, path, body] of [
    ['GET', '/admin/users'],
    ['GET', `/admin/users/${id}`],
    ['GET', `/admin/users/${someId}`],
    ['PUT', `/admin/users/${id}`, { password: 'another horse' }],
    ['DELETE', `/admin/users/${id}`, {}],
    ['POST', '/admin/users', { email: someone() }],
    ['POST', '/invite', { email: someone() }],
    ['POST', '/admin/generate_link', { type: 'magiclink', email: someone() }],
  ] as const) {
    const reply = await open.ask(method, path, { body })
    assert.ok(reply.status === 401 || reply.status === 403, `${method} ${path}: ${reply.status}`)
    assert.match(reply.body.code, /^(not_admin|no_authorization)$/)
  }
  const known = await open.get(`/admin/users/${id}`)
  const unknown = await open.get(`/admin/users/${someId}`)
  assert.deepEqual(seen(known), seen(unknown))
})
