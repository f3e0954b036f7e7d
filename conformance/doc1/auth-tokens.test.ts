// 1 §5, the auth contract §5 to §7 and cases 19, 21, 23: refresh tokens, access tokens and one-time tokens in the wrong
// hands, twice, too late, or made up.
import assert from 'node:assert/strict'
import { generateKeyPairSync, sign } from 'node:crypto'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  authProject,
  authRoot,
  claimsOf,
  otherCode,
  type SignedIn,
  someone,
  succeeded,
} from '../auth.ts'
import { jwt, nowSeconds, sleep, someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let auth: AuthApi
/** Forgives no reuse, so that no test depends on how long it takes. */
let strict: AuthApi
/** Takes back whatever was replaced in the last minutes. */
let lenient: AuthApi
let other: AuthApi
/** Everything lasts a minute here. Begun first, looked at last. */
let brief: Awaited<ReturnType<typeof beginBrief>>
before(async () => {
  it = await target()
  brief = await beginBrief()
  auth = await authProject(it)
  strict = await authProject(it, { refresh_token_reuse_interval_seconds: 0 })
  lenient = await authProject(it, { refresh_token_reuse_interval_seconds: 300 })
  other = await authProject(it)
})
after(() => it.stop())

async function beginBrief() {
  const api = await authProject(it, {
    otp_expiry_seconds: 60,
    session_duration_seconds: 60,
    refresh_token_duration_seconds: 60,
  })
  const user = await api.signUp()
  const reader = await api.createUser()
  const { email: typist } = await api.createUser()
  for (const email of [reader.email, typist]) succeeded(await api.post('/otp', { email }))
  succeeded(await api.post('/recover', { email: user.email }))
  const { link } = await api.mailTo(reader.email, 'magic_link')
  const { code } = await api.mailTo(typist, 'magic_link')
  const { hash } = await api.mailTo(user.email, 'reset_password')
  return { api, user, typist, code, link, recovery: hash, until: nowSeconds() + 61 }
}

const refresh = (refreshToken: unknown, api = auth) =>
  api.post('/token?grant_type=refresh_token', { refresh_token: refreshToken })
const refreshed = async (refreshToken: string, api = auth): Promise<string> =>
  succeeded(await refresh(refreshToken, api)).refresh_token

function refused(reply: Reply, status: number, code: string, what = ''): void {
  assert.deepEqual([reply.status, reply.body?.code], [status, code], `${what} ${reply.text}`)
}

async function sessionsOf({ id }: SignedIn, api = auth): Promise<string[]> {
  const { status, text, body } = await it.manage('GET', `/projects/${api.project.id}/users/${id}/sessions`)
  assert.equal(status, 200, text)
  return body.sessions.map((session: { id: string }) => session.id)
}

// Case 19: refresh tokens

test('auth §6 a refresh gives a new token for the same session, and adds nothing to how the user signed in', async () => {
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

test('case 19: the parent of the active token gets the active token, as often as it asks', async () => {
  const { refreshToken } = await strict.signUp()
  const active = await refreshed(refreshToken, strict)
  for (let time = 0; time < 3; time++) assert.equal(await refreshed(refreshToken, strict), active)
  const next = await refreshed(active, strict)
  assert.notEqual(next, active)
  assert.equal(await refreshed(active, strict), next)
})

test('case 19: within the reuse window an older token gets the active token, and replaces nothing', async () => {
  const { refreshToken } = await lenient.signUp()
  const second = await refreshed(refreshToken, lenient)
  const third = await refreshed(second, lenient)
  const active = await refreshed(third, lenient)
  for (const old of [refreshToken, second, third]) assert.equal(await refreshed(old, lenient), active)
  assert.notEqual(await refreshed(active, lenient), active)
})

test('case 19: after it, an older token ends its session, and no other', async () => {
  const user = await strict.signUp()
  const elsewhere = await strict.signIn(user)
  const parent = await refreshed(user.refreshToken, strict)
  const session = succeeded(await refresh(parent, strict))
  refused(await refresh(user.refreshToken, strict), 400, 'refresh_token_already_used')
  for (const token of [session.refresh_token, parent, user.refreshToken]) {
    const reply = await refresh(token, strict)
    assert.equal(reply.status, 400, reply.text)
    assert.match(reply.body.code, /^(refresh_token_not_found|session_not_found)$/)
  }
  for (const token of [session.access_token, user.token])
    refused(await strict.get('/user', { token }), 403, 'session_not_found')
  assert.deepEqual(await sessionsOf(user, strict), [elsewhere.sessionId])
  await refreshed(elsewhere.refreshToken, strict)
})

test('case 19: the access tokens of that session count for nothing on rows within a second', async () => {
  const user = await strict.signUp()
  await refreshed(await refreshed(user.refreshToken, strict), strict)
  refused(await refresh(user.refreshToken, strict), 400, 'refresh_token_already_used')
  const endedAt = performance.now()
  const whoami = () =>
    it.call('GET', `/v1/whoami/${strict.project.id}`, { apikey: strict.project.anon_key, token: user.token })
  while ((await whoami()).status === 200)
    assert.ok(performance.now() - endedAt < 10_000, 'the token still counts')
  assert.equal((await whoami()).status, 401)
})

test('case 19: twenty refreshes at the same time are one family', async () => {
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

test('case 19: of a session that is being refreshed and signed out at once nothing is left', async () => {
  const user = await auth.signUp()
  const [out, ...replies] = await Promise.all([
    auth.post('/logout?scope=local', undefined, { token: user.token }),
    ...Array.from({ length: 10 }, () => refresh(user.refreshToken)),
  ])
  assert.equal(out.status, 204, out.text)
  const told = replies.flatMap(({ status, body }) => (status === 200 ? [body.refresh_token] : []))
  for (const token of [user.refreshToken, ...told]) assert.equal((await refresh(token)).status, 400)
  assert.deepEqual(await sessionsOf(user), [])
})

test('auth §6 a refresh token that is none is 400, whatever it is made of', async () => {
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
  for (const text of nonsense) refused(await refresh(text), 400, 'refresh_token_not_found', text)
  for (const text of ['', null, undefined, 5, {}, [refreshToken], '\u0000', 'x'.repeat(100_000)])
    assert.equal((await refresh(text)).status, 400, JSON.stringify(text)?.slice(0, 50))
  await refreshed(refreshToken)
})

test('auth §6, case 1: a refresh token is good in its project only', async () => {
  const { refreshToken } = await auth.signUp()
  refused(await refresh(refreshToken, other), 400, 'refresh_token_not_found')
  await refreshed(refreshToken)
})

test('auth §3 and §6 a banned user refreshes no more; a deleted one has nothing to refresh', async () => {
  const user = await auth.signUp()
  succeeded(await auth.admin('PUT', `/admin/users/${user.id}`, { ban_duration: '24h' }))
  refused(await refresh(user.refreshToken), 400, 'user_banned')
  refused(await auth.get('/user', user), 403, 'user_banned')
  succeeded(await auth.admin('PUT', `/admin/users/${user.id}`, { ban_duration: 'none' }))
  const kept = await refresh(user.refreshToken)
  if (kept.status !== 200) assert.equal(kept.status, 400, 'a ban may have ended the session')
  succeeded(await auth.admin('DELETE', `/admin/users/${user.id}`, {}))
  assert.equal((await refresh(user.refreshToken)).status, 400)
  refused(await auth.get('/user', user), 403, 'user_not_found')
})

// Case 21: access tokens

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Everything a token can be that its holder did not get from us, made from one that is good. */
function forgeries({ token }: SignedIn): Record<string, string> {
  const good = claimsOf(token)
  const { jwt_secret: secret } = auth.project
  const [header = '', payload = '', signature = ''] = token.split('.')
  const { role: _role, ...withoutRole } = good
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const byRsa = (head: Record<string, unknown>) => {
    const text = `${encode(head)}.${payload}`
    return `${text}.${sign('sha256', Buffer.from(text), rsa.privateKey).toString('base64url')}`
  }
  const withKid = (kid: string, key: string) => jwt(good, key, { alg: 'HS256', typ: 'JWT', kid })
  return {
    'alg none': `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    'alg NonE, with the signature': `${encode({ alg: 'NonE', typ: 'JWT' })}.${payload}.${signature}`,
    'no signature': `${header}.${payload}.`,
    'two parts': `${header}.${payload}`,
    'RS256 with a key of the attacker': byRsa({ alg: 'RS256', typ: 'JWT' }),
    'RS256 naming the key': byRsa({ alg: 'RS256', jwk: rsa.publicKey.export({ format: 'jwk' }) }),
    'RS256 in name, HMAC with the secret': jwt(good, secret, { alg: 'RS256', typ: 'JWT' }),
    'HS256 with a public key as secret': jwt(good, publicPem),
    HS512: jwt(good, secret, { alg: 'HS512', typ: 'JWT' }, 'sha512'),
    'the secret of another project': jwt(good, other.project.jwt_secret),
    'an empty secret': jwt(good, ''),
    'the anon key as secret': jwt(good, auth.project.anon_key),
    expired: jwt({ ...good, exp: nowSeconds() - 1 }, secret),
    'expired, as text': jwt({ ...good, exp: String(nowSeconds() + 60) }, secret),
    'not yet': jwt({ ...good, nbf: nowSeconds() + 3600 }, secret),
    'without a role': jwt(withoutRole, secret),
    'a role nobody has': jwt({ ...good, role: 'postgres' }, secret),
    'kid leading to an empty file': withKid('../../../../../../dev/null', ''),
    'kid with SQL': withKid("x' union select 'known' --", 'known'),
    'a payload that was exchanged': `${header}.${encode({ ...good, role: 'service_role' })}.${signature}`,
    'a header that was exchanged': `${encode({ alg: 'HS256' })}.${payload}.${signature}`,
    'dots alone': '..',
  }
}

test('case 21: a token that was made up is 401 on rows, in both shapes of the URL', async () => {
  await auth.sql('create table public.diary (id int primary key)')
  const user = await auth.signUp()
  const { anon_key: apikey, id } = auth.project
  const paths = [`/v1/rest/${id}/diary`, `/v1/${id}/rest/v1/diary`]
  for (const path of paths) {
    succeeded(await it.call('GET', path, { apikey, token: user.token }))
    for (const [what, token] of Object.entries(forgeries(user))) {
      const reply = await it.call('GET', path, { apikey, token })
      assert.equal(reply.status, 401, `${path} ${what}: ${reply.status} ${reply.text}`)
    }
  }
})

test('case 21: and on auth routes, whatever they do', async () => {
  const user = await auth.signUp()
  const factor = succeeded(await auth.post('/factors', { factor_type: 'totp' }, user)).id
  const routes: [method: string, path: string, body?: unknown][] = [
    ['GET', '/user'],
    ['PUT', '/user', { data: { forged: true } }],
    ['POST', '/logout'],
    ['GET', '/reauthenticate'],
    ['POST', '/factors', { factor_type: 'totp' }],
    ['DELETE', `/factors/${factor}`],
    ['GET', '/admin/users'],
    ['DELETE', `/admin/users/${user.id}`, {}],
  ]
  for (const [what, token] of Object.entries(forgeries(user)))
    for (const [method, path, body] of routes)
      refused(await auth.ask(method, path, { token, body }), 401, 'bad_jwt', `${what}: ${method} ${path}`)
  const now = succeeded(await auth.get('/user', user))
  assert.equal(now.user_metadata.forged, undefined)
  assert.equal(now.factors.length, 1)
})

test('case 21: native routes read tokens in the same way', async () => {
  const user = await auth.signUp()
  for (const [what, token] of Object.entries(forgeries(user)))
    for (const [method, path] of [
      ['GET', '/session'],
      ['POST', '/sign-out'],
    ] as const)
      refused(await auth.ask(method, path, { token, shape: 'native' }), 401, 'bad_jwt', `${what}: ${path}`)
  succeeded(await auth.get('/session', { ...user, shape: 'native' }))
})

test('case 21: a token of 1 MB is 4xx, and the server goes on', async () => {
  const user = await auth.signUp()
  const huge = jwt({ ...claimsOf(user.token), padding: 'x'.repeat(1_000_000) }, auth.project.jwt_secret)
  for (const path of [`${authRoot(auth.project)}/user`, `/v1/rest/${auth.project.id}/diary`]) {
    const { status } = await it.call('GET', path, { apikey: auth.project.anon_key, token: huge })
    assert.ok(status >= 400 && status < 500, `${path}: ${status}`)
  }
  succeeded(await auth.get('/user', user))
})

test('case 1 and 21: a token is good in its project only', async () => {
  const user = await auth.signUp()
  refused(await other.get('/user', user), 401, 'bad_jwt')
  const reply = await it.call('GET', `${authRoot(auth.project)}/user`, {
    apikey: other.project.anon_key,
    token: user.token,
  })
  assert.equal(reply.status, 401, reply.text)
})

test('1 §5 a token counts in its header, beside a key, and nowhere else', async () => {
  const { token } = await auth.signUp()
  const path = `${authRoot(auth.project)}/user`
  const { anon_key: apikey } = auth.project
  const ways: Record<string, Parameters<Target['call']>[2]> = {
    'without a key': { token },
    'as the key': { apikey: token },
    'as the key and itself': { apikey: token, token },
    'with another scheme': { apikey, headers: { authorization: `Basic ${token}` } },
    twice: { apikey, headers: { authorization: `Bearer ${token} ${token}` } },
    'without a scheme': { apikey, headers: { authorization: token } },
    'in a cookie': { apikey, headers: { cookie: `sb-access-token=${token}; access_token=${token}` } },
  }
  for (const [what, options] of Object.entries(ways))
    assert.equal((await it.call('GET', path, options)).status, 401, what)
  const inQuery = await it.call('GET', `${path}?access_token=${token}&token=${token}`, { apikey })
  assert.equal(inQuery.status, 401, 'in the query')
  assert.equal((await it.call('GET', path, { apikey, token })).status, 200)
})

test('auth §3 a token of the project’s own making still needs its user and its session', async () => {
  const user = await auth.signUp()
  const neighbour = await auth.signUp()
  const { jwt_secret: secret } = auth.project
  const good = claimsOf(user.token)
  const { session_id: _session, ...withoutSession } = good
  const { sub: _sub, ...withoutSub } = good
  const read = (claims: object) => auth.get('/user', { token: jwt(claims, secret) })
  succeeded(await read(good))
  refused(await read(withoutSession), 403, 'session_not_found')
  refused(await read({ ...good, session_id: someId }), 403, 'session_not_found')
  refused(await read({ ...good, session_id: neighbour.sessionId }), 403, 'session_not_found')
  refused(await read({ ...good, session_id: 'nonsense' }), 403, 'session_not_found')
  refused(await read({ ...good, sub: someId }), 403, 'user_not_found')
  refused(await read({ ...good, sub: neighbour.id }), 403, 'session_not_found')
  refused(await read({ ...good, sub: "' or true --" }), 403, 'user_not_found')
  refused(await read(withoutSub), 403, 'user_not_found')
})

// Case 23: one-time tokens; that each is good once and for its purpose is in auth-otp and auth-links.

const verify = (body: Record<string, unknown>, api = auth) => api.post('/verify', body)
const byCode = (email: string, token: string, type = 'magiclink', api = auth) =>
  verify({ type, email, token }, api)
const byHash = (token_hash: string, type = 'magiclink', api = auth) => verify({ type, token_hash }, api)

/** Somebody with a confirmed address who has asked for a magic link. */
async function asked(api = auth) {
  const user = await api.createUser()
  succeeded(await api.post('/otp', { email: user.email, create_user: false }))
  return { user, email: user.email as string, mail: await api.mailTo(user.email, 'magic_link') }
}

test('case 23: of twenty with the code, its hash and its link at the same time one is let in', async () => {
  const { user, email, mail } = await asked()
  const tries = Array.from({ length: 20 }, (_, at) =>
    at % 3 === 0
      ? byCode(email, mail.code).then(({ status }) => status === 200)
      : at % 3 === 1
        ? byHash(mail.hash).then(({ status }) => status === 200)
        : auth.follow(mail.link).then(({ fragment }) => 'access_token' in fragment),
  )
  assert.equal((await Promise.all(tries)).filter(isIn => isIn).length, 1)
  assert.equal((await sessionsOf(user)).length, 1)
})

test('case 23: codes cannot be tried until one fits; then neither code nor link is good', async () => {
  for (const type of ['magiclink', 'email'] as const) {
    const { email, mail } = await asked()
    let guess = mail.code
    for (let time = 0; time < 20; time++) {
      guess = otherCode(guess)
      const { status } = await byCode(email, guess, type)
      assert.ok(status === 403 || status === 429, `${status}`)
    }
    const late = await byCode(email, mail.code, type)
    assert.ok(late.status === 403 || late.status === 429, `the right code after 20 wrong ones: ${late.text}`)
    assert.equal('access_token' in (await auth.follow(mail.link)).fragment, false)
    succeeded(await auth.post('/otp', { email }))
    const fresh = await auth.mailTo(email, 'magic_link', mail)
    succeeded(await byCode(email, fresh.code, type))
  }
})

test('case 23: guesses at the same time are all counted', async () => {
  const { email, mail } = await asked()
  let guess = mail.code
  const guesses = Array.from({ length: 30 }, () => {
    guess = otherCode(guess)
    return guess
  })
  await Promise.all(guesses.map(code => byCode(email, code)))
  refused(await byCode(email, mail.code), 403, 'otp_expired')
})

test('case 23: guesses at one address leave the others alone', async () => {
  const victim = await asked()
  const bystander = await asked()
  let guess = victim.mail.code
  for (let time = 0; time < 20; time++) {
    guess = otherCode(guess)
    await byCode(victim.email, guess)
    await byCode(someone('nobody'), guess)
  }
  succeeded(await byCode(bystander.email, bystander.mail.code))
})

test('auth §12 codes and links tried are counted per address', async () => {
  const limited = await authProject(it, { rate_limits: { verify: 5, mail: 0, mail_interval_seconds: 0 } })
  const statuses: number[] = []
  for (let time = 0; time < 8; time++)
    statuses.push((await byCode(someone('nobody'), '123456', 'magiclink', limited)).status)
  assert.deepEqual(statuses, [403, 403, 403, 403, 403, 429, 429, 429])
})

test('case 23: a code of a user who is gone lets nobody in', async () => {
  const { user, email, mail } = await asked()
  succeeded(await auth.admin('DELETE', `/admin/users/${user.id}`, {}))
  refused(await byHash(mail.hash), 403, 'otp_expired')
  refused(await byCode(email, mail.code), 403, 'otp_expired')
})

// What only time shows; everything here was begun before the first test.

test('cases 21 and 23: after their time codes, links, access tokens and sessions are good for nothing', async () => {
  const { api, user, typist, code, link, recovery, until } = brief
  while (nowSeconds() < until) await sleep(500)
  refused(await byCode(typist, code, 'magiclink', api), 403, 'otp_expired')
  refused(await byHash(recovery, 'recovery', api), 403, 'otp_expired')
  assert.equal((await api.follow(link)).fragment['error_code'], 'otp_expired')
  refused(await api.get('/user', user), 401, 'bad_jwt')
  const rows = await it.call('GET', `/v1/whoami/${api.project.id}`, {
    apikey: api.project.anon_key,
    token: user.token,
  })
  assert.equal(rows.status, 401, rows.text)
  refused(await refresh(user.refreshToken, api), 400, 'session_expired')
})
