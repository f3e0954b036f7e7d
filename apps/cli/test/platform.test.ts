// Tokens, audit, health, versions and the first administrator, with a real platform.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const plinth = (args: string[], options: RunOptions = {}) => {
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken, ...options.env }
  return run(args, { cwd, ...options, env })
}

test('token: mint, use, list without the secret, and revoke', async () => {
  const from = Date.now() + 90 * 86_400_000
  const made = await plinth(['token', 'mint', '--name', 'ci', '--scope', 'read', '--expires', '90d'])
  assert.equal(made.code, 0)
  const { id, token, expires_at } = made.json.data
  assert.match(token, /^platform_pat_/)
  const expires = Date.parse(expires_at)
  assert.ok(expires >= from && expires <= Date.now() + 90 * 86_400_000, expires_at)

  const env = { PLATFORM_TOKEN: token }
  assert.equal((await plinth(['projects', 'list'], { env })).code, 0)
  const refused = await plinth(['projects', 'create', 'x y z'], { env })
  assert.deepEqual([refused.code, refused.json.error.code], [1, 'insufficient_scope'])

  const listed = await plinth(['token', 'list'])
  assert.ok(!listed.stdout.includes(token))
  assert.equal(listed.json.data.tokens.find((each: { id: string }) => each.id === id).name, 'ci')
  assert.match((await plinth(['token', 'list', '-o', 'text'])).stdout, /ci +read +until 2/)

  assert.deepEqual((await plinth(['token', 'revoke', id])).json.data, { id, revoked: true })
  assert.equal((await plinth(['projects', 'list'], { env })).json.error.code, 'unauthorized')
  assert.equal((await plinth(['token', 'revoke', id])).json.error.code, 'token_not_found')
})

test('token mint: never expires without --expires, and an invalid duration fails before any request', async () => {
  const { json } = await plinth(['token', 'mint', '--name', 'forever', '--scope', 'admin'])
  assert.equal(json.data.expires_at, null)
  const proxy = await recordingProxy(platform.url)
  const args = ['token', 'mint', '--name', 'x', '--scope', 'read', '--expires', 'soon']
  assert.equal((await plinth(args, { env: { PLATFORM_URL: proxy.url } })).code, 1)
  assert.deepEqual(proxy.requests, [])
})

test('audit prune: by --days or the default', async () => {
  assert.deepEqual((await plinth(['audit', 'prune', '--days', '30'])).json.data, {
    deleted: 0,
    deleted_auth_events: 0,
    days: 30,
  })
  assert.equal((await plinth(['audit', 'prune'])).json.data.days, 90)
  assert.equal((await plinth(['audit', 'prune', '--days', 'all'])).json.error.code, 'usage_invalid_value')
})

test('health: needs no token and shows every service', async () => {
  const { code, json, stderr } = await run(['health', '--url', platform.url], { cwd })
  assert.equal(code, 0)
  assert.equal(json.data.status, 'ok')
  assert.equal(json.data.services.database.status, 'ok')
  assert.equal(stderr, '')
})

test('a different server version prints one warning on stderr; the same version prints none', async () => {
  const other = await recordingProxy(platform.url, '9.9.9')
  for (const args of [['projects', 'list'], ['health'], ['status']]) {
    const { code, json, stderr } = await plinth(args, { env: { PLATFORM_URL: other.url } })
    assert.deepEqual([code, json.ok], [0, true])
    assert.match(stderr, /^warning: plinth is version \S+, the platform at \S+ is 9\.9\.9\.\n$/)
    assert.equal((await plinth(args)).stderr, '')
  }
})

test('--debug is the fix for an answer without a code of the platform only', async () => {
  const id = '0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d'
  const text = async (args: string[], url: string) => {
    const { code, stderr } = await run([...args, '-o', 'text'], {
      cwd,
      env: { PLATFORM_URL: url, PLATFORM_TOKEN: platform.adminToken, PLATFORM_PROJECT: id },
    })
    assert.equal(code, 1, stderr)
    return stderr
  }
  for (const args of [
    ['backup', 'settings', '--interval-minutes', '5'],
    ['branch', 'create', 'late', '--expires', '2020-01-01T00:00:00Z'],
    ['upgrade', '--target', 'newest'],
  ])
    assert.match(await text(args, platform.url), /^error: .*\n {2}why: .*\n$/)
  const server = createServer((_, response) => response.writeHead(502).end('<h1>Bad Gateway</h1>'))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const proxy = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  assert.match(
    await text(['backup', 'list'], proxy),
    /\(http_502\)\n {2}why: .*\n {2}fix: Run it again with --debug to see the requests and responses\.\n$/,
  )
  server.closeAllConnections()
  server.close()
})

test('a server that is not a platform fails with not_a_platform', async () => {
  const server = createServer((_, response) => response.end('<h1>hello</h1>'))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const env = { PLATFORM_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  for (const args of [['health'], ['projects', 'list']])
    assert.equal((await plinth(args, { env })).json.error.code, 'not_a_platform')
  server.closeAllConnections()
  server.close()
})

test('bootstrap: with DATABASE_URL it creates the first super_admin once', async () => {
  const env = {
    DATABASE_URL: `${process.env['TEST_DATABASE_URL']}/${platform.control}`,
    CONTROL_PLANE_SECRET: platform.controlPlaneSecret,
  }
  const args = ['bootstrap', '--email', 'first@example.com', '--name', 'First']
  const made = await run(args, { cwd, env, input: 'a long enough password\n' })
  assert.equal(made.code, 0, made.stdout)
  assert.deepEqual([made.json.data.email, made.json.data.role], ['first@example.com', 'super_admin'])
  const again = await run(args, { cwd, env, input: 'a long enough password\n' })
  assert.deepEqual([again.code, again.json.error.code], [1, 'bootstrap_failed'])
  assert.match(again.json.error.message, /super_admin already/)
})

test('bootstrap: without DATABASE_URL it uses the API', async () => {
  const args = ['bootstrap', '--email', 'second@example.com']
  const empty = await plinth(args)
  assert.deepEqual([empty.code, empty.json.error.code], [1, 'prompt_impossible'])
  const short = await plinth(args, { input: 'short\n' })
  assert.deepEqual([short.code, short.json.error.code], [1, 'invalid_request'])
  const made = await plinth(args, { input: 'another long password\r\n' })
  assert.equal(made.json.data.role, 'super_admin')
  const login = { body: { email: 'second@example.com', password: 'another long password' } }
  assert.equal((await platform.call('POST', '/api/v1/platform/login', login)).status, 200)
})
