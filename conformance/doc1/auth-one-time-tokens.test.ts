// Auth contract §7 and case 23: guessing, concurrent use and expiry of one-time tokens. auth-otp and auth-links test
// that each token works once and only for its type.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertRefused,
  authProject,
  otherCode,
  type SignedIn,
  someone,
  succeeded,
} from '../auth.ts'
import { nowSeconds, sleep } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
/** A project in which everything expires after a minute. Created first, checked by the last test. */
let shortLived: Awaited<ReturnType<typeof startShortLived>>
before(async () => {
  it = await target()
  shortLived = await startShortLived()
  auth = await authProject(it)
})
after(() => it.stop())

async function startShortLived() {
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

async function sessionsOf({ id }: SignedIn, api = auth): Promise<string[]> {
  const { status, text, body } = await it.manage('GET', `/projects/${api.project.id}/users/${id}/sessions`)
  assert.equal(status, 200, text)
  return body.sessions.map((session: { id: string }) => session.id)
}

const verify = (body: Record<string, unknown>, api = auth) => api.post('/verify', body)
const byCode = (email: string, token: string, type = 'magiclink', api = auth) =>
  verify({ type, email, token }, api)
const byHash = (token_hash: string, type = 'magiclink', api = auth) => verify({ type, token_hash }, api)

/** A user with a confirmed address who has requested a magic link. */
async function requestLink(api = auth) {
  const user = await api.createUser()
  succeeded(await api.post('/otp', { email: user.email, create_user: false }))
  return { user, email: user.email as string, mail: await api.mailTo(user.email, 'magic_link') }
}

test('case 23: of twenty concurrent uses of a code, its hash and its link one signs in', async () => {
  const { user, email, mail } = await requestLink()
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

test('case 23: too many wrong codes invalidate both code and link', async () => {
  for (const type of ['magiclink', 'email'] as const) {
    const { email, mail } = await requestLink()
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

test('case 23: concurrent wrong codes are all counted', async () => {
  const { email, mail } = await requestLink()
  let guess = mail.code
  const guesses = Array.from({ length: 30 }, () => {
    guess = otherCode(guess)
    return guess
  })
  await Promise.all(guesses.map(code => byCode(email, code)))
  assertRefused(await byCode(email, mail.code), 403, 'otp_expired')
})

test('case 23: wrong codes for one address do not affect others', async () => {
  const victim = await requestLink()
  const bystander = await requestLink()
  let guess = victim.mail.code
  for (let time = 0; time < 20; time++) {
    guess = otherCode(guess)
    await byCode(victim.email, guess)
    await byCode(someone('nobody'), guess)
  }
  succeeded(await byCode(bystander.email, bystander.mail.code))
})

test('auth §12 code and link attempts are rate limited per client address', async () => {
  const limited = await authProject(it, { rate_limits: { verify: 5, mail: 0, mail_interval_seconds: 0 } })
  const statuses: number[] = []
  for (let time = 0; time < 8; time++)
    statuses.push((await byCode(someone('nobody'), '123456', 'magiclink', limited)).status)
  assert.deepEqual(statuses, [403, 403, 403, 403, 403, 429, 429, 429])
})

test('case 23: a code of a deleted user is invalid', async () => {
  const { user, email, mail } = await requestLink()
  succeeded(await auth.admin('DELETE', `/admin/users/${user.id}`, {}))
  assertRefused(await byHash(mail.hash), 403, 'otp_expired')
  assertRefused(await byCode(email, mail.code), 403, 'otp_expired')
})

test('cases 21 and 23: expired codes, links, access tokens and sessions are invalid', async () => {
  const { api, user, typist, code, link, recovery, until } = shortLived
  while (nowSeconds() < until) await sleep(500)
  assertRefused(await byCode(typist, code, 'magiclink', api), 403, 'otp_expired')
  assertRefused(await byHash(recovery, 'recovery', api), 403, 'otp_expired')
  assert.equal((await api.follow(link)).fragment['error_code'], 'otp_expired')
  assertRefused(await api.get('/user', user), 401, 'bad_jwt')
  const rows = await it.call('GET', `/v1/whoami/${api.project.id}`, {
    apikey: api.project.anon_key,
    token: user.token,
  })
  assert.equal(rows.status, 401, rows.text)
  assertRefused(await refresh(user.refreshToken, api), 400, 'session_expired')
})
