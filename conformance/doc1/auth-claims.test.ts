// 1 §2.2, §5 and auth contract §5: the JWT claims of each sign-in method, and what SQL sees of them.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  authProject,
  authRoot,
  challengeOf,
  claimsOf,
  password,
  pkce,
  type SignedIn,
  someone,
  succeeded,
} from '../auth.ts'
import { nowSeconds, sleep, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let confirming: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
  await auth.sql(`
    create function public.who() returns json language sql stable as $$
      select json_build_object('uid', auth.uid(), 'email', auth.email(), 'role', auth.role(), 'jwt', auth.jwt(),
        'user_id', current_setting('request.user_id', true), 'current_user', current_user) $$;
    create table public.notes (id int primary key, owner uuid default auth.uid());
    create policy own on public.notes using (owner = auth.uid()) with check (owner = auth.uid());
    create table public.premium (id int primary key);
    insert into public.premium values (1);
    create policy paid on public.premium for select using (auth.jwt() -> 'app_metadata' ->> 'plan' = 'gold');
    create table public.grown_up (id int primary key);
    insert into public.grown_up values (1);
    create policy permanent on public.grown_up for select using (not (auth.jwt() ->> 'is_anonymous')::boolean)`)
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(50))
    if ((await rest('GET', 'grown_up', undefined)).status === 200) return
  assert.fail('the API does not know the new tables')
})
after(() => it.stop())

const rest = (method: string, path: string, token: string | undefined, body?: unknown) =>
  it.call(method, `/v1/rest/${auth.project.id}/${path}`, { apikey: auth.project.anon_key, token, body })
const who = async (token?: string) => succeeded(await rest('POST', 'rpc/who', token, {}))

const allClaims = [
  'aal',
  'amr',
  'app_metadata',
  'aud',
  'email',
  'exp',
  'iat',
  'is_anonymous',
  'iss',
  'phone',
  'role',
  'session_id',
  'sub',
  'user_metadata',
]

interface Expected {
  method: string
  id: string
  email: string
  api?: AuthApi
  lifetime?: number
  isAnonymous?: boolean
}

/** Checks the claims of a sign-in, auth §5. */
function assertClaims(token: string, { method, id, email, api = auth, isAnonymous = false }: Expected): any {
  const [head, body, signature] = token.split('.')
  const header = JSON.parse(Buffer.from(head ?? '', 'base64url').toString())
  assert.equal(header.alg, 'HS256')
  assert.equal(header.typ, 'JWT')
  const signed = createHmac('sha256', api.project.jwt_secret).update(`${head}.${body}`).digest('base64url')
  assert.equal(signature, signed, 'signed with the secret of the project')
  const claims = claimsOf(token)
  assert.deepEqual(Object.keys(claims).toSorted(), allClaims)
  assert.partialDeepStrictEqual(claims, {
    sub: id,
    aud: 'authenticated',
    role: 'authenticated',
    email,
    phone: '',
    aal: 'aal1',
    is_anonymous: isAnonymous,
  })
  assert.ok(claims.iss.endsWith(authRoot(api.project)), claims.iss)
  assert.match(claims.session_id, uuid)
  assert.equal(claims.exp - claims.iat, 3600)
  assert.ok(Math.abs(claims.iat - nowSeconds()) < 120)
  assert.equal(claims.amr.length, 1, JSON.stringify(claims.amr))
  assert.equal(claims.amr[0].method, method)
  assert.ok(Number.isInteger(claims.amr[0].timestamp) && Math.abs(claims.amr[0].timestamp - claims.iat) < 60)
  return claims
}

const refresh = async (refresh_token: string | undefined, api = auth) =>
  succeeded(await api.post('/token?grant_type=refresh_token', { refresh_token }))

test('auth contract §5: a sign-up and a sign-in with a password', async () => {
  const me = await auth.signUp({ data: { name: 'Ada' } })
  const first = assertClaims(me.token, { method: 'password', id: me.id, email: me.email })
  assert.deepEqual(first.app_metadata, { provider: 'email', providers: ['email'] })
  assert.deepEqual(first.user_metadata, me.session.user.user_metadata)
  assert.equal(first.user_metadata.name, 'Ada')
  const again = await auth.signIn(me)
  const second = assertClaims(again.token, { method: 'password', id: me.id, email: me.email })
  assert.notEqual(second.session_id, first.session_id)
})

test('1 §2.2 the native sign-in issues the same claims', async () => {
  const me = await auth.signUp()
  const fields = { email: me.email, password }
  const session = succeeded(await auth.post('/sign-in', fields, { shape: 'native' }))
  assertClaims(session.access_token, { method: 'password', id: me.id, email: me.email })
})

test('auth contract §5: an anonymous sign-up', async () => {
  const session = succeeded(await auth.post('/signup', { data: { a: 1 } }))
  const expected = { method: 'anonymous', id: session.user.id, email: '', isAnonymous: true }
  const claims = assertClaims(session.access_token, expected)
  assert.deepEqual([claims.app_metadata, claims.user_metadata], [{}, { a: 1 }])
})

test('auth contract §5: a code and a magic link', async () => {
  const { id, email } = await auth.signUp()
  succeeded(await auth.post('/otp', { email }))
  const first = await auth.mailTo(email, 'magic_link')
  const session = succeeded(await auth.post('/verify', { type: 'email', email, token: first.code }))
  assertClaims(session.access_token, { method: 'otp', id, email })
  succeeded(await auth.post('/otp', { email }))
  const second = await auth.mailTo(email, 'magic_link', first)
  const landing = await auth.follow(second.link)
  assertClaims(landing.fragment['access_token'] ?? '', { method: 'otp', id, email })
})

test('auth contract §5: a confirmation, a recovery, an invitation and a new address', async () => {
  const email = someone()
  const { id } = succeeded(await confirming.post('/signup', { email, password }))
  const confirmation = await confirming.mailTo(email, 'verify_email')
  const signup = { type: 'signup', email, token: confirmation.code }
  const confirmed = succeeded(await confirming.post('/verify', signup))
  assertClaims(confirmed.access_token, { method: 'otp', id, email, api: confirming })

  succeeded(await confirming.post('/recover', { email }))
  const recovery = await confirming.mailTo(email, 'reset_password')
  const landing = await confirming.follow(recovery.link)
  const token = landing.fragment['access_token'] ?? ''
  assertClaims(token, { method: 'otp', id, email, api: confirming })

  const guest = someone()
  const invited = succeeded(await confirming.admin('POST', '/invite', { email: guest }))
  const invite = await confirming.mailTo(guest, 'invite')
  const accepted = succeeded(await confirming.post('/verify', { type: 'invite', token_hash: invite.hash }))
  assertClaims(accepted.access_token, { method: 'otp', id: invited.id, email: guest, api: confirming })

  const fresh = someone('new')
  succeeded(await confirming.put('/user', { email: fresh }, { token }))
  const old = await confirming.mailTo(email, 'verify_email', confirmation)
  await confirming.follow(old.link)
  const last = await confirming.mailTo(fresh, 'verify_email')
  const changed = await confirming.follow(last.link)
  const expected = { method: 'otp', id, email: fresh, api: confirming }
  const claims = assertClaims(changed.fragment['access_token'] ?? '', expected)
  assert.equal(claims.user_metadata.email_verified, true)
})

test('auth contract §5: a code exchanged for a session', async () => {
  const { id, email } = await auth.signUp()
  const flow = pkce()
  succeeded(await auth.post('/otp', { email, ...challengeOf(flow) }))
  const { link } = await auth.mailTo(email, 'magic_link')
  const { code: auth_code } = (await auth.follow(link)).query
  const fields = { auth_code, code_verifier: flow.verifier }
  const session = succeeded(await auth.post('/token?grant_type=pkce', fields))
  const { method } = claimsOf(session.access_token).amr[0]
  assert.ok(['otp', 'magiclink'].includes(method), method)
  assertClaims(session.access_token, { method, id, email })
})

test('auth contract §5: a refresh keeps session and amr, and has the changed user fields', async () => {
  const me = await auth.signUp()
  const before = claimsOf(me.token)
  succeeded(await auth.put('/user', { data: { theme: 'dark' } }, { token: me.token }))
  succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, { app_metadata: { plan: 'gold' } }))
  const session = await refresh(me.refreshToken)
  const claims = assertClaims(session.access_token, { method: 'password', id: me.id, email: me.email })
  assert.equal(claims.session_id, before.session_id)
  assert.deepEqual(claims.amr, before.amr)
  assert.deepEqual([claims.user_metadata.theme, claims.app_metadata.plan], ['dark', 'gold'])
})

test('auth contract §5: setting a password does not change the amr of the session', async () => {
  const email = someone()
  succeeded(await auth.post('/otp', { email }))
  const { code } = await auth.mailTo(email, 'magic_link')
  const session = succeeded(await auth.post('/verify', { type: 'email', email, token: code }))
  succeeded(await auth.put('/user', { password }, { token: session.access_token }))
  const refreshed = await refresh(session.refresh_token)
  assertClaims(refreshed.access_token, { method: 'otp', id: session.user.id, email })
})

test('1 §5.2 SQL sees auth.uid(), auth.email(), auth.role() and auth.jwt()', async () => {
  const me = await auth.signUp({ data: { name: 'Ada "O\'Neil" ü' } })
  const seen = await who(me.token)
  assert.partialDeepStrictEqual(seen, {
    uid: me.id,
    email: me.email,
    role: 'authenticated',
    user_id: me.id,
    current_user: 'authenticated',
  })
  assert.deepEqual(seen.jwt, claimsOf(me.token))
})

test('1 §5.2 without a user auth.uid() and auth.email() are null and the role is anon', async () => {
  const seen = await who()
  assert.partialDeepStrictEqual(seen, { uid: null, email: null, role: 'anon', current_user: 'anon' })
})

test('1 §5.2 an anonymous user has an id and no email', async () => {
  const session = succeeded(await auth.post('/signup', { data: {} }))
  const seen = await who(session.access_token)
  assert.deepEqual([seen.uid, seen.role], [session.user.id, 'authenticated'])
  assert.ok(seen.email === '' || seen.email === null)
  assert.deepEqual(succeeded(await rest('GET', 'grown_up', session.access_token)), [])
  succeeded(await auth.put('/user', { email: someone() }, { token: session.access_token }))
  const { access_token } = await refresh(session.refresh_token)
  assert.deepEqual(succeeded(await rest('GET', 'grown_up', access_token)), [{ id: 1 }])
})

test('1 §5 policies separate the rows of users', async () => {
  const [one, two] = [await auth.signUp(), await auth.signUp()]
  const write = (me: SignedIn, id: number) => rest('POST', 'notes', me.token, { id })
  assert.equal((await write(one, 1)).status, 201)
  assert.equal((await write(two, 2)).status, 201)
  const read = async (token?: string) => succeeded(await rest('GET', 'notes', token))
  assert.deepEqual(await read(one.token), [{ id: 1, owner: one.id }])
  assert.deepEqual(await read(two.token), [{ id: 2, owner: two.id }])
  assert.deepEqual(await read(), [])
  const forOther = await rest('POST', 'notes', one.token, { id: 3, owner: two.id })
  assert.equal(forOther.status, 403, forOther.text)
})

test('1 §5.2 a policy can use app_metadata, and a change applies from the next token', async () => {
  const me = await auth.signUp({ data: { plan: 'gold' } })
  const premium = async (token: string) => succeeded(await rest('GET', 'premium', token))
  assert.deepEqual(await premium(me.token), [], 'user_metadata does not count')
  succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, { app_metadata: { plan: 'gold' } }))
  assert.deepEqual(await premium(me.token), [], 'the token says what it said')
  const { access_token } = await refresh(me.refreshToken)
  assert.deepEqual(await premium(access_token), [{ id: 1 }])
})
