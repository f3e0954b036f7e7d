// 1 §2.4 and the auth contract §9, §11: second factors by an authenticator app.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import { type AuthApi, assertSession, authProject, claimsOf, type SignedIn, succeeded } from '../auth.ts'
import { nowSeconds, someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
})
after(() => it.stop())

type User = Pick<SignedIn, 'token'>
interface Factor {
  id: string
  secret: string
}

const begin = ({ token }: User, fields: Record<string, unknown> = {}) =>
  auth.post('/factors', { factor_type: 'totp', ...fields }, { token })

async function enroll(user: User, name?: string): Promise<Factor> {
  const { id, totp } = succeeded(await begin(user, { friendly_name: name }))
  return { id, secret: totp.secret }
}

const ask = ({ token }: User, factorId: string) =>
  auth.post(`/factors/${factorId}/challenge`, { factorId }, { token })
const challenge = async (user: User, { id }: Pick<Factor, 'id'>): Promise<string> =>
  succeeded(await ask(user, id)).id
const answer = ({ token }: User, factorId: string, challengeId: string, code: string) =>
  auth.post(`/factors/${factorId}/verify`, { challenge_id: challengeId, code }, { token })
const remove = ({ token }: User, factorId: string) => auth.delete(`/factors/${factorId}`, { token })
const factorsOf = async ({ token }: User): Promise<any[]> =>
  succeeded(await auth.get('/user', { token })).factors ?? []

/** The session after a code, and who has it. */
async function pass(user: User, factor: Factor, stepsAhead = 0): Promise<User & { session: any }> {
  const session = succeeded(
    await answer(user, factor.id, await challenge(user, factor), codeOf(factor, stepsAhead)),
  )
  return { token: session.access_token, session }
}

/** Somebody at aal2; the code of this half minute is used up, the next is not. */
async function guarded(): Promise<SignedIn & { factor: Factor }> {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const { session } = await pass(user, factor)
  return { ...user, session, token: session.access_token, refreshToken: session.refresh_token, factor }
}

const refresh = (refreshToken: string) =>
  auth.post('/token?grant_type=refresh_token', { refresh_token: refreshToken })

function refused(reply: Reply, status: number, code: string): void {
  assert.deepEqual([reply.status, reply.body?.code], [status, code], reply.text)
}

/** RFC 6238: SHA-1, six digits, half minutes. */
function codeOf({ secret }: Factor, stepsAhead = 0): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(nowSeconds() / 30) + stepsAhead))
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const value = digest.readUInt32BE((digest.at(-1) ?? 0) & 15) & 0x7fffffff
  return String(value % 1_000_000).padStart(6, '0')
}

function fromBase32(text: string): Buffer {
  const bits = Array.from(text, letter =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'),
  ).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)))
}

/** Right at no time near now. */
function wrongCode(factor: Factor): string {
  const near = new Set(Array.from({ length: 11 }, (_, at) => codeOf(factor, at - 5)))
  let guess = 0
  while (near.has(String(guess).padStart(6, '0'))) guess++
  return String(guess).padStart(6, '0')
}

test('auth §9 enroll answers the secret as text, as a link and as a picture', async () => {
  const user = await auth.signUp()
  const { id, totp, ...rest } = succeeded(
    await begin(user, { friendly_name: 'Ada’s phone', issuer: 'Example & Co' }),
  )
  assert.match(id, uuid)
  assert.deepEqual(rest, { type: 'totp', friendly_name: 'Ada’s phone' })
  assert.deepEqual(Object.keys(totp).sort(), ['qr_code', 'secret', 'uri'])
  assert.match(totp.secret, /^[A-Z2-7]{26,}$/, '128 bits or more')
  const uri = new URL(totp.uri)
  assert.equal(`${uri.protocol}//${uri.host}`, 'otpauth://totp')
  assert.equal(decodeURIComponent(uri.pathname), `/Example & Co:${user.email}`)
  const parameters = Object.fromEntries(uri.searchParams)
  assert.equal(parameters['secret'], totp.secret)
  assert.equal(parameters['issuer'], 'Example & Co')
  for (const [name, usual] of [
    ['algorithm', 'SHA1'],
    ['digits', '6'],
    ['period', '30'],
  ] as const)
    assert.equal(parameters[name] ?? usual, usual)
  assert.match(
    totp.qr_code,
    /^<(svg|\?xml)[\s\S]*<\/svg>\s*$/,
    'raw SVG, which the client makes a data URI of',
  )
  assert.ok(!totp.qr_code.includes('#'), 'in a data URI it would begin the fragment')
})

test('auth §9 without an issuer the link names the site', async () => {
  const { totp } = succeeded(await begin(await auth.signUp()))
  assert.equal(new URL(totp.uri).searchParams.get('issuer'), 'app.example.test')
})

test('auth §2 and §9 a factor is listed with its user, unverified at first, and never with its secret', async () => {
  const user = await auth.signUp()
  assert.equal('factors' in succeeded(await auth.get('/user', user)), false)
  const factor = await enroll(user, 'Phone')
  const [listed, ...others] = await factorsOf(user)
  assert.deepEqual(others, [])
  assert.partialDeepStrictEqual(listed, {
    id: factor.id,
    status: 'unverified',
    friendly_name: 'Phone',
    factor_type: 'totp',
  })
  for (const field of ['created_at', 'updated_at']) assert.ok(Date.parse(listed[field]) > 0, field)
  assert.ok(!JSON.stringify(listed).includes(factor.secret))
  await pass(user, factor)
  const [after] = await factorsOf(user)
  assert.equal(after.status, 'verified')
  assert.ok(Date.parse(after.last_challenged_at) > 0)
})

test('auth §9 a challenge lives five minutes', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const earliest = nowSeconds() + 300
  const { id, type, expires_at, ...rest } = succeeded(await ask(user, factor.id))
  assert.match(id, uuid)
  assert.equal(type, 'totp')
  assert.deepEqual(rest, {})
  assert.ok(Number.isInteger(expires_at))
  assert.ok(expires_at >= earliest - 1 && expires_at <= nowSeconds() + 300, `${expires_at - earliest}`)
})

test('auth §9 the right code answers the session at aal2, under its id and a new refresh token', async () => {
  const user = await auth.signUp()
  const { session } = await pass(user, await enroll(user))
  assertSession(session)
  assert.equal(session.user.id, user.id)
  assert.equal(session.user.factors[0].status, 'verified')
  const before = claimsOf(user.token)
  const claims = claimsOf(session.access_token)
  assert.equal(before.aal, 'aal1')
  assert.equal(claims.aal, 'aal2')
  assert.equal(claims.session_id, user.sessionId)
  assert.deepEqual(claims.amr.slice(1), before.amr, 'newest first')
  assert.equal(claims.amr[0].method, 'totp')
  assert.ok(Number.isInteger(claims.amr[0].timestamp))
  assert.notEqual(session.refresh_token, user.refreshToken)
  const next = succeeded(await refresh(session.refresh_token))
  const nextClaims = claimsOf(next.access_token)
  assert.deepEqual([nextClaims.aal, nextClaims.amr], ['aal2', claims.amr], 'a refresh keeps both')
})

test('auth §6 and §9 the refresh token from before is the parent of the new one', async () => {
  const user = await auth.signUp()
  const { session } = await pass(user, await enroll(user))
  assert.equal(succeeded(await refresh(user.refreshToken)).refresh_token, session.refresh_token)
})

test('1 §5 and auth §9 policies see the level', async () => {
  await auth.sql(`
    create table public.vault (id int primary key);
    create policy guarded on public.vault for select using (auth.jwt() ->> 'aal' = 'aal2');
    insert into public.vault values (1);`)
  const rowsOf = async ({ token }: User) =>
    succeeded(
      await it.call('GET', `/v1/rest/${auth.project.id}/vault`, { apikey: auth.project.anon_key, token }),
    )
  const user = await auth.signUp()
  assert.deepEqual(await rowsOf(user), [])
  assert.deepEqual(await rowsOf(await pass(user, await enroll(user))), [{ id: 1 }])
})

test('auth §9 a wrong code is 422 and changes nothing', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const right = codeOf(factor)
  const asked = await challenge(user, factor)
  for (const code of [wrongCode(factor), 'abcdef', `${right}0`])
    refused(await answer(user, factor.id, asked, code), 422, 'mfa_verification_failed')
  assert.equal((await factorsOf(user))[0].status, 'unverified')
  assert.equal(claimsOf(succeeded(await refresh(user.refreshToken)).access_token).aal, 'aal1')
  succeeded(await answer(user, factor.id, asked, right))
})

test('auth §9 a code of the half minute before or after counts', async () => {
  for (const stepsAhead of [-1, 1]) {
    const user = await auth.signUp()
    const factor = await enroll(user)
    const asked = await challenge(user, factor)
    const step = Math.floor(nowSeconds() / 30)
    const reply = await answer(user, factor.id, asked, codeOf(factor, stepsAhead))
    // On the edge of a half minute the earlier one may have become too old on the way.
    if (stepsAhead === -1 && Math.floor(nowSeconds() / 30) !== step) continue
    assert.equal(reply.status, 200, `${stepsAhead}: ${reply.text}`)
  }
})

test('auth §9 a code two half minutes off does not', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  refused(
    await answer(user, factor.id, await challenge(user, factor), codeOf(factor, -2)),
    422,
    'mfa_verification_failed',
  )
  refused(
    await answer(user, factor.id, await challenge(user, factor), codeOf(factor, 3)),
    422,
    'mfa_verification_failed',
  )
})

test('auth §9 a code counts once', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const code = codeOf(factor)
  succeeded(await answer(user, factor.id, await challenge(user, factor), code))
  refused(await answer(user, factor.id, await challenge(user, factor), code), 422, 'mfa_verification_failed')
})

test('auth §9 a challenge is answered once, be the next code right or not', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const asked = await challenge(user, factor)
  succeeded(await answer(user, factor.id, asked, codeOf(factor)))
  refused(await answer(user, factor.id, asked, codeOf(factor, 1)), 422, 'mfa_challenge_expired')
})

test('auth §9 of ten with one code at the same time one is right', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const asked = await challenge(user, factor)
  const code = codeOf(factor)
  const replies = await Promise.all(Array.from({ length: 10 }, () => answer(user, factor.id, asked, code)))
  assert.deepEqual(
    replies.map(({ status }) => status).sort(),
    [200, ...Array<number>(9).fill(422)],
    replies.map(({ text }) => text).join('\n'),
  )
})

test('auth §9 an unknown challenge is 422, an unknown factor 404, and so is somebody else’s', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user, 'One')
  const other = await enroll(user, 'Two')
  const code = codeOf(factor)
  for (const id of [someId, await challenge(user, other), 'nonsense'])
    refused(await answer(user, factor.id, id, code), 422, 'mfa_factor_not_found')
  const stranger = await auth.signUp()
  const asked = await challenge(user, factor)
  for (const id of [someId, factor.id]) {
    refused(await ask(stranger, id), 404, 'mfa_factor_not_found')
    refused(await answer(stranger, id, asked, code), 404, 'mfa_factor_not_found')
    refused(await remove(stranger, id), 404, 'mfa_factor_not_found')
  }
  assert.equal((await factorsOf(user)).length, 2)
})

test('auth §9 ids that are none, and bodies without challenge or code, are 4xx', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const asked = await challenge(user, factor)
  for (const id of ['1', '..', "'", `${factor.id}%00`, `..%2fuser`]) {
    const { status } = await ask(user, id)
    assert.ok(status >= 400 && status < 500, `${id}: ${status}`)
  }
  for (const body of [
    {},
    { code: codeOf(factor) },
    { challenge_id: asked },
    { challenge_id: asked, code: '' },
  ]) {
    const reply = await auth.post(`/factors/${factor.id}/verify`, body, user)
    refused(reply, 400, 'validation_failed')
  }
  const odd = await auth.post(
    `/factors/${factor.id}/verify`,
    { challenge_id: asked, code: { $ne: '' } },
    user,
  )
  assert.equal(odd.status, 400, odd.text)
})

test('auth §9 verifying ends the user’s sessions at aal1 and removes other enrolments', async () => {
  const user = await auth.signUp()
  const elsewhere = await auth.signIn(user)
  const stranger = await auth.signUp()
  const theirs = await enroll(stranger)
  const factor = await enroll(user, 'One')
  await enroll(user, 'Two')
  const passed = await pass(user, factor)
  refused(await auth.get('/user', elsewhere), 403, 'session_not_found')
  assert.equal((await refresh(elsewhere.refreshToken)).status, 400)
  assert.deepEqual(
    (await factorsOf(passed)).map(({ id }) => id),
    [factor.id],
  )
  assert.deepEqual(
    (await factorsOf(stranger)).map(({ id }) => id),
    [theirs.id],
    'other users keep theirs',
  )
})

test('auth §9 whoever signs in anew is at aal1 until the code, and sessions at aal2 stay', async () => {
  const first = await guarded()
  const second = await auth.signIn(first)
  assert.equal(claimsOf(second.token).aal, 'aal1')
  const passed = await pass(second, first.factor, 1)
  assert.equal(claimsOf(passed.token).aal, 'aal2')
  succeeded(await auth.get('/user', first))
})

test('auth §9 with a verified factor, what matters needs aal2', async () => {
  const first = await guarded()
  const { factor } = first
  const user = await auth.signIn(first)
  refused(await begin(user), 403, 'insufficient_aal')
  refused(await remove(user, factor.id), 422, 'insufficient_aal')
  refused(await auth.put('/user', { password: 'another horse' }, user), 401, 'insufficient_aal')
  refused(await auth.put('/user', { email: 'other@example.test' }, user), 401, 'insufficient_aal')
  succeeded(await auth.put('/user', { data: { plan: 'none' } }, user))
  await auth.signIn(first)
  assert.equal((await factorsOf(first)).length, 1)
  succeeded(await auth.put('/user', { password: 'another horse' }, first))
})

test('auth §9 unenroll answers the id; the session that rested on the factor is at aal1 again', async () => {
  const user = await guarded()
  assert.deepEqual(succeeded(await remove(user, user.factor.id)), { id: user.factor.id })
  assert.deepEqual(await factorsOf(user), [])
  refused(await remove(user, user.factor.id), 404, 'mfa_factor_not_found')
  const claims = claimsOf(succeeded(await refresh(user.refreshToken)).access_token)
  assert.equal(claims.aal, 'aal1')
  assert.deepEqual(
    claims.amr.map(({ method }: { method: string }) => method),
    ['password'],
  )
})

test('auth §9 an enrolment that was not finished can be given up at aal1', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  assert.deepEqual(succeeded(await remove(user, factor.id)), { id: factor.id })
})

test('auth §9 names are unique for a user', async () => {
  const user = await auth.signUp()
  await enroll(user, 'Phone')
  refused(await begin(user, { friendly_name: 'Phone' }), 422, 'mfa_factor_name_conflict')
  await enroll(await auth.signUp(), 'Phone')
  for (const name of ['', '', undefined, undefined, null])
    succeeded(await begin(user, { friendly_name: name }))
})

test('auth §9 ten factors are enough', async () => {
  const user = await auth.signUp()
  for (let count = 1; count <= 10; count++) await enroll(user, `Phone ${count}`)
  refused(await begin(user, { friendly_name: 'Phone 11' }), 422, 'too_many_enrolled_mfa_factors')
  const [first] = await factorsOf(user)
  succeeded(await remove(user, first.id))
  const replies = await Promise.all(
    Array.from({ length: 5 }, (_, at) => begin(user, { friendly_name: `Tablet ${at}` })),
  )
  assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 422, 422, 422, 422])
  assert.equal((await factorsOf(user)).length, 10)
})

test('auth §9 names and issuers of any length and letters are taken or refused, never a 5xx', async () => {
  const user = await auth.signUp()
  const texts = [
    'x',
    'x'.repeat(200),
    'x'.repeat(4000),
    '漢'.repeat(60),
    '漢'.repeat(300),
    '💥',
    '<svg>',
    'a:b',
    '\u0000',
    '\ud800',
  ]
  for (const text of texts)
    for (const field of ['friendly_name', 'issuer']) {
      const reply = await begin(user, { [field]: text })
      if (reply.status === 200) succeeded(await remove(user, reply.body.id))
      else refused(reply, 400, 'validation_failed')
    }
})

test('auth §9 nobody anonymous, nobody without a session, no other kind of factor', async () => {
  const anonymous = succeeded(await auth.post('/signup', { data: {} }))
  refused(await begin({ token: anonymous.access_token }), 403, 'no_authorization')
  refused(await auth.post('/factors', { factor_type: 'totp' }), 401, 'no_authorization')
  refused(
    await auth.post('/factors', { factor_type: 'totp' }, { as: 'service_role' }),
    401,
    'no_authorization',
  )
  const user = await auth.signUp()
  const phone = await begin(user, { factor_type: 'phone', phone: '+4915112345678' })
  refused(phone, 422, 'mfa_phone_enroll_not_enabled')
  refused(await begin(user, { factor_type: 'webauthn' }), 422, 'mfa_webauthn_enroll_not_enabled')
  for (const factor_type of ['tea leaves', '', null, undefined])
    refused(await begin(user, { factor_type }), 400, 'validation_failed')
})

test('auth §9 mfa_enabled false: no enrolment', async () => {
  const without = await authProject(it, { mfa_enabled: false })
  const { token } = await without.signUp()
  const reply = await without.post('/factors', { factor_type: 'totp' }, { token })
  refused(reply, 422, 'mfa_totp_enroll_not_enabled')
})

test('auth §9, case 15: a body cannot make a factor more than it is', async () => {
  const user = await auth.signUp()
  const other = await auth.signUp()
  const { id } = succeeded(
    await begin(user, {
      status: 'verified',
      user_id: other.id,
      id: someId,
      secret: 'MZXW6YTBOI',
      last_used_step: -9,
    }),
  )
  assert.notEqual(id, someId)
  assert.equal((await factorsOf(user))[0].status, 'unverified')
  assert.deepEqual(await factorsOf(other), [])
})

test('auth §9, case 23: codes cannot be tried until one fits', async () => {
  const user = await guarded()
  const { factor } = user
  let tried = 0
  let last: Reply
  do {
    const asked = await ask(user, factor.id)
    last = asked
    while (last.status < 400 || last.body.code === 'mfa_verification_failed') {
      last = await answer(user, factor.id, asked.body.id, wrongCode(factor))
      tried++
      assert.ok(tried < 100, 'a hundred codes were tried')
    }
  } while (last.status !== 429)
  refused(last, 429, 'over_request_rate_limit')
  assert.ok(Number(last.headers.get('retry-after')) > 0)
  refused(await ask(await auth.signIn(user), factor.id), 429, 'over_request_rate_limit')
  succeeded(await auth.get('/user', user))
  const other = await guarded()
  assert.equal(claimsOf(other.token).aal, 'aal2', 'nobody else is locked out')
})

test('auth §12 challenges and codes are counted per address', async () => {
  const limited = await authProject(it, { rate_limits: { mfa: 6 } })
  const { token } = await limited.signUp()
  const { id } = succeeded(await limited.post('/factors', { factor_type: 'totp' }, { token }))
  const statuses: number[] = []
  for (let time = 0; time < 8; time++)
    statuses.push((await limited.post(`/factors/${id}/challenge`, {}, { token })).status)
  assert.deepEqual([statuses[0], statuses.at(-1)], [200, 429])
})

test('auth §11 an administrator lists the factors of a user, bare, and removes one', async () => {
  const user = await guarded()
  const path = `/admin/users/${user.id}/factors`
  const listed = succeeded(await auth.admin('GET', path))
  assert.ok(Array.isArray(listed))
  assert.deepEqual(listed, await factorsOf(user))
  assert.ok(!JSON.stringify(listed).includes('secret'))
  const removed = succeeded(await auth.admin('DELETE', `${path}/${user.factor.id}`))
  assert.deepEqual(removed, listed[0])
  assert.deepEqual(succeeded(await auth.admin('GET', path)), [])
  refused(await auth.admin('DELETE', `${path}/${user.factor.id}`), 404, 'mfa_factor_not_found')
  assert.equal(claimsOf(succeeded(await refresh(user.refreshToken)).access_token).aal, 'aal1')
})

test('auth §11 it takes the service_role key, a user that exists, and a factor of that user', async () => {
  const user = await guarded()
  const other = await auth.signUp()
  const path = `/admin/users/${user.id}/factors`
  for (const [method, at] of [
    ['GET', path],
    ['DELETE', `${path}/${user.factor.id}`],
  ] as const) {
    refused(await auth.ask(method, at, { token: user.token }), 403, 'not_admin')
    const { status } = await auth.ask(method, at)
    assert.ok(status === 401 || status === 403, `${status}`)
  }
  refused(await auth.admin('GET', `/admin/users/${someId}/factors`), 404, 'user_not_found')
  refused(
    await auth.admin('DELETE', `/admin/users/${someId}/factors/${user.factor.id}`),
    404,
    'user_not_found',
  )
  const foreign = await auth.admin('DELETE', `/admin/users/${other.id}/factors/${user.factor.id}`)
  refused(foreign, 404, 'mfa_factor_not_found')
  assert.equal((await factorsOf(user)).length, 1)
})

test('auth §9 under the native address it is the same', async () => {
  const user = await auth.signUp()
  const native = { token: user.token, shape: 'native' } as const
  const { id, totp } = succeeded(await auth.post('/factors', { factor_type: 'totp' }, native))
  const asked = succeeded(await auth.post(`/factors/${id}/challenge`, {}, native))
  const code = codeOf({ id, secret: totp.secret })
  const session = succeeded(
    await auth.post(`/factors/${id}/verify`, { challenge_id: asked.id, code }, native),
  )
  assert.equal(claimsOf(session.access_token).aal, 'aal2')
  assert.deepEqual(succeeded(await auth.delete(`/factors/${id}`, native)), { id })
})
