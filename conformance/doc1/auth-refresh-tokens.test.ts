// Auth contract §6 and case 19: rotation, reuse and theft of refresh tokens.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, assertRefused, authProject, claimsOf, type SignedIn, succeeded } from '../auth.ts'
import { someId } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
/** Has a reuse interval of 0, so that no test depends on timing. */
let strict: AuthApi
/** Has a reuse interval of several minutes. */
let lenient: AuthApi
let other: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  strict = await authProject(it, { refresh_token_reuse_interval_seconds: 0 })
  lenient = await authProject(it, { refresh_token_reuse_interval_seconds: 300 })
  other = await authProject(it)
})
after(() => it.stop())

const refresh = (refreshToken: unknown, api = auth) =>
  api.post('/token?grant_type=refresh_token', { refresh_token: refreshToken })
const refreshed = async (refreshToken: string, api = auth): Promise<string> =>
  succeeded(await refresh(refreshToken, api)).refresh_token

async function sessionsOf({ id }: SignedIn, api = auth): Promise<string[]> {
  const { status, text, body } = await it.manage('GET', `/projects/${api.project.id}/users/${id}/sessions`)
  assert.equal(status, 200, text)
  return body.sessions.map((session: { id: string }) => session.id)
}

test('auth §6 a refresh returns a new token for the same session and does not change amr', async () => {
  const user = await auth.signUp()
  const session = succeeded(await refresh(user.refreshToken))
  assert.notEqual(session.refresh_token, user.refreshToken)
  assert.equal(session.user.id, user.id)
  const before = claimsOf(user.token)
  const now = claimsOf(session.access_token)
  assert.deepEqual([now.session_id, now.amr, now.aal], [before.session_id, before.amr, before.aal])
  assert.equal(now.exp - now.iat, session.expires_in)
})

test('auth §6 twenty refreshes in a row give twenty tokens', async () => {
  const user = await strict.signUp()
  const seen = new Set([user.refreshToken])
  let last = user.refreshToken
  for (let time = 0; time < 20; time++) {
    last = await refreshed(last, strict)
    seen.add(last)
  }
  assert.equal(seen.size, 21)
  assert.deepEqual(await sessionsOf(user, strict), [user.sessionId])
})

test('case 19: the parent of the active refresh token always gets the active one', async () => {
  const { refreshToken } = await strict.signUp()
  const active = await refreshed(refreshToken, strict)
  for (let time = 0; time < 3; time++) assert.equal(await refreshed(refreshToken, strict), active)
  const next = await refreshed(active, strict)
  assert.notEqual(next, active)
  assert.equal(await refreshed(active, strict), next)
})

test('case 19: within the reuse interval an older token gets the active token without rotation', async () => {
  const { refreshToken } = await lenient.signUp()
  const second = await refreshed(refreshToken, lenient)
  const third = await refreshed(second, lenient)
  const active = await refreshed(third, lenient)
  for (const old of [refreshToken, second, third]) assert.equal(await refreshed(old, lenient), active)
  assert.notEqual(await refreshed(active, lenient), active)
})

test('case 19: after the reuse interval an older token ends its session only', async () => {
  const user = await strict.signUp()
  const elsewhere = await strict.signIn(user)
  const parent = await refreshed(user.refreshToken, strict)
  const session = succeeded(await refresh(parent, strict))
  assertRefused(await refresh(user.refreshToken, strict), 400, 'refresh_token_already_used')
  for (const token of [session.refresh_token, parent, user.refreshToken]) {
    const reply = await refresh(token, strict)
    assert.equal(reply.status, 400, reply.text)
    assert.match(reply.body.code, /^(refresh_token_not_found|session_not_found)$/)
  }
  for (const token of [session.access_token, user.token])
    assertRefused(await strict.get('/user', { token }), 403, 'session_not_found')
  assert.deepEqual(await sessionsOf(user, strict), [elsewhere.sessionId])
  await refreshed(elsewhere.refreshToken, strict)
})

test('case 19: the access tokens of that session are rejected by the row API within a second', async () => {
  const user = await strict.signUp()
  await refreshed(await refreshed(user.refreshToken, strict), strict)
  assertRefused(await refresh(user.refreshToken, strict), 400, 'refresh_token_already_used')
  const endedAt = performance.now()
  const whoami = () =>
    it.call('GET', `/v1/whoami/${strict.project.id}`, { apikey: strict.project.anon_key, token: user.token })
  while ((await whoami()).status === 200)
    assert.ok(performance.now() - endedAt < 60_000, 'the token still counts')
  assert.equal((await whoami()).status, 401)
})

test('case 19: twenty concurrent refreshes stay in one token family', async () => {
  for (const api of [strict, lenient]) {
    const user = await api.signUp()
    const replies = await Promise.all(Array.from({ length: 20 }, () => refresh(user.refreshToken, api)))
    const good = replies.filter(({ status }) => status === 200)
    for (const { status, text } of replies) assert.ok(status === 200 || status === 409, text)
    assert.ok(good.length > 0)
    const tokens = new Set(good.map(({ body }) => body.refresh_token))
    assert.equal(tokens.size, 1, [...tokens].join())
    const ids = new Set(good.map(({ body }) => claimsOf(body.access_token).session_id))
    assert.deepEqual([...ids], [user.sessionId])
    assert.deepEqual(await sessionsOf(user, api), [user.sessionId])
    const [active] = tokens
    assert.notEqual(active, user.refreshToken)
    assert.notEqual(await refreshed(active, api), active)
  }
})

test('case 19: a concurrent refresh and sign-out leave no session', async () => {
  const user = await auth.signUp()
  const [out, ...replies] = await Promise.all([
    auth.post('/logout?scope=local', undefined, { token: user.token }),
    ...Array.from({ length: 10 }, () => refresh(user.refreshToken)),
  ])
  assert.equal(out.status, 204, out.text)
  const issued = replies.flatMap(({ status, body }) => (status === 200 ? [body.refresh_token] : []))
  for (const token of [user.refreshToken, ...issued]) assert.equal((await refresh(token)).status, 400)
  assert.deepEqual(await sessionsOf(user), [])
})

test('auth §6 an invalid refresh token of any form is 400', async () => {
  const { refreshToken, token } = await auth.signUp()
  const flipped = (at: number) => {
    const letter = refreshToken[at] === 'A' ? 'B' : 'A'
    return refreshToken.slice(0, at) + letter + refreshToken.slice(at + 1)
  }
  const nonsense = [
    'nonsense',
    token,
    auth.project.anon_key,
    someId,
    `${refreshToken}A`,
    `${refreshToken}=`,
    ` ${refreshToken}`,
    refreshToken.slice(0, -1),
    refreshToken.toLowerCase(),
    refreshToken.toUpperCase(),
    'A'.repeat(refreshToken.length),
    "' or true --",
    ...Array.from({ length: refreshToken.length }, (_, at) => flipped(at)),
  ].filter(text => text !== refreshToken)
  for (const text of nonsense) assertRefused(await refresh(text), 400, 'refresh_token_not_found', text)
  for (const text of ['', null, undefined, 5, {}, [refreshToken], '\u0000', 'x'.repeat(100_000)])
    assert.equal((await refresh(text)).status, 400, JSON.stringify(text)?.slice(0, 50))
  await refreshed(refreshToken)
})

test('auth §6, case 1: a refresh token is valid in its project only', async () => {
  const { refreshToken } = await auth.signUp()
  assertRefused(await refresh(refreshToken, other), 400, 'refresh_token_not_found')
  await refreshed(refreshToken)
})

test('auth §3 and §6 banned and deleted users cannot refresh', async () => {
  const user = await auth.signUp()
  succeeded(await auth.admin('PUT', `/admin/users/${user.id}`, { ban_duration: '24h' }))
  assertRefused(await refresh(user.refreshToken), 400, 'user_banned')
  assertRefused(await auth.get('/user', user), 403, 'user_banned')
  succeeded(await auth.admin('PUT', `/admin/users/${user.id}`, { ban_duration: 'none' }))
  const kept = await refresh(user.refreshToken)
  if (kept.status !== 200) assert.equal(kept.status, 400, 'a ban may have ended the session')
  succeeded(await auth.admin('DELETE', `/admin/users/${user.id}`, {}))
  assert.equal((await refresh(user.refreshToken)).status, 400)
  assertRefused(await auth.get('/user', user), 403, 'user_not_found')
})
