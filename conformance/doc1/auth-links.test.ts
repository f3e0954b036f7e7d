// Auth contract §7, case 23: the answer to a browser that opens a link from a mail.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertSession,
  authProject,
  authRoot,
  claimsOf,
  type Landing,
  type Mail,
  password,
  type Shape,
  siteUrl,
  someone,
  succeeded,
} from '../auth.ts'
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

async function magicLink(email: string): Promise<Mail> {
  succeeded(await auth.post('/otp', { email }))
  return auth.mailTo(email, 'magic_link')
}
const verifyPath = (query: Record<string, string>, shape: Shape = 'alias') =>
  `${it.url}${authRoot(auth.project, shape)}/verify?${new URLSearchParams(query)}`

function assertFailed(landing: Landing, error = 'access_denied', code = 'otp_expired'): void {
  assert.equal(landing.status, 303, landing.reply.text)
  assert.equal(landing.place, siteUrl)
  assert.partialDeepStrictEqual(landing.fragment, { error, error_code: code, sb: '' })
  assert.notEqual(landing.fragment['error_description'] ?? '', '')
  assert.deepEqual(Object.keys(landing.fragment).toSorted(), [
    'error',
    'error_code',
    'error_description',
    'sb',
  ])
}

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §7: a link redirects to the application with a session in the fragment (${shape})`, async () => {
    const me = await auth.signUp()
    const { hash } = await magicLink(me.email)
    const landing = await auth.follow(
      verifyPath({ token: hash, type: 'magiclink', redirect_to: siteUrl }, shape),
    )
    assert.deepEqual([landing.status, landing.place, landing.query], [303, siteUrl, {}])
    assert.deepEqual(Object.keys(landing.fragment).toSorted(), [
      'access_token',
      'expires_at',
      'expires_in',
      'refresh_token',
      'sb',
      'token_type',
      'type',
    ])
    const { access_token, expires_at, expires_in, refresh_token, token_type, type, sb } = landing.fragment
    assert.deepEqual([token_type, type, sb, expires_in], ['bearer', 'magiclink', '', '3600'])
    assert.equal(Number(expires_at), claimsOf(access_token ?? '').exp)
    assert.equal(succeeded(await auth.get('/user', { token: access_token })).id, me.id)
    const refreshed = succeeded(await auth.post('/token?grant_type=refresh_token', { refresh_token }))
    assertSession(refreshed)
    assertFailed(await auth.follow(verifyPath({ token: hash, type: 'magiclink' }, shape)))
  })

test('auth contract §7: the fragment has the type of the link', async () => {
  const signup = someone()
  succeeded(await confirming.post('/signup', { email: signup, password }))
  const confirmation = await confirming.mailTo(signup, 'verify_email')
  assert.equal((await confirming.follow(confirmation.link)).fragment['type'], 'signup')

  succeeded(await confirming.post('/recover', { email: signup }))
  const recovery = await confirming.mailTo(signup, 'reset_password')
  assert.equal((await confirming.follow(recovery.link)).fragment['type'], 'recovery')

  const invited = someone()
  succeeded(await confirming.admin('POST', '/invite', { email: invited }))
  const invite = await confirming.mailTo(invited, 'invite')
  assert.equal((await confirming.follow(invite.link)).fragment['type'], 'invite')
})

test('auth contract §7: a wrong, used, truncated or mistyped link redirects with the error', async () => {
  const me = await auth.signUp()
  const { hash, link } = await magicLink(me.email)
  for (const query of [
    { token: 'nonsense', type: 'magiclink' },
    { token: hash.slice(1), type: 'magiclink' },
    { token: hash.toUpperCase(), type: 'magiclink' },
    { token: hash, type: 'signup' },
    { token: hash, type: 'invite' },
    { token: hash, type: 'email_change' },
    { token: `pkce_${hash}`, type: 'magiclink' },
  ])
    assertFailed(await auth.follow(verifyPath(query)))
  assert.ok((await auth.follow(link)).fragment['access_token'])
  assertFailed(await auth.follow(link))
})

test('auth contract §7: a link without token or of an unknown type is an invalid request', async () => {
  const me = await auth.signUp()
  const { hash } = await magicLink(me.email)
  for (const query of [
    {},
    { type: 'magiclink' },
    { token: hash },
    { token: '', type: 'magiclink' },
    { token: hash, type: 'nosuch' },
  ] as Record<string, string>[])
    assertFailed(await auth.follow(verifyPath(query)), 'invalid_request', 'validation_failed')
})

test('auth contract §7: an error redirects to redirect_to of the link if that is allowed', async () => {
  const redirect_to = 'https://app.example.test/after?a=1'
  const landing = await auth.follow(verifyPath({ token: 'nonsense', type: 'magiclink', redirect_to }))
  assert.ok(landing.to.startsWith(`${redirect_to}#`), landing.to)
  assert.equal(landing.fragment['error_code'], 'otp_expired')
  const evil = { token: 'nonsense', type: 'magiclink', redirect_to: 'https://evil.test/' }
  assertFailed(await auth.follow(verifyPath(evil)))
})

test('case 23: neither HEAD nor a prefetch consumes a link', async () => {
  const me = await auth.signUp()
  const { link } = await magicLink(me.email)
  for (const [method, headers] of [
    ['HEAD', {}],
    ['HEAD', {}],
    ['GET', { 'sec-purpose': 'prefetch' }],
    ['GET', { 'sec-purpose': 'prefetch;prerender' }],
    ['GET', { 'Sec-Purpose': 'prefetch;anonymous-client-ip' }],
    ['OPTIONS', {}],
  ] as const) {
    const landing = await auth.follow(link, method, headers)
    assert.ok(!landing.to.includes('access_token'), `${method} ${JSON.stringify(headers)}: ${landing.to}`)
    assert.ok(!landing.reply.text.includes('access_token'))
    assert.ok(landing.status < 500, `${landing.status}`)
  }
  const landing = await auth.follow(link)
  assert.equal(claimsOf(landing.fragment['access_token'] ?? '').sub, me.id)
})

test('auth contract §7: a redirect with tokens is not cacheable', async () => {
  const me = await auth.signUp()
  const { link } = await magicLink(me.email)
  const { reply } = await auth.follow(link)
  assert.match(reply.headers.get('cache-control') ?? '', /no-store/)
  assert.ok(!reply.text.includes('refresh_token'), 'the body repeats the tokens')
})

test('auth contract §7: a link of another project is invalid', async () => {
  const me = await auth.signUp()
  const { link } = await magicLink(me.email)
  const elsewhere = await confirming.follow(link.replaceAll(auth.project.id, confirming.project.id))
  assertFailed(elsewhere)
  assert.ok((await auth.follow(link)).fragment['access_token'])
})
