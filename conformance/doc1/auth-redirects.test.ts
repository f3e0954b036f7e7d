// Auth contract §7, case 20: allowed redirect URLs, and attempts to bypass them.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  authProject,
  authRoot,
  claimsOf,
  type Landing,
  noLimits,
  password,
  siteUrl,
  someone,
  succeeded,
} from '../auth.ts'
import { freshTarget, type Target } from '../target.ts'
import { sendBytes } from '../wire.ts'

const allowList = [
  'https://one.example.test/callback',
  'https://*.preview.example.test/**',
  'https://docs.example.test/*/done',
  'myapp://callback',
  'http://localhost:5173/**',
]

let it: Target
let auth: AuthApi
let local: AuthApi
before(async () => {
  // Links need no credentials, and these tests open more of them than one client address may.
  it = await freshTarget({ PLATFORM_RATE_LIMIT_ANON: '0' })
  auth = await authProject(it, { redirect_allow_list: allowList })
  local = await authProject(it, { site_url: 'http://localhost:3000' })
})
after(() => it.stop())

/** The redirect URL of a link. An invalid token does not change it. */
const open = (redirect_to: string, api = auth): Promise<Landing> =>
  api.follow(
    `${it.url}${authRoot(api.project)}/verify?${new URLSearchParams({ token: 'x', type: 'magiclink', redirect_to })}`,
  )

async function assertKept(places: string[], api = auth): Promise<void> {
  for (const place of places) {
    const { status, to } = await open(place, api)
    assert.equal(status, 303)
    const written = [place, new URL(place).href]
    assert.ok(
      written.some(each => to.startsWith(`${each}#`)),
      `${place} → ${to}`,
    )
  }
}
/** Parsed as in a browser. */
async function assertSite(places: string[], api = auth, site = siteUrl): Promise<void> {
  for (const place of places) {
    const { status, to } = await open(place, api)
    assert.equal(status, 303, place)
    assert.ok(
      [site, `${site}/`].some(each => to.startsWith(`${each}#`)),
      `${JSON.stringify(place)} → ${to}`,
    )
  }
}
/** Inputs that may be parsed as the allowed URL or as invalid, but never as another host. */
async function assertHost(places: string[], hosts: RegExp, api = auth): Promise<void> {
  for (const place of places) {
    const { status, to } = await open(place, api)
    assert.equal(status, 303, place)
    const { host, protocol } = new URL(to)
    assert.match(host, hosts, `${JSON.stringify(place)} → ${to}`)
    assert.match(protocol, /^https?:$/)
  }
}

test('auth contract §7: any URL of the site is allowed, with its query unchanged', async () => {
  await assertKept([
    siteUrl,
    'https://app.example.test',
    'https://app.example.test/',
    'https://app.example.test/deep/er?x=1&y=a%20b&sb_flow_id=abcdefgh',
    'https://app.example.test/?next=https://evil.test/',
    'https://app.example.test/@evil.test',
  ])
})

test('auth contract §7: another scheme, host or port is replaced by the site URL', async () => {
  await assertSite([
    'http://app.example.test/',
    'https://app.example.test:8443/',
    'https://app.example.test:80/',
    'ftp://app.example.test/',
    'https://evil.test',
    'https://evil.test/',
    'https://evil.test/app.example.test',
    'https://evil.test/?https://app.example.test/',
    'https://example.test/',
    'https://www.app.example.test/',
    'https://app.example.test.evil.test/',
    'https://app.example.testevil.test/',
    'https://app-example.test/',
    'https://app.example.tes/',
    '',
    ' ',
    'nonsense',
    '/start',
    '//evil.test/',
    '///evil.test/',
    '/\\evil.test/',
    '\\\\evil.test/',
    'https:evil.test',
    'https:/evil.test',
    'https:///evil.test',
    'https:\\\\evil.test',
    'javascript:alert(1)',
    'JavaScript://app.example.test/%0aalert(1)',
    'data:text/html,<script>alert(1)</script>',
    'blob:https://app.example.test/x',
    'file:///etc/passwd',
    'https://',
  ])
})

test('case 20: userinfo, fragments and backslashes cannot disguise a foreign host', async () => {
  await assertSite([
    'https://app.example.test@evil.test/',
    'https://app.example.test:443@evil.test/',
    'https://app.example.test%2f@evil.test/',
    'https://app.example.test%00@evil.test/',
    'https://evil.test#@app.example.test/',
    'https://evil.test#https://app.example.test/',
    'https://evil.test?@app.example.test/',
    'https://evil.test\\@app.example.test/',
    'https://evil.test\\.app.example.test/',
    'https://evil.test;@app.example.test.evil.test/',
    'https://evil.test%23.app.example.test/',
    'https://evil.test\t.example.test/',
  ])
  await assertHost(
    [
      'https://user:secret@app.example.test/',
      'https://evil.test@app.example.test/',
      'https://evil.test%2f@app.example.test/',
      'https://app.example.test\\@evil.test/',
      'https://app.example.test\\.evil.test/',
      'https://app.example.test#@evil.test/',
      'https://app.example.test/#/route',
      'https://app.example.test?@evil.test/',
      'https://app.example.test/\\evil.test',
      'https://app.example.test//evil.test',
      'https://app.example.test/..//evil.test',
      ' https://app.example.test/',
      '\u0000https://app.example.test/',
      'https://APP.example.test/',
      'HTTPS://app.example.test/',
      'https://app.example.test:443/',
      'https://app.example.test./',
      'https://app。example。test/',
      'https://app.example.test\u00ad/',
    ],
    /^app\.example\.test\.?$/,
  )
})

test('case 20: numeric hosts are not allowed in any notation', async () => {
  await assertSite([
    'https://93.184.216.34/',
    'https://1572395042/',
    'https://0x5db8d822/',
    'https://0135.0270.0330.042/',
    'https://93.184.55330/',
    'https://[2606:2800:220:1:248:1893:25c8:1946]/',
    'https://[::ffff:93.184.216.34]/',
    'http://127.0.0.1/',
    'http://127.0.0.1:3000/',
    'http://[::1]/',
    'http://localhost/',
    'http://2130706433/',
    'http://169.254.169.254/latest/meta-data/',
    'https://0/',
  ])
})

test('auth contract §7: on a loopback site any port is allowed, and nothing else', async () => {
  await assertKept(
    ['http://localhost:3000', 'http://localhost:5173/', 'http://localhost/a?b=c', 'http://localhost:65535/x'],
    local,
  )
  await assertSite(
    [
      'https://app.example.test/',
      'https://localhost:3000/',
      'http://localhost.evil.test/',
      'http://localhost:3000@evil.test/',
      'http://evil.test:3000/',
      'http://93.184.216.34:3000/',
      'http://notlocalhost:3000/',
      'http://localhost:99999/',
    ],
    local,
    'http://localhost:3000',
  )
})

test('auth contract §7: URLs in the allow list are kept', async () => {
  await assertKept([
    'https://one.example.test/callback',
    'https://branch-7.preview.example.test/',
    'https://branch-7.preview.example.test/a/b.html?c=d',
    'https://docs.example.test/en/done',
    'myapp://callback',
    'http://localhost:5173/anything',
  ])
})

test('auth contract §7: an entry without ** matches the whole URL, and * does not match separators', async () => {
  await assertSite([
    'https://one.example.test/',
    'https://one.example.test/callback/more',
    'https://one.example.test/callbacks',
    'http://one.example.test/callback',
    'https://one.example.test:8443/callback',
    'https://oneXexample.test/callback',
    'https://evil.test/https://one.example.test/callback',
    'https://a.b.preview.example.test/',
    'https://preview.example.test/',
    'https://x.previewXexample.test/',
    'https://docs.example.test/en/us/done',
    'https://docs.example.test/en/done/more',
    'myapp://callback/more',
    'myapp://other',
    'myapp2://callback',
    'http://localhost:5174/',
    'https://localhost:5173/',
  ])
})

test('case 20: * in a host matches part of that host, never the end of another', async () => {
  await assertSite([
    'https://evil.test/.preview.example.test/',
    'https://evil.test?.preview.example.test/',
    'https://evil.test#.preview.example.test/',
    'https://evil.test\\.preview.example.test/',
    'https://evil.test@x.preview.example.test.evil.test/',
    'https://2130706433/.preview.example.test/',
  ])
  await assertHost(
    [
      'https://evil?.preview.example.test/',
      'https://evil#.preview.example.test/',
      'https://evil\\.preview.example.test/',
      'https://evil\\@x.preview.example.test/',
      'https://evil:80#.preview.example.test/',
      'https://1572395042?.preview.example.test/x',
      'https://1572395042#.preview.example.test/x',
      'https://[::1]#.preview.example.test/x',
      'https://evil@.preview.example.test/x',
      'https://evil%2f.preview.example.test/x',
      'https://evil%23.preview.example.test/x',
      'https://evil\t.preview.example.test/x',
      'https://evil\n.preview.example.test/x',
      'https://branch-7.preview.example.test/..//evil.test/',
      'https://branch-7.preview.example.test/\\evil.test/',
    ],
    /^(app\.example\.test|[\w-]+\.preview\.example\.test)$/,
  )
})

test('case 20: a line break in redirect_to adds no header', async () => {
  for (const redirect of [
    'https://app.example.test/%0d%0aset-cookie:%20a=b',
    'https://app.example.test/%0D%0A%0D%0A<script>',
    'https://app.example.test/%E5%98%8A%E5%98%8Dset-cookie:%20a=b',
  ]) {
    const path = `${authRoot(auth.project)}/verify?token=x&type=magiclink&redirect_to=${redirect}`
    const reply = await sendBytes(it.url, `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
    assert.equal(reply.headers.get('set-cookie'), null)
    assert.equal(new URL(reply.headers.get('location') ?? '').host, 'app.example.test')
    assert.ok(!reply.text.includes('<script>'))
  }
})

test('auth contract §7: of two redirect_to values the checked one is used', async () => {
  const [good, evil] = ['https://app.example.test/x', 'https://evil.test/'].map(encodeURIComponent)
  for (const query of [
    `redirect_to=${good}&redirect_to=${evil}`,
    `redirect_to=${evil}&redirect_to=${good}`,
    `redirect_to[]=${evil}`,
    `redirect_to=${good}&REDIRECT_TO=${evil}`,
  ]) {
    const reply = await it.call('GET', `${authRoot(auth.project)}/verify?token=x&type=magiclink&${query}`)
    const location = reply.headers.get('location')
    if (location !== null) assert.equal(new URL(location).host, 'app.example.test', query)
    else assert.equal(reply.status, 400, query)
  }
})

const place = 'https://app.example.test/after?a=1'
const redirectOf = (link: string) => new URL(link).searchParams.get('redirect_to')

test('auth contract §4: every request that sends a link passes on redirect_to', async () => {
  const confirming = await authProject(it, { auto_confirm: false })
  const query = `?redirect_to=${encodeURIComponent(place)}`
  const confirmed = (await confirming.createUser()).email
  const fresh = someone()
  for (const [path, body, to, template, as] of [
    ['/signup', { email: fresh, password }, fresh, 'verify_email', 'anon'],
    ['/resend', { email: fresh, type: 'signup' }, fresh, 'verify_email', 'anon'],
    ['/otp', { email: confirmed }, confirmed, 'magic_link', 'anon'],
    ['/magiclink', { email: confirmed }, confirmed, 'magic_link', 'anon'],
    ['/magic-link', { email: confirmed }, confirmed, 'magic_link', 'anon'],
    ['/recover', { email: confirmed }, confirmed, 'reset_password', 'anon'],
    ['/invite', { email: 'invited@example.test' }, 'invited@example.test', 'invite', 'service_role'],
  ] as const) {
    const before = (await confirming.mailsTo(to)).find(mail => mail.template === template)
    succeeded(await confirming.post(path + query, body, { as }))
    const mail = await confirming.mailTo(to, template, before as any)
    assert.equal(redirectOf(mail.link), place, path)
  }
  const mail = await confirming.mailTo(confirmed, 'reset_password')
  const landing = await confirming.follow(mail.link)
  assert.ok(landing.to.startsWith(`${place}#access_token=`), landing.to)
  const token = landing.fragment['access_token'] ?? ''
  const email = someone('new')
  succeeded(await confirming.put(`/user${query}`, { email }, { token }))
  for (const address of [confirmed, email])
    assert.equal(redirectOf((await confirming.mailTo(address, 'verify_email')).link), place)
})

test('auth contract §7: a redirect_to that is not allowed is replaced in the mail', async () => {
  const me = await auth.signUp()
  const query = `?redirect_to=${encodeURIComponent('https://evil.test/')}`
  succeeded(await auth.post(`/otp${query}`, { email: me.email }))
  const mail = await auth.mailTo(me.email, 'magic_link')
  assert.equal(redirectOf(mail.link), siteUrl)
  assert.ok(!mail.body_html.includes('evil.test') && !mail.body_text.includes('evil.test'))
})

test('auth contract §7: a link with a changed redirect_to redirects to the site URL', async () => {
  const me = await auth.signUp()
  succeeded(await auth.post('/otp', { email: me.email }))
  const link = new URL((await auth.mailTo(me.email, 'magic_link')).link)
  link.searchParams.set('redirect_to', 'https://evil.test/')
  const landing = await auth.follow(link.href)
  assert.equal(landing.place, siteUrl)
  assert.equal(claimsOf(landing.fragment['access_token'] ?? '').sub, me.id)
})

test('auth contract §7: without redirect_to in the query, the body, then the Referer, then the site URL is used', async () => {
  const ask = async (path: string, fields: object, headers: Record<string, string>) => {
    const me = await auth.signUp()
    succeeded(await auth.post(path, { email: me.email, ...fields }, { headers }))
    return redirectOf((await auth.mailTo(me.email, 'magic_link')).link)
  }
  const referer = 'https://app.example.test/login?from=here'
  assert.equal(await ask('/otp', {}, {}), siteUrl)
  assert.equal(await ask('/otp', {}, { referer }), referer)
  assert.equal(await ask('/otp', {}, { referer: 'https://evil.test/' }), siteUrl)
  assert.equal(await ask('/otp', { redirect_to: place }, {}), place)
  assert.equal(await ask('/otp', { redirect_to: place }, { referer }), place)
  const query = `/otp?redirect_to=${encodeURIComponent(place)}`
  assert.equal(await ask(query, {}, { referer }), place)
})

test('auth contract §7: the settings at the time of opening the link apply', async () => {
  const api = await authProject(it, { redirect_allow_list: ['https://old.example.test/**'] })
  assert.ok((await open('https://old.example.test/x', api)).to.startsWith('https://old.example.test/x#'))
  await api.settings({
    redirect_allow_list: [],
    site_url: 'https://new.example.test/',
    rate_limits: noLimits,
  })
  assert.ok((await open('https://old.example.test/x', api)).to.startsWith('https://new.example.test/#'))
})
