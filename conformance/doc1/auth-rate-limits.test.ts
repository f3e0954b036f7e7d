// Auth contract §12 and clarifications "Users and mail": rate limits per client address, and mail limits.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  authOf,
  authProject,
  authRoot,
  noLimits,
  password,
  someone,
  succeeded,
} from '../auth.ts'
import { createProject, unlimited } from '../people.ts'
import { freshTarget, type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

/** All limits are off except the given ones. */
const limited = (rate_limits: object, settings: object = {}) =>
  authProject(it, { ...settings, rate_limits: { ...noLimits, ...rate_limits } })

function assertLimited(reply: Reply, code = 'over_request_rate_limit'): void {
  assertAuthError(reply, 429, code)
  const wait = Number(reply.headers.get('retry-after'))
  assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 3600, `Retry-After: ${wait}`)
}
async function repeat(times: number, ask: () => Promise<Reply>): Promise<number[]> {
  const statuses: number[] = []
  for (let n = 0; n < times; n++) statuses.push((await ask()).status)
  return statuses
}

test('clarifications: the token limit counts sign-ins and refreshes together, successful or not, in both shapes', async () => {
  const api = await limited({ token: 3 })
  const me = await api.signUp()
  const wrong = { email: me.email, password: 'wrong password' }
  const right = { email: me.email, password }
  assertAuthError(await api.post('/token?grant_type=password', wrong), 400, 'invalid_credentials')
  assertSession(succeeded(await api.post('/sign-in', right, { shape: 'native' })))
  const refresh = { refresh_token: me.refreshToken }
  assertSession(succeeded(await api.post('/token?grant_type=refresh_token', refresh)))
  for (const shape of ['native', 'alias'] as const) {
    assertLimited(await api.post('/token?grant_type=password', right, { shape }))
    assertLimited(await api.post('/token?grant_type=refresh_token', refresh, { shape }))
    assertLimited(await api.post('/sign-in', right, { shape }))
  }
  const pkce = { auth_code: 'x', code_verifier: 'y' }
  assertLimited(await api.post('/token?grant_type=pkce', pkce))
  succeeded(await api.get('/user', { token: me.token }))
  await api.signUp()
})

test('clarifications: of twenty concurrent attempts no more than the limit are admitted', async () => {
  const api = await limited({ token: 5 })
  const body = { refresh_token: 'nonsense' }
  const ask = () => api.post('/token?grant_type=refresh_token', body)
  const statuses = (await Promise.all(Array.from({ length: 20 }, ask))).map(({ status }) => status)
  assert.deepEqual(statuses.toSorted(), [...Array(5).fill(400), ...Array(15).fill(429)])
})

test('clarifications: a header cannot change the client address', async () => {
  const api = await limited({ token: 2 })
  let n = 0
  const ask = () =>
    api.post(
      '/token?grant_type=refresh_token',
      { refresh_token: 'nonsense' },
      { headers: { 'x-forwarded-for': `203.0.113.${++n}`, 'x-real-ip': `203.0.113.${n}` } },
    )
  assert.deepEqual(await repeat(4, ask), [400, 400, 429, 429])
})

test('case 23: the verify limit counts codes and links together, also valid ones', async () => {
  const api = await limited({ verify: 3 })
  const { email } = await api.signUp()
  succeeded(await api.post('/otp', { email }))
  const mail = await api.mailTo(email, 'magic_link')
  const wrong = { type: 'email', email, token: '000000' }
  const link = new URL(mail.link)
  const open = () => it.call('GET', link.pathname + link.search)
  assert.equal((await api.post('/verify', wrong)).status, 403)
  assert.equal((await api.post('/verify', wrong, { shape: 'native' })).status, 403)
  const badLink = `${authRoot(api.project)}/verify?token=nonsense&type=magiclink`
  assert.equal((await it.call('GET', badLink)).status, 303)
  assertLimited(await api.post('/verify', { ...wrong, token: mail.code }))
  const opened = await open()
  assert.ok(!`${opened.headers.get('location')}${opened.text}`.includes('access_token'))
  assert.ok(
    opened.status === 429 || /over_request_rate_limit/.test(opened.headers.get('location') ?? ''),
    `${opened.status} ${opened.headers.get('location')}`,
  )
  await api.settings({ rate_limits: { verify: 0 } })
  assertSession(succeeded(await api.post('/verify', { ...wrong, token: mail.code })))
})

for (const [path, body] of [
  ['/otp', { email: someone() }],
  ['/magiclink', { email: someone() }],
  ['/magic-link', { email: someone() }],
  ['/recover', { email: someone() }],
  ['/resend', { email: someone(), type: 'signup' }],
  ['/signup', { email: someone(), password }],
  ['/sign-up', { email: someone(), password }],
] as const)
  test(`auth contract §12: the email limit applies to ${path}`, async () => {
    const api = await limited({ email: 2 })
    const ask = () => api.post(path, { ...body, email: someone() })
    assert.deepEqual(await repeat(2, ask), [200, 200])
    assertLimited(await ask())
    const late = { ...body, email: someone('late') }
    await api.post(path, late)
    assert.deepEqual(await api.kindsTo(late.email), [])
    assert.deepEqual(await api.sql(`select 1 from auth.users where email = '${late.email}'`), [])
    await api.settings({ rate_limits: { email: 0 } })
    assert.deepEqual(await repeat(4, ask), [200, 200, 200, 200])
  })

test('auth contract §12: the email limit applies to email changes', async () => {
  const api = await limited({ email: 0 })
  const me = await api.signUp()
  await api.settings({ rate_limits: { email: 2 } })
  const ask = () => api.put('/user', { email: someone('new') }, { token: me.token })
  assert.deepEqual(await repeat(2, ask), [200, 200])
  assertLimited(await ask())
})

test('clarifications: the anonymous limit applies to anonymous sign-ups only', async () => {
  const api = await limited({ anonymous: 2 })
  const ask = () => api.post('/signup', { data: {} })
  assert.deepEqual(await repeat(2, ask), [200, 200])
  assertLimited(await ask())
  assertLimited(await api.post('/signup', {}, { shape: 'native' }))
  await api.signUp()
  await api.settings({ rate_limits: { anonymous: 0 } })
  assert.equal((await ask()).status, 200)
})

test('clarifications: the mfa limit applies to challenges', async () => {
  const api = await limited({ mfa: 2 })
  const { token } = await api.signUp()
  const fields = { factor_type: 'totp', friendly_name: 'phone' }
  const factor = succeeded(await api.post('/factors', fields, { token }))
  const ask = () => api.post(`/factors/${factor.id}/challenge`, {}, { token })
  assert.deepEqual(await repeat(2, ask), [200, 200])
  assertLimited(await ask())
  await api.settings({ rate_limits: { mfa: 0 } })
  assert.equal((await ask()).status, 200)
})

test('auth contract §12: the mail limit applies to the mails of a project per hour', async () => {
  const api = await limited({ mail: 2 }, { auto_confirm: false })
  const ask = () => api.post('/otp', { email: someone() })
  assert.deepEqual(await repeat(2, ask), [200, 200])
  assertLimited(await ask(), 'over_email_send_rate_limit')
  assertLimited(await api.post('/signup', { email: someone(), password }), 'over_email_send_rate_limit')
  await api.settings({ rate_limits: { mail: 0 } })
  assert.equal((await ask()).status, 200)
})

test('issue: a welcome mail over the limit does not refuse a sign-up', async () => {
  const api = await limited({ mail: 1, mail_interval_seconds: 3600 })
  for (let n = 0; n < 3; n++) await api.signUp()
})

test('auth contract §12: a second mail to one address within the interval is refused with the seconds to wait', async () => {
  const api = await limited({ mail_interval_seconds: 3600 })
  const { email } = await api.createUser()
  assert.equal((await api.post('/otp', { email })).status, 200)
  const again = await api.post('/otp', { email: email.toUpperCase() })
  assertLimited(again, 'over_email_send_rate_limit')
  const [, seconds] = /(\d+) seconds/.exec(again.body.message) ?? []
  assert.ok(Number(seconds) > 3000 && Number(seconds) <= 3600, again.body.message)
  assert.equal((await api.post('/otp', { email: someone() })).status, 200, 'another address')
  assert.deepEqual(
    (await api.mailsTo(email)).map(({ template }) => template),
    ['magic_link'],
  )
  await api.settings({ rate_limits: { mail_interval_seconds: 0 } })
  assert.equal((await api.post('/otp', { email })).status, 200)
})

test('auth contract §4: the interval applies to signing up again before verifying', async () => {
  const api = await limited({ mail_interval_seconds: 3600 }, { auto_confirm: false })
  const fields = { email: someone(), password }
  assert.equal((await api.post('/signup', fields)).status, 200)
  assertLimited(await api.post('/signup', fields), 'over_email_send_rate_limit')
  const resend = await api.post('/resend', { email: fields.email, type: 'signup' })
  assertLimited(resend, 'over_email_send_rate_limit')
})

test('clarifications: each project has its own rate limit windows', async () => {
  const [busy, quiet] = [await limited({ token: 1 }), await limited({ token: 1 })]
  const ask = (api: AuthApi) => api.post('/token?grant_type=refresh_token', { refresh_token: 'nonsense' })
  assert.deepEqual([(await ask(busy)).status, (await ask(busy)).status], [400, 429])
  assert.equal((await ask(quiet)).status, 400)
})

test('auth contract §12: the default limits are 150, 30, 30, 30 per five minutes and 30 mails per hour', async () => {
  const api = authOf(it, await createProject(it, { quotas: unlimited }))
  const atOnce = async (times: number, ask: () => Promise<Reply>) => {
    const replies = await Promise.all(Array.from({ length: times }, ask))
    return replies.filter(({ status }) => status !== 429).length
  }
  const refresh = () => api.post('/token?grant_type=refresh_token', { refresh_token: 'nonsense' })
  assert.equal(await atOnce(155, refresh), 150)
  const verify = () => api.post('/verify', { type: 'email', email: someone(), token: '000000' })
  assert.equal(await atOnce(32, verify), 30)
  assert.equal(await atOnce(32, () => api.post('/signup', { data: {} })), 30)
  const recover = () => api.post('/recover', { email: someone() })
  await api.settings({ rate_limits: { mail: 0 } })
  assert.equal(await atOnce(32, recover), 30)
  const other = authOf(it, await createProject(it, { quotas: unlimited }))
  await other.settings({ rate_limits: { email: 0 } })
  const statuses = await repeat(32, () => other.post('/otp', { email: someone() }))
  assert.deepEqual(statuses, [...Array(30).fill(200), 429, 429])
})

test('auth contract §12: of twenty concurrent requests no more mails are sent than allowed', async () => {
  const api = await limited({ mail: 5 })
  const ask = () => api.post('/otp', { email: someone() })
  const statuses = (await Promise.all(Array.from({ length: 20 }, ask))).map(({ status }) => status)
  assert.deepEqual(statuses.toSorted(), [...Array(5).fill(200), ...Array(15).fill(429)])
})

test('auth contract §12: of ten concurrent requests for one address one sends a mail', async () => {
  const api = await limited({ mail_interval_seconds: 3600 })
  const { email } = await api.createUser()
  const ask = () => api.post('/recover', { email })
  const statuses = (await Promise.all(Array.from({ length: 10 }, ask))).map(({ status }) => status)
  assert.deepEqual(statuses.toSorted(), [200, ...Array(9).fill(429)])
  assert.deepEqual(await api.kindsTo(email), ['reset_password'])
})

test('auth contract §12: the default interval between two mails to one address is 60 seconds', async () => {
  const api = authOf(it, await createProject(it, { quotas: unlimited }))
  const email = someone()
  assert.equal((await api.post('/recover', { email })).status, 200)
  const again = await api.post('/recover', { email })
  assertLimited(again, 'over_email_send_rate_limit')
  const [, seconds] = /(\d+) seconds/.exec(again.body.message) ?? []
  assert.ok(Number(seconds) >= 1 && Number(seconds) <= 60, again.body.message)
})

test('clarifications: routes without headers have a rate limit window per client address', async () => {
  const small = await freshTarget({ PLATFORM_RATE_LIMIT_ANON: '3' })
  try {
    const project = await createProject(small)
    const root = authRoot(project)
    const open = (path: string) => small.call('GET', root + path)
    assert.equal((await open('/verify?token=x&type=magiclink')).status, 303)
    assert.equal((await open('/health')).status, 200)
    assert.notEqual((await open('/authorize?provider=github')).status, 429)
    for (const path of ['/verify?token=x&type=magiclink', '/health', '/oauth/github', '/callback?state=x']) {
      const reply = await open(path)
      assert.equal(reply.status, 429, path)
      assert.match(reply.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    }
    const whoami = await small.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })
    assert.deepEqual([whoami.status, whoami.headers.get('x-ratelimit-remaining')], [200, '2'])
  } finally {
    await small.stop()
  }
})
