// 3 §5.3 and §8: login is limited per address and locks out after five failures per address and e-mail.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createUser, tryLogin, type User, unique } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { assertManagementError, type Reply } from '../wire.ts'

// Every test has its own client address, which needs a trusted proxy.
let behindProxy: Target
let direct: Target
let user: User
before(async () => {
  behindProxy = await freshTarget({ PLATFORM_TRUSTED_PROXIES: '127.0.0.1/32,::1/128' })
  direct = await freshTarget()
  user = await createUser(direct)
})
after(() => Promise.all([behindProxy.stop(), direct.stop()]))

let lastAddress = 0
const newAddress = () => ({ 'x-forwarded-for': `203.0.113.${++lastAddress}` })

async function fail(times: number, attempt: () => Promise<Reply>): Promise<void> {
  for (let count = 0; count < times; count++) assertManagementError(await attempt(), 'invalid_login')
}

function assertLocked(reply: Reply): void {
  assertManagementError(reply, 'login_locked')
  const wait = reply.headers.get('retry-after') ?? ''
  assert.match(wait, /^[1-9]\d*$/)
}

test('3 §5.3 wrong password, unknown e-mail and inactive user get the same answer', async () => {
  const known = await createUser(behindProxy)
  const inactive = await createUser(behindProxy, 'viewer')
  await behindProxy.manage('PATCH', `/admin/users/${inactive.id}`, { is_active: false })
  const from = newAddress()
  const answers = [
    await tryLogin(behindProxy, { email: known.email, password: 'wrong password' }, from),
    await tryLogin(behindProxy, { email: known.email, password: '' }, from),
    await tryLogin(behindProxy, { email: 'nobody@example.test', password: 'wrong password' }, from),
    await tryLogin(behindProxy, { email: 'not an address', password: 'wrong password' }, from),
    await tryLogin(behindProxy, { email: '', password: '' }, from),
    await tryLogin(behindProxy, inactive, from),
  ]
  for (const answer of answers) {
    assertManagementError(answer, 'invalid_login')
    assert.equal(answer.text, answers[0]!.text)
    assert.deepEqual([...answer.headers.keys()], [...answers[0]!.headers.keys()])
  }
})

test('3 §5.3 after five failures even the right password is 429, for that address and e-mail only', async () => {
  const locked = await createUser(behindProxy)
  const other = await createUser(behindProxy)
  const here = newAddress()
  await fail(5, () => tryLogin(behindProxy, { email: locked.email, password: 'wrong' }, here))
  assertLocked(await tryLogin(behindProxy, { email: locked.email, password: 'wrong' }, here))
  assertLocked(await tryLogin(behindProxy, locked, here))
  assert.equal((await tryLogin(behindProxy, other, here)).status, 200, 'another e-mail, same address')
  assert.equal(
    (await tryLogin(behindProxy, locked, newAddress())).status,
    200,
    'same e-mail, another address',
  )
})

test('3 §5.3 an unknown e-mail is locked like a known one, with the same answer', async () => {
  const from = newAddress()
  const known = await createUser(behindProxy)
  const emails = [known.email, `${unique('nobody')}@example.test`]
  for (const email of emails) await fail(5, () => tryLogin(behindProxy, { email, password: 'wrong' }, from))
  const [first, second] = await Promise.all(
    emails.map(email => tryLogin(behindProxy, { email, password: 'wrong' }, from)),
  )
  assertLocked(first!)
  assertLocked(second!)
  assert.equal(first!.text, second!.text)
})

test('3 §5.3 another spelling of the e-mail does not reset the failure count', async () => {
  const from = newAddress()
  const { email, password } = await createUser(behindProxy)
  const spellings = [email, email.toUpperCase(), email.replace(/^./, c => c.toUpperCase())]
  for (const spelling of [...spellings, ...spellings].slice(0, 5))
    assertManagementError(
      await tryLogin(behindProxy, { email: spelling, password: 'wrong' }, from),
      'invalid_login',
    )
  for (const spelling of spellings) {
    // The address is either another spelling of the locked user, or unknown.
    const reply = await tryLogin(behindProxy, { email: spelling, password }, from)
    assert.ok([401, 429].includes(reply.status), `${spelling}: ${reply.status}`)
  }
})

test('3 §5.3 concurrent failed logins are all counted', async () => {
  const from = newAddress()
  const { email } = await createUser(behindProxy)
  const tries = await Promise.all(
    Array.from({ length: 15 }, (_, i) => tryLogin(behindProxy, { email, password: `guess ${i}` }, from)),
  )
  const checked = tries.filter(({ status }) => status === 401).length
  assert.ok(checked <= 5, `${checked} of 15 guesses were checked`)
  assert.ok(tries.every(({ status }) => status === 401 || status === 429))
})

test('3 §5.3 login is rate limited per address: 20 a minute', async () => {
  const from = newAddress()
  const attempt = () =>
    tryLogin(behindProxy, { email: `${unique('x')}@example.test`, password: 'wrong' }, from)
  await fail(20, attempt)
  const reply = await attempt()
  assertManagementError(reply, 'over_request_rate_limit')
  const wait = Number(reply.headers.get('retry-after'))
  assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 60, `Retry-After: ${wait}`)
  const elsewhere = await tryLogin(behindProxy, { email: 'x@example.test', password: 'wrong' }, newAddress())
  assert.equal(elsewhere.status, 401)
})

test('3 §5.3 behind a trusted proxy the last X-Forwarded-For address is used, not one from the client', async () => {
  const { email } = await createUser(behindProxy)
  const real = newAddress()['x-forwarded-for']
  let claimed = 0
  const attempt = () =>
    tryLogin(
      behindProxy,
      { email, password: 'wrong' },
      { 'x-forwarded-for': `198.51.100.${++claimed}, ${real}` },
    )
  await fail(5, attempt)
  assertLocked(await attempt())
})

test('3 §5.3 case 25: without a trusted proxy X-Forwarded-For neither unlocks nor counts', async () => {
  let count = 0
  const names = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'cf-connecting-ip', 'true-client-ip']
  const spoofed = () => {
    const address = `198.51.100.${++count}`
    return Object.fromEntries(names.map(name => [name, name === 'forwarded' ? `for=${address}` : address]))
  }
  await fail(5, () => tryLogin(direct, { email: user.email, password: 'wrong' }, spoofed()))
  assertLocked(await tryLogin(direct, user, spoofed()))
  assertLocked(await tryLogin(direct, user))
})

test('3 §5.3 the audit log has the real IP address, not the claimed one', async () => {
  const claimed = { 'x-forwarded-for': '198.51.100.77' }
  const someone = await createUser(direct)
  const entry = await auditOf(direct, 'platform.login', await tryLogin(direct, someone, claimed))
  assert.match(entry.ip, /^(::ffff:)?127\.0\.0\.1$|^::1$/)
  const other = await createUser(behindProxy)
  const forwarded = await auditOf(behindProxy, 'platform.login', await tryLogin(behindProxy, other, claimed))
  assert.equal(forwarded.ip, '198.51.100.77')
})

test('3 §4 login requires an e-mail and a password and rejects other fields', async () => {
  const good = { email: 'x@example.test', password: 'x' }
  for (const body of [
    '{"email":',
    '"x"',
    {},
    { email: good.email },
    { password: good.password },
    { ...good, password: 5 },
    { ...good, password: null },
    { ...good, password: { $ne: '' } },
    { ...good, email: [good.email] },
    { ...good, role: 'super_admin' },
    { ...good, password: 'x'.repeat(2000) },
  ]) {
    const reply = await behindProxy.call('POST', '/api/v1/platform/login', { body, headers: newAddress() })
    assert.equal(reply.status, 400, JSON.stringify(body))
    assertManagementError(reply, body === '{"email":' ? 'invalid_json' : 'invalid_request')
    assert.ok(!reply.text.includes('x'.repeat(50)))
  }
})
