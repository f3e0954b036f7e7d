// The settings of a working directory: .env, plinth.json, .plinth/link.json, and the commands that write them.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { plinth, temporaryDirectory } from './plinth.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const linkOf = (cwd: string) => JSON.parse(readFileSync(join(cwd, '.plinth/link.json'), 'utf8'))

test('.env is loaded, and environment variables override it', async () => {
  const cwd = temporaryDirectory({
    '.env': `PLATFORM_URL=${platform.url}\nPLATFORM_TOKEN="${platform.adminToken}"\n`,
  })
  assert.equal((await plinth(['projects', 'list'], { cwd })).json.ok, true)
  const { json } = await plinth(['projects', 'list'], { cwd, env: { PLATFORM_TOKEN: 'wrong' } })
  assert.equal(json.error.code, 'unauthorized')
})

test('the URL comes from --url, PLATFORM_URL, --env, the link, then the default', async () => {
  const cwd = temporaryDirectory({
    'plinth.json': { environments: { staging: { url: 'http://staging:1', allow_local_writes: false } } },
    '.plinth/link.json': { url: 'http://linked:1' },
  })
  const url = async (args: string[], env = {}) =>
    (await plinth(['config', 'show', '--origin', ...args], { cwd, env })).json.data.url
  const env = { PLATFORM_URL: 'http://variable:1' }
  assert.deepEqual(await url(['--url', 'http://flag:1', '--env', 'staging'], env), {
    value: 'http://flag:1',
    origin: '--url',
  })
  assert.deepEqual(await url(['--env', 'staging'], env), {
    value: 'http://variable:1',
    origin: 'PLATFORM_URL',
  })
  assert.deepEqual(await url(['--env', 'staging']), {
    value: 'http://staging:1',
    origin: 'plinth.json, environment staging',
  })
  assert.deepEqual(await url([]), { value: 'http://linked:1', origin: '.plinth/link.json' })
  const { json } = await plinth(['config', 'show'], { cwd: temporaryDirectory() })
  assert.equal(json.data.url, 'http://localhost:39001')
})

test('--env has no effect while PLATFORM_URL is set, with a warning', async () => {
  const cwd = temporaryDirectory({
    'plinth.json': { environments: { staging: { url: 'http://staging:1' } } },
  })
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken }
  const { code, stderr } = await plinth(['projects', 'list', '--env', 'staging'], { cwd, env })
  assert.equal(code, 0)
  assert.match(stderr, /PLATFORM_URL is set, so --env staging is not used/)
})

test('an unknown environment and an invalid file fail, and the message lists the known environments', async () => {
  const cwd = temporaryDirectory({
    'plinth.json': { environments: { a: { url: 'http://a' }, b: { url: 'http://b' } } },
  })
  const unknown = await plinth(['health', '--env', 'c'], { cwd })
  assert.equal(unknown.code, 1)
  assert.match(unknown.json.error.message, /Known environments: a, b\./)
  const broken = await plinth(['health'], { cwd: temporaryDirectory({ '.plinth/link.json': '{"url":' }) })
  assert.deepEqual([broken.code, broken.json.error.code], [1, 'file_invalid'])
  assert.match(broken.json.error.message, /link\.json/)
})

test('config get: without a URL it warns on stderr and exits with 0', async () => {
  const cwd = temporaryDirectory()
  const text = await plinth(['config', 'get', '-o', 'text'], { cwd })
  assert.deepEqual([text.code, text.stdout], [0, ''])
  assert.match(text.stderr, /No url is configured/)
  const { code, json, stderr } = await plinth(['config', 'get'], { cwd })
  assert.deepEqual([code, json], [0, { ok: true, data: { key: 'url', value: null } }])
  assert.match(stderr, /No url is configured/)
})

test('config set: stores the url and the project in the link file', async () => {
  const project = await platform.createProject()
  const cwd = temporaryDirectory()
  assert.equal((await plinth(['config', 'set', 'url', `${platform.url}/`], { cwd })).code, 0)
  assert.equal((await plinth(['config', 'get', 'url', '-o', 'text'], { cwd })).stdout, `${platform.url}\n`)
  const env = { PLATFORM_TOKEN: platform.adminToken }
  assert.equal((await plinth(['config', 'set', 'project', project.slug], { cwd, env })).code, 0)
  assert.deepEqual(linkOf(cwd), { url: platform.url, project_id: project.id })
  assert.equal((await plinth(['projects', 'info'], { cwd, env })).json.data.id, project.id)
  assert.equal(
    (await plinth(['config', 'set', 'color', 'blue'], { cwd })).json.error.code,
    'usage_invalid_value',
  )
})

test('link: accepts a URL or the name of an environment, and a project', async () => {
  const project = await platform.createProject()
  const cwd = temporaryDirectory({ 'plinth.json': { environments: { test: { url: platform.url } } } })
  const env = { PLATFORM_TOKEN: platform.adminToken }
  assert.equal((await plinth(['link', 'test', '--project', project.slug], { cwd, env })).code, 0)
  assert.deepEqual(linkOf(cwd), { url: platform.url, project_id: project.id })

  const moved = await plinth(['link', 'https://elsewhere.example.com'], { cwd })
  assert.equal(moved.code, 0)
  assert.match(moved.stderr, /no longer linked/)
  assert.deepEqual(linkOf(cwd), { url: 'https://elsewhere.example.com', project_id: null })

  const unknown = await plinth(['link', 'nowhere'], { cwd })
  assert.deepEqual([unknown.code, unknown.json.error.code], [1, 'environment_unknown'])
})

test('config show: masks the token', async () => {
  const { stdout } = await plinth(['config', 'show'], { env: { PLATFORM_TOKEN: platform.adminToken } })
  assert.ok(!stdout.includes(platform.adminToken))
})
