// 1 §2.4, §5 and auth contract §6, §9, §12: challenges, codes and the assurance level of a session.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, assertRefused, assertSession, authProject, claimsOf, succeeded } from '../auth.ts'
import { codeOf, mfaOf, type TokenOwner, wrongCode } from '../mfa.ts'
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

const {
  requestEnrolment,
  enroll,
  requestChallenge,
  challenge,
  verify,
  stepUp,
  unenroll,
  factorsOf,
  signUpAtAal2,
} = mfaOf(() => auth)
const refresh = (refreshToken: string) =>
  auth.post('/token?grant_type=refresh_token', { refresh_token: refreshToken })

test('auth §9 a challenge expires after five minutes', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const earliest = nowSeconds() + 300
  const { id, type, expires_at, ...rest } = succeeded(await requestChallenge(user, factor.id))
  assert.match(id, uuid)
  assert.equal(type, 'totp')
  assert.deepEqual(rest, {})
  assert.ok(Number.isInteger(expires_at))
  assert.ok(expires_at >= earliest - 1 && expires_at <= nowSeconds() + 300, `${expires_at - earliest}`)
})

test('auth §9 a valid code returns the session at aal2, with the same id and a new refresh token', async () => {
  const user = await auth.signUp()
  const { session } = await stepUp(user, await enroll(user))
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

test('auth §6 and §9 the previous refresh token is the parent of the new one', async () => {
  const user = await auth.signUp()
  const { session } = await stepUp(user, await enroll(user))
  assert.equal(succeeded(await refresh(user.refreshToken)).refresh_token, session.refresh_token)
})

test('1 §5 and auth §9 policies can read the aal claim', async () => {
  await auth.sql(`
    create table public.vault (id int primary key);
    create policy guarded on public.vault for select using (auth.jwt() ->> 'aal' = 'aal2');
    insert into public.vault values (1);`)
  const rowsOf = async ({ token }: TokenOwner) =>
    succeeded(
      await it.call('GET', `/v1/rest/${auth.project.id}/vault`, { apikey: auth.project.anon_key, token }),
    )
  const user = await auth.signUp()
  assert.deepEqual(await rowsOf(user), [])
  assert.deepEqual(await rowsOf(await stepUp(user, await enroll(user))), [{ id: 1 }])
})

test('auth §9 a wrong code is 422 and changes nothing', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const right = codeOf(factor)
  const asked = await challenge(user, factor)
  for (const code of [wrongCode(factor), 'abcdef', `${right}0`])
    assertRefused(await verify(user, factor.id, asked, code), 422, 'mfa_verification_failed')
  assert.equal((await factorsOf(user))[0].status, 'unverified')
  assert.equal(claimsOf(succeeded(await refresh(user.refreshToken)).access_token).aal, 'aal1')
  succeeded(await verify(user, factor.id, asked, right))
})

test('auth §9 a code of the previous or next time step is valid', async () => {
  for (const stepsAhead of [-1, 1]) {
    const user = await auth.signUp()
    const factor = await enroll(user)
    const asked = await challenge(user, factor)
    const step = Math.floor(nowSeconds() / 30)
    const reply = await verify(user, factor.id, asked, codeOf(factor, stepsAhead))
    // At the end of a time step the earlier code may have expired before it arrives.
    if (stepsAhead === -1 && Math.floor(nowSeconds() / 30) !== step) continue
    assert.equal(reply.status, 200, `${stepsAhead}: ${reply.text}`)
  }
})

test('auth §9 a code two time steps off is invalid', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  assertRefused(
    await verify(user, factor.id, await challenge(user, factor), codeOf(factor, -2)),
    422,
    'mfa_verification_failed',
  )
  assertRefused(
    await verify(user, factor.id, await challenge(user, factor), codeOf(factor, 3)),
    422,
    'mfa_verification_failed',
  )
})

test('auth §9 a code works once', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const code = codeOf(factor)
  succeeded(await verify(user, factor.id, await challenge(user, factor), code))
  assertRefused(
    await verify(user, factor.id, await challenge(user, factor), code),
    422,
    'mfa_verification_failed',
  )
})

test('auth §9 a challenge can be verified once', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const asked = await challenge(user, factor)
  succeeded(await verify(user, factor.id, asked, codeOf(factor)))
  assertRefused(await verify(user, factor.id, asked, codeOf(factor, 1)), 422, 'mfa_challenge_expired')
})

test('auth §9 of ten concurrent requests with one code one succeeds', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const asked = await challenge(user, factor)
  const code = codeOf(factor)
  const replies = await Promise.all(Array.from({ length: 10 }, () => verify(user, factor.id, asked, code)))
  assert.deepEqual(
    replies.map(({ status }) => status).sort(),
    [200, ...Array<number>(9).fill(422)],
    replies.map(({ text }) => text).join('\n'),
  )
})

test('auth §9 an unknown challenge is 422, an unknown factor or one of another user 404', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user, 'One')
  const other = await enroll(user, 'Two')
  const code = codeOf(factor)
  for (const id of [someId, await challenge(user, other), 'nonsense'])
    assertRefused(await verify(user, factor.id, id, code), 422, 'mfa_factor_not_found')
  const stranger = await auth.signUp()
  const asked = await challenge(user, factor)
  for (const id of [someId, factor.id]) {
    assertRefused(await requestChallenge(stranger, id), 404, 'mfa_factor_not_found')
    assertRefused(await verify(stranger, id, asked, code), 404, 'mfa_factor_not_found')
    assertRefused(await unenroll(stranger, id), 404, 'mfa_factor_not_found')
  }
  assert.equal((await factorsOf(user)).length, 2)
})

test('auth §9 invalid ids and bodies without challenge or code are 4xx', async () => {
  const user = await auth.signUp()
  const factor = await enroll(user)
  const asked = await challenge(user, factor)
  for (const id of ['1', '..', "'", `${factor.id}%00`, `..%2fuser`]) {
    const { status } = await requestChallenge(user, id)
    assert.ok(status >= 400 && status < 500, `${id}: ${status}`)
  }
  for (const body of [
    {},
    { code: codeOf(factor) },
    { challenge_id: asked },
    { challenge_id: asked, code: '' },
  ]) {
    const reply = await auth.post(`/factors/${factor.id}/verify`, body, user)
    assertRefused(reply, 400, 'validation_failed')
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
  const passed = await stepUp(user, factor)
  assertRefused(await auth.get('/user', elsewhere), 403, 'session_not_found')
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

test('auth §9 a new sign-in is at aal1 until a code is verified, and sessions at aal2 stay', async () => {
  const first = await signUpAtAal2()
  const second = await auth.signIn(first)
  assert.equal(claimsOf(second.token).aal, 'aal1')
  const passed = await stepUp(second, first.factor, 1)
  assert.equal(claimsOf(passed.token).aal, 'aal2')
  succeeded(await auth.get('/user', first))
})

test('auth §9 with a verified factor, changes of email, password or identities need aal2', async () => {
  const first = await signUpAtAal2()
  const { factor } = first
  const user = await auth.signIn(first)
  assertRefused(await requestEnrolment(user), 403, 'insufficient_aal')
  assertRefused(await unenroll(user, factor.id), 422, 'insufficient_aal')
  assertRefused(await auth.put('/user', { password: 'another horse' }, user), 401, 'insufficient_aal')
  assertRefused(await auth.put('/user', { email: 'other@example.test' }, user), 401, 'insufficient_aal')
  succeeded(await auth.put('/user', { data: { plan: 'none' } }, user))
  await auth.signIn(first)
  assert.equal((await factorsOf(first)).length, 1)
  succeeded(await auth.put('/user', { password: 'another horse' }, first))
})

test('auth §9, case 23: codes cannot be guessed by brute force', async () => {
  const user = await signUpAtAal2()
  const { factor } = user
  let tried = 0
  let last: Reply
  do {
    const asked = await requestChallenge(user, factor.id)
    last = asked
    while (last.status < 400 || last.body.code === 'mfa_verification_failed') {
      last = await verify(user, factor.id, asked.body.id, wrongCode(factor))
      tried++
      assert.ok(tried < 100, 'a hundred codes were tried')
    }
  } while (last.status !== 429)
  assertRefused(last, 429, 'over_request_rate_limit')
  assert.ok(Number(last.headers.get('retry-after')) > 0)
  assertRefused(await requestChallenge(await auth.signIn(user), factor.id), 429, 'over_request_rate_limit')
  succeeded(await auth.get('/user', user))
  const other = await signUpAtAal2()
  assert.equal(claimsOf(other.token).aal, 'aal2', 'other users are not locked')
})

test('auth §12 challenges and codes are rate limited per client address', async () => {
  const limited = await authProject(it, { rate_limits: { mfa: 6 } })
  const { token } = await limited.signUp()
  const { id } = succeeded(await limited.post('/factors', { factor_type: 'totp' }, { token }))
  const statuses: number[] = []
  for (let time = 0; time < 8; time++)
    statuses.push((await limited.post(`/factors/${id}/challenge`, {}, { token })).status)
  assert.deepEqual([statuses[0], statuses.at(-1)], [200, 429])
})

test('auth §9 MFA works the same under the native URL', async () => {
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
