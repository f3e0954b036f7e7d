// Auth contract §4, §7 and §8: PKCE links redirect with a code that only the requesting client can exchange.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  assertSession,
  authProject,
  challengeOf,
  claimsOf,
  type Mail,
  password,
  pkce,
  siteUrl,
  someone,
  succeeded,
  tokenHash,
} from '../auth.ts'
import { someId, uuid } from '../people.ts'
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

const exchange = (
  auth_code: unknown,
  code_verifier: unknown,
  api = auth,
  shape: 'native' | 'alias' = 'alias',
) => api.post('/token?grant_type=pkce', { auth_code, code_verifier }, { shape })

/** Opens the link of a mail that was requested with a challenge. */
async function codeFrom(api: AuthApi, mail: Mail): Promise<string> {
  assert.match(mail.hash, /^pkce_[0-9a-f]{56}$/, mail.link)
  const landing = await api.follow(mail.link)
  assert.equal(landing.status, 303)
  assert.equal(landing.place, siteUrl)
  assert.deepEqual([Object.keys(landing.query), landing.fragment], [['code'], {}], landing.to)
  return landing.query['code']!
}

async function begin(): Promise<{ id: string; email: string; code: string; verifier: string }> {
  const { id, email } = await auth.signUp()
  const flow = pkce()
  succeeded(await auth.post('/otp', { email, ...challengeOf(flow) }))
  return { id, email, code: await codeFrom(auth, await auth.mailTo(email, 'magic_link')), ...flow }
}

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §7: a link requested with a challenge redirects with a code (${shape})`, async () => {
    const { id, code, verifier } = await begin()
    const session = succeeded(await exchange(code, verifier, auth, shape))
    assertSession(session)
    assert.equal(session.user.id, id)
    assert.equal(succeeded(await auth.get('/user', { token: session.access_token })).id, id)
    assertAuthError(await exchange(code, verifier, auth, shape), 404, 'flow_state_not_found')
  })

test('auth contract §7: the code is a uuid', async () => {
  assert.match((await begin()).code, uuid)
})

test('auth contract §8: of ten concurrent exchanges one succeeds', async () => {
  const { code, verifier } = await begin()
  const replies = await Promise.all(Array.from({ length: 10 }, () => exchange(code, verifier)))
  const statuses = replies.map(({ status }) => status).toSorted()
  assert.deepEqual(statuses, [200, ...Array(9).fill(404)])
})

test('auth contract §8: a wrong verifier is refused', async () => {
  for (const wrong of [pkce().verifier, 'x', 'X'.repeat(112)]) {
    const { code } = await begin()
    assertAuthError(await exchange(code, wrong), 400, 'bad_code_verifier')
  }
  const { code, verifier } = await begin()
  assertAuthError(await exchange(code, verifier.toUpperCase()), 400, 'bad_code_verifier')
})

test('auth contract §8: the challenge itself is not a valid verifier', async () => {
  const { email } = await auth.signUp()
  const flow = pkce()
  succeeded(await auth.post('/otp', { email, ...challengeOf(flow) }))
  const code = await codeFrom(auth, await auth.mailTo(email, 'magic_link'))
  assertAuthError(await exchange(code, flow.challenge), 400, 'bad_code_verifier')
})

test('auth contract §8: both fields are needed', async () => {
  const { code, verifier } = await begin()
  for (const [one, two] of [
    [code, ''],
    ['', verifier],
    [code, undefined],
    [undefined, verifier],
    [null, null],
    [5, verifier],
  ])
    assertAuthError(await exchange(one, two), 400, 'validation_failed')
  assertSession(succeeded(await exchange(code, verifier)))
})

test('auth contract §8: an unknown code is 404, and so is one of another project', async () => {
  const { code, verifier } = await begin()
  assertAuthError(await exchange(someId, verifier), 404, 'flow_state_not_found')
  assertAuthError(await exchange('nonsense', verifier), 404, 'flow_state_not_found')
  assertAuthError(await exchange(code, verifier, confirming), 404, 'flow_state_not_found')
  assertSession(succeeded(await exchange(code, verifier)))
})

test('auth contract §4: the method plain compares the verifier itself; methods are case-insensitive', async () => {
  for (const [method, of] of [
    ['plain', 'verifier'],
    ['PLAIN', 'verifier'],
    ['S256', 'challenge'],
    ['s256', 'challenge'],
  ] as const) {
    const { id, email } = await auth.signUp()
    const flow = pkce()
    const fields = { code_challenge: flow[of], code_challenge_method: method }
    succeeded(await auth.post('/otp', { email, ...fields }))
    const code = await codeFrom(auth, await auth.mailTo(email, 'magic_link'))
    assert.equal(succeeded(await exchange(code, flow.verifier)).user.id, id, method)
  }
})

test('auth contract §4: a challenge needs a method and a valid syntax', async () => {
  const me = await auth.signUp()
  const { challenge } = pkce()
  const pairs = [
    { code_challenge: challenge },
    { code_challenge_method: 's256' },
    { code_challenge: challenge, code_challenge_method: null },
    { code_challenge: challenge, code_challenge_method: 'md5' },
    { code_challenge: challenge.slice(1), code_challenge_method: 's256' },
    { code_challenge: 'x'.repeat(42), code_challenge_method: 'plain' },
    { code_challenge: 'x'.repeat(129), code_challenge_method: 'plain' },
    { code_challenge: `${'x'.repeat(50)}+/=`, code_challenge_method: 'plain' },
    { code_challenge: `${'x'.repeat(50)} `, code_challenge_method: 's256' },
    { code_challenge: 5, code_challenge_method: 's256' },
  ]
  for (const pair of pairs) {
    for (const [path, body] of [
      ['/otp', { email: me.email }],
      ['/magiclink', { email: me.email }],
      ['/recover', { email: me.email }],
      ['/resend', { email: me.email, type: 'signup' }],
    ] as const)
      assertAuthError(await auth.post(path, { ...body, ...pair }), 400, 'validation_failed')
    const update = await auth.put('/user', { email: someone(), ...pair }, { token: me.token })
    assertAuthError(update, 400, 'validation_failed')
    const signUp = await confirming.post('/signup', { email: someone(), password, ...pair })
    assertAuthError(signUp, 400, 'validation_failed')
  }
  for (const length of [43, 128]) {
    const pair = { code_challenge: '-._~'.repeat(32).slice(0, length), code_challenge_method: 'plain' }
    succeeded(await auth.post('/otp', { email: me.email, ...pair }))
  }
})

test('auth contract §7: sign-up, resend and recovery links redirect with a code as well', async () => {
  const email = someone()
  const [signUp, resend, recovery] = [pkce(), pkce(), pkce()]
  const { id } = succeeded(await confirming.post('/signup', { email, password, ...challengeOf(signUp) }))
  const first = await confirming.mailTo(email, 'verify_email')
  assert.match(first.hash, /^pkce_/)
  succeeded(await confirming.post('/resend', { email, type: 'signup', ...challengeOf(resend) }))
  const second = await confirming.mailTo(email, 'verify_email', first)
  const confirmed = succeeded(await exchange(await codeFrom(confirming, second), resend.verifier, confirming))
  assert.equal(confirmed.user.id, id)
  assert.ok(confirmed.user.email_confirmed_at)

  succeeded(await confirming.post('/recover', { email, ...challengeOf(recovery) }))
  const lost = await confirming.mailTo(email, 'reset_password')
  const recovered = succeeded(await exchange(await codeFrom(confirming, lost), recovery.verifier, confirming))
  assert.equal(recovered.user.id, id)
})

for (const first of ['old', 'new'] as const)
  test(`auth contract §7: the second link of an email change redirects with a code, the ${first} one opened first`, async () => {
    const me = await auth.signUp()
    const [flow, email] = [pkce(), someone('new')]
    succeeded(await auth.put('/user', { email, ...challengeOf(flow) }, { token: me.token }))
    const mails = {
      old: await auth.mailTo(me.email, 'verify_email'),
      new: await auth.mailTo(email, 'verify_email'),
    }
    const half = await auth.follow(mails[first].link)
    assert.equal(half.place, siteUrl)
    assert.ok(!('code' in half.query) && !('access_token' in half.fragment), half.to)
    assert.ok('message' in half.fragment, half.to)
    const code = await codeFrom(auth, mails[first === 'old' ? 'new' : 'old'])
    const changed = succeeded(await exchange(code, flow.verifier))
    assert.deepEqual([changed.user.id, changed.user.email], [me.id, email])
  })

test('auth contract §7: an error of a PKCE link is in the query and in the fragment', async () => {
  const { email } = await auth.signUp()
  succeeded(await auth.post('/otp', { email, ...challengeOf(pkce()) }))
  const mail = await auth.mailTo(email, 'magic_link')
  await codeFrom(auth, mail)
  const landing = await auth.follow(mail.link)
  assert.deepEqual([landing.status, landing.place], [303, siteUrl])
  for (const parameters of [landing.query, landing.fragment])
    assert.partialDeepStrictEqual(
      parameters,
      { error: 'access_denied', error_code: 'otp_expired' },
      landing.to,
    )
})

test('auth contract §7: redirect_to keeps its query next to the code', async () => {
  const { email } = await auth.signUp()
  const flow = pkce()
  const place = 'https://app.example.test/cb?sb_flow_id=abcdefgh&x=a%20b'
  const path = `/otp?redirect_to=${encodeURIComponent(place)}`
  succeeded(await auth.post(path, { email, ...challengeOf(flow) }))
  const landing = await auth.follow((await auth.mailTo(email, 'magic_link')).link)
  assert.ok(landing.to.startsWith(`${place}&code=`), landing.to)
  assertSession(succeeded(await exchange(landing.query['code'], flow.verifier)))
})

test('auth contract §7: the six-digit code returns a session directly, also with a challenge', async () => {
  const { id, email } = await auth.signUp()
  succeeded(await auth.post('/otp', { email, ...challengeOf(pkce()) }))
  const mail = await auth.mailTo(email, 'magic_link')
  assert.equal(mail.hash, `pkce_${tokenHash(email, mail.code)}`)
  const session = succeeded(await auth.post('/verify', { type: 'email', email, token: mail.code }))
  assert.equal(session.user.id, id)
})

test('auth contract §5: the amr of a PKCE session has its method', async () => {
  const { code, verifier } = await begin()
  const { amr, aal } = claimsOf(succeeded(await exchange(code, verifier)).access_token)
  assert.equal(aal, 'aal1')
  assert.equal(amr.length, 1)
  assert.ok(['otp', 'magiclink'].includes(amr[0].method), JSON.stringify(amr))
})
