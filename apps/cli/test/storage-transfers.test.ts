// Large files, and wires that break, through a real platform.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type Break, brittle } from './brittle.ts'
import { begin, plinth, workplace } from './plinth.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const size = 20 * 1000 * 1000
const content = randomBytes(size)
const hash = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')
const expected = createHash('sha256').update(content).digest('hex')

async function desk() {
  const { id, service_role_key } = await platform.createProject()
  const cwd = workplace()
  writeFileSync(join(cwd, 'big.bin'), content)
  const env = (url = platform.url) => ({
    PLATFORM_URL: url,
    PLATFORM_TOKEN: platform.adminToken,
    PLATFORM_PROJECT: id,
  })
  const storage = (args: string[], url?: string) => plinth(['storage', ...args], { cwd, env: env(url) })
  const info = async (path: string) => {
    const headers = { apikey: service_role_key }
    const reply = await fetch(`${platform.url}/v1/storage/${id}/object/info/${path}`, { headers })
    return { status: reply.status, body: (await reply.json()) as any }
  }
  return { id, cwd, env, storage, info }
}

const of = (asked: readonly string[], method: string) =>
  asked.filter(each => each.startsWith(`${method} /v1/storage/`))

test('a large file goes up in chunks of 6 MiB and comes down the same', async () => {
  const { cwd, storage, info } = await desk()
  const wire = await brittle(platform.url, [])
  const options = ['--content-type', 'video/x-test', '--cache-control', '120']
  const sent = await storage(['cp', 'big.bin', 'ss:///media/', ...options], wire.url)
  assert.equal(sent.code, 0, sent.stdout)
  assert.equal(sent.json.data.bytes, size)
  assert.equal(of(wire.asked, 'PATCH').length, 4)
  const { body } = await info('media/big.bin')
  assert.deepEqual([body.size, body.content_type, body.cache_control], [size, 'video/x-test', 'max-age=120'])
  // And again over it.
  assert.equal((await storage(['cp', 'big.bin', 'ss:///media/'])).code, 0)
  assert.equal((await info('media/big.bin')).body.content_type, 'application/octet-stream')

  const got = await storage(['cp', 'ss:///media/big.bin', 'back.bin'])
  assert.equal(got.code, 0, got.stdout)
  assert.equal(hash(join(cwd, 'back.bin')), expected)
})

test('a Cache-Control that only small files can have is refused for large ones, and kept for those', async () => {
  const { cwd, storage, info } = await desk()
  const wire = await brittle(platform.url, [])
  const forEver = ['--cache-control', 'public, max-age=31536000, immutable']
  const refused = await storage(['cp', 'big.bin', 'ss:///media/', ...forEver], wire.url)
  assert.deepEqual([refused.code, refused.json.error.code], [1, 'usage_invalid_value'])
  assert.match(refused.json.error.message, /big\.bin: files over 6 MiB take seconds or no-cache/)
  assert.deepEqual(wire.asked, [])
  writeFileSync(join(cwd, 'small.bin'), content.subarray(0, 1000))
  assert.equal((await storage(['cp', 'small.bin', 'ss:///media/', ...forEver])).code, 0)
  assert.equal((await info('media/small.bin')).body.cache_control, 'public, max-age=31536000, immutable')
})

test('an upload goes on where it was after the connection was cut', async () => {
  const { cwd, storage } = await desk()
  const breaks: Break[] = [
    { way: 'up', bytes: 8_000_000 },
    { way: 'up', bytes: 1_000_000 },
    { way: 'up', bytes: 3_000_000 },
  ]
  const wire = await brittle(platform.url, breaks)
  const sent = await storage(['cp', 'big.bin', 'ss:///media/'], wire.url)
  assert.equal(sent.code, 0, sent.stdout)
  assert.deepEqual(wire.left, [])
  assert.equal(of(wire.asked, 'POST').length, 1)
  assert.ok(of(wire.asked, 'HEAD').length >= 3)
  await storage(['cp', 'ss:///media/big.bin', 'back.bin'])
  assert.equal(hash(join(cwd, 'back.bin')), expected)
})

test('a small upload that was cut is sent again', async () => {
  const { cwd, storage } = await desk()
  writeFileSync(join(cwd, 'small.bin'), content.subarray(0, 5_000_000))
  const wire = await brittle(platform.url, [{ way: 'up', bytes: 2_000_000 }])
  const sent = await storage(['cp', 'small.bin', 'ss:///media/'], wire.url)
  assert.equal(sent.code, 0, sent.stdout)
  assert.equal(of(wire.asked, 'POST').length, 2)
  await storage(['cp', 'ss:///media/small.bin', 'back.bin'])
  assert.equal(hash(join(cwd, 'back.bin')), hash(join(cwd, 'small.bin')))
})

test('a download goes on where it was after the connection was cut', async () => {
  const { cwd, storage } = await desk()
  await storage(['cp', 'big.bin', 'ss:///media/'])
  const breaks: Break[] = [
    { way: 'down', bytes: 7_000_000 },
    { way: 'down', bytes: 5_000_000 },
  ]
  const wire = await brittle(platform.url, breaks)
  const got = await storage(['cp', 'ss:///media/big.bin', 'back.bin'], wire.url)
  assert.equal(got.code, 0, got.stdout)
  assert.deepEqual(wire.left, [])
  assert.equal(of(wire.asked, 'GET').length, 3)
  assert.equal(hash(join(cwd, 'back.bin')), expected)
  assert.deepEqual(readdirSync(cwd).sort(), ['back.bin', 'big.bin'])
})

test('a file that is replaced while it comes down comes down anew, one that is removed leaves nothing', async () => {
  const { cwd, env, storage } = await desk()
  const other = Buffer.from(content).reverse()
  writeFileSync(join(cwd, 'other.bin'), other)
  await storage(['cp', 'big.bin', 'ss:///media/x.bin'])
  for (const [meanwhile, code, left] of [
    [['cp', 'other.bin', 'ss:///media/x.bin'], 0, ['back.bin', 'big.bin', 'other.bin']],
    [['rm', 'ss:///media/x.bin'], 1, ['big.bin', 'other.bin']],
  ] as const) {
    const wire = await brittle(platform.url, [{ way: 'down', bytes: 7_000_000, isStall: true }])
    const child = begin(['storage', 'cp', 'ss:///media/x.bin', 'back.bin'], { cwd, env: env(wire.url) })
    const ended = once(child, 'close')
    await Promise.race([wire.stalled, ended])
    assert.equal((await storage([...meanwhile])).code, 0)
    wire.cut()
    assert.deepEqual(await ended, [code, null])
    assert.deepEqual(readdirSync(cwd).sort(), left)
    if (code === 0) assert.ok(readFileSync(join(cwd, 'back.bin')).equals(other))
    rmSync(join(cwd, 'back.bin'), { force: true })
  }
})

/** Ctrl-C in the middle of a transfer. */
async function interrupted(args: string[], cwd: string, env: Record<string, string>, stalled: Promise<void>) {
  const child = begin(['storage', ...args], { cwd, env })
  const ended = once(child, 'close')
  // Or it has failed before, which the test sees.
  await Promise.race([stalled, ended])
  child.kill('SIGINT')
  return ended
}

test('Ctrl-C during a download leaves what was there', async () => {
  const { cwd, env, storage } = await desk()
  await storage(['cp', 'big.bin', 'ss:///media/'])
  writeFileSync(join(cwd, 'old.bin'), 'old')
  const wire = await brittle(platform.url, [{ way: 'down', bytes: 9_000_000, isStall: true }])
  const ended = await interrupted(['cp', 'ss:///media/big.bin', 'old.bin'], cwd, env(wire.url), wire.stalled)
  assert.deepEqual(ended, [130, null])
  assert.equal(readFileSync(join(cwd, 'old.bin'), 'utf8'), 'old')
  assert.deepEqual(readdirSync(cwd).sort(), ['big.bin', 'old.bin'])
})

test('Ctrl-C during an upload stores nothing and gives its room back', async () => {
  const { id, cwd, env, info } = await desk()
  const wire = await brittle(platform.url, [{ way: 'up', bytes: 9_000_000, isStall: true }])
  const ended = await interrupted(['cp', 'big.bin', 'ss:///media/'], cwd, env(wire.url), wire.stalled)
  assert.deepEqual(ended, [130, null])
  assert.equal((await info('media/big.bin')).status, 404)
  assert.equal((await platform.projects.read({ params: { id } })).storage_bytes, 0)
})

test('Ctrl-C while waiting for a list ends with 130 and without a word', async () => {
  const { cwd, env } = await desk()
  const wire = await brittle(platform.url, [{ way: 'up', bytes: 1, asking: '/v1/storage/', isStall: true }])
  const child = begin(['storage', 'ls'], { cwd, env: env(wire.url) })
  const said = Promise.all([text(child.stdout), text(child.stderr)])
  const ended = once(child, 'close')
  await Promise.race([wire.stalled, ended])
  child.kill('SIGINT')
  assert.deepEqual(
    [await ended, await said],
    [
      [130, null],
      ['', ''],
    ],
  )
})
