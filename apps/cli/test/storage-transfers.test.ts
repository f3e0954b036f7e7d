// Large files and cut connections, with a real platform.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type Fault, faultyProxy } from './faulty-proxy.ts'
import { begin, beginProcess, plinth, temporaryDirectory } from './plinth.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const size = 20 * 1000 * 1000
const content = randomBytes(size)
const hash = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')
const expected = createHash('sha256').update(content).digest('hex')

async function projectDirectory() {
  const { id, service_role_key } = await platform.createProject()
  const cwd = temporaryDirectory()
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

test('storage cp: uploads a large file in chunks of 6 MiB and downloads the same bytes', async () => {
  const { cwd, storage, info } = await projectDirectory()
  const proxy = await faultyProxy(platform.url, [])
  const options = ['--content-type', 'video/x-test', '--cache-control', '120']
  const sent = await storage(['cp', 'big.bin', 'ss:///media/', ...options], proxy.url)
  assert.equal(sent.code, 0, sent.stdout)
  assert.equal(sent.json.data.bytes, size)
  assert.equal(of(proxy.requests, 'PATCH').length, 4)
  const { body } = await info('media/big.bin')
  assert.deepEqual([body.size, body.content_type, body.cache_control], [size, 'video/x-test', 'max-age=120'])
  // Replaces the file.
  assert.equal((await storage(['cp', 'big.bin', 'ss:///media/'])).code, 0)
  assert.equal((await info('media/big.bin')).body.content_type, 'application/octet-stream')

  const got = await storage(['cp', 'ss:///media/big.bin', 'back.bin'])
  assert.equal(got.code, 0, got.stdout)
  assert.equal(hash(join(cwd, 'back.bin')), expected)
})

test('storage cp: rejects a Cache-Control that TUS cannot store for large files, and keeps it for small ones', async () => {
  const { cwd, storage, info } = await projectDirectory()
  const proxy = await faultyProxy(platform.url, [])
  const forEver = ['--cache-control', 'public, max-age=31536000, immutable']
  const refused = await storage(['cp', 'big.bin', 'ss:///media/', ...forEver], proxy.url)
  assert.deepEqual([refused.code, refused.json.error.code], [1, 'usage_invalid_value'])
  assert.match(refused.json.error.message, /big\.bin: files over 6 MiB accept only seconds or no-cache/)
  assert.deepEqual(proxy.requests, [])
  writeFileSync(join(cwd, 'small.bin'), content.subarray(0, 1000))
  assert.equal((await storage(['cp', 'small.bin', 'ss:///media/', ...forEver])).code, 0)
  assert.equal((await info('media/small.bin')).body.cache_control, 'public, max-age=31536000, immutable')
})

test('storage cp: an upload resumes after the connection was cut', async () => {
  const { cwd, storage } = await projectDirectory()
  const faults: Fault[] = [
    { direction: 'up', bytes: 8_000_000 },
    { direction: 'up', bytes: 1_000_000 },
    { direction: 'up', bytes: 3_000_000 },
  ]
  const proxy = await faultyProxy(platform.url, faults)
  const sent = await storage(['cp', 'big.bin', 'ss:///media/'], proxy.url)
  assert.equal(sent.code, 0, sent.stdout)
  assert.deepEqual(proxy.pending, [])
  assert.equal(of(proxy.requests, 'POST').length, 1)
  assert.ok(of(proxy.requests, 'HEAD').length >= 3)
  await storage(['cp', 'ss:///media/big.bin', 'back.bin'])
  assert.equal(hash(join(cwd, 'back.bin')), expected)
})

test('storage cp: a small upload is sent again after the connection was cut', async () => {
  const { cwd, storage } = await projectDirectory()
  writeFileSync(join(cwd, 'small.bin'), content.subarray(0, 5_000_000))
  const proxy = await faultyProxy(platform.url, [{ direction: 'up', bytes: 2_000_000 }])
  const sent = await storage(['cp', 'small.bin', 'ss:///media/'], proxy.url)
  assert.equal(sent.code, 0, sent.stdout)
  assert.equal(of(proxy.requests, 'POST').length, 2)
  await storage(['cp', 'ss:///media/small.bin', 'back.bin'])
  assert.equal(hash(join(cwd, 'back.bin')), hash(join(cwd, 'small.bin')))
})

test('storage cp: a download resumes after the connection was cut', async () => {
  const { cwd, storage } = await projectDirectory()
  await storage(['cp', 'big.bin', 'ss:///media/'])
  const faults: Fault[] = [
    { direction: 'down', bytes: 7_000_000 },
    { direction: 'down', bytes: 5_000_000 },
  ]
  const proxy = await faultyProxy(platform.url, faults)
  const got = await storage(['cp', 'ss:///media/big.bin', 'back.bin'], proxy.url)
  assert.equal(got.code, 0, got.stdout)
  assert.deepEqual(proxy.pending, [])
  assert.equal(of(proxy.requests, 'GET').length, 3)
  assert.equal(hash(join(cwd, 'back.bin')), expected)
  assert.deepEqual(readdirSync(cwd).sort(), ['back.bin', 'big.bin'])
})

test('storage cp: a download starts again when the file is replaced, and leaves nothing when it is removed', async () => {
  const { cwd, env, storage } = await projectDirectory()
  const other = Buffer.from(content).reverse()
  writeFileSync(join(cwd, 'other.bin'), other)
  await storage(['cp', 'big.bin', 'ss:///media/x.bin'])
  for (const [meanwhile, code, left] of [
    [['cp', 'other.bin', 'ss:///media/x.bin'], 0, ['back.bin', 'big.bin', 'other.bin']],
    [['rm', 'ss:///media/x.bin'], 1, ['big.bin', 'other.bin']],
  ] as const) {
    const proxy = await faultyProxy(platform.url, [{ direction: 'down', bytes: 7_000_000, isStall: true }])
    const { ended } = begin(['storage', 'cp', 'ss:///media/x.bin', 'back.bin'], { cwd, env: env(proxy.url) })
    await Promise.race([proxy.stalled, ended])
    assert.equal((await storage([...meanwhile])).code, 0)
    proxy.cut()
    assert.equal(await ended, code)
    assert.deepEqual(readdirSync(cwd).sort(), left)
    if (code === 0) assert.ok(readFileSync(join(cwd, 'back.bin')).equals(other))
    rmSync(join(cwd, 'back.bin'), { force: true })
  }
})

/** Sends SIGINT in the middle of a transfer. */
async function interrupted(args: string[], cwd: string, env: Record<string, string>, stalled: Promise<void>) {
  const child = beginProcess(['storage', ...args], { cwd, env })
  const ended = once(child, 'close')
  // If it ends before the stall, the exit code shows it.
  await Promise.race([stalled, ended])
  child.kill('SIGINT')
  return ended
}

test('storage cp: Ctrl-C during a download keeps the old file', async () => {
  const { cwd, env, storage } = await projectDirectory()
  await storage(['cp', 'big.bin', 'ss:///media/'])
  writeFileSync(join(cwd, 'old.bin'), 'old')
  const proxy = await faultyProxy(platform.url, [{ direction: 'down', bytes: 9_000_000, isStall: true }])
  const ended = await interrupted(
    ['cp', 'ss:///media/big.bin', 'old.bin'],
    cwd,
    env(proxy.url),
    proxy.stalled,
  )
  assert.deepEqual(ended, [130, null])
  assert.equal(readFileSync(join(cwd, 'old.bin'), 'utf8'), 'old')
  assert.deepEqual(readdirSync(cwd).sort(), ['big.bin', 'old.bin'])
})

test('storage cp: Ctrl-C during an upload stores nothing and releases the reserved quota', async () => {
  const { id, cwd, env, info } = await projectDirectory()
  const proxy = await faultyProxy(platform.url, [{ direction: 'up', bytes: 9_000_000, isStall: true }])
  const ended = await interrupted(['cp', 'big.bin', 'ss:///media/'], cwd, env(proxy.url), proxy.stalled)
  assert.deepEqual(ended, [130, null])
  assert.equal((await info('media/big.bin')).status, 404)
  assert.equal((await platform.projects.read({ params: { id } })).storage_bytes, 0)
})

test('storage ls: Ctrl-C ends with 130 and without a message', async () => {
  const { cwd, env } = await projectDirectory()
  const proxy = await faultyProxy(platform.url, [
    { direction: 'up', bytes: 1, request: '/v1/storage/', isStall: true },
  ])
  const running = begin(['storage', 'ls'], { cwd, env: env(proxy.url) })
  await Promise.race([proxy.stalled, running.ended])
  running.interrupt()
  assert.deepEqual([await running.ended, running.stdout(), running.stderr()], [130, '', ''])
})
