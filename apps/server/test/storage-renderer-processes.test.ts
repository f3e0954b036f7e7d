// The processes that render images: limits, crashes, isolation, and how renders share them.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'
import type { Renderer } from '#src/services/storage/render/renderer.ts'
import { transformationFrom } from '#src/services/storage/render/transformation.ts'
import { eventually } from './eventually.ts'
import {
  cpuSeconds,
  imageRenderers,
  onlyProcess,
  picture,
  processesOf,
  rejection,
  renderWith,
  sizeOf,
  slowImage,
} from './image-renderers.ts'

const { lines, newRenderer } = imageRenderers()
let renderer: Renderer
let slow: Buffer
before(async () => {
  renderer = newRenderer()
  slow = await slowImage()
})
const render = renderWith(() => renderer)

test('image rendering: a large image stays in memory and is not written to a temporary file', async () => {
  const source = await sharp({ create: { width: 7000, height: 5500, channels: 3, background: 'red' } })
    .webp({ effort: 0 })
    .toBuffer()
  const withLongTimeout = newRenderer({ timeLimitMs: 60_000 })
  assert.equal(await sizeOf(await render(source, {}, 'webp', withLongTimeout)), '7000x5500')
  withLongTimeout.close()
})

test('image rendering: an image that takes too long is rejected, and the next one is rendered', async () => {
  const withShortTimeout = newRenderer({ timeLimitMs: 3000 })
  const small = await picture(8, 8).png().toBuffer()
  await render(small, {}, 'origin', withShortTimeout)
  await assert.rejects(render(slow, { quality: 100 }, 'avif', withShortTimeout), rejection(/takes too long/))
  assert.equal(await sizeOf(await render(small, {}, 'origin', withShortTimeout)), '8x8')
  withShortTimeout.close()
})

test('image rendering: an image that takes too much memory is rejected, and the next one is rendered', async () => {
  const withLittleMemory = newRenderer({ memoryBytes: 150 * 1024 * 1024 })
  const large = await sharp({ create: { width: 7000, height: 5500, channels: 3, background: 'red' } })
    .webp({ effort: 0 })
    .toBuffer()
  await assert.rejects(render(large, {}, 'webp', withLittleMemory), rejection(/too much memory/))
  assert.equal(
    await sizeOf(await render(await picture(8, 8).png().toBuffer(), {}, 'origin', withLittleMemory)),
    '8x8',
  )
  withLittleMemory.close()
})

test('image rendering: a killed process is replaced, and the image is rendered again', async () => {
  renderer.close()
  renderer = newRenderer()
  await eventually(() => processesOf().length === 0, 'none')
  const result = render(slow, {}, 'webp')
  const pid = await onlyProcess()
  await eventually(() => cpuSeconds(pid) > 0.4, 'work')
  const lineCount = lines.length
  process.kill(pid, 'SIGKILL')
  assert.equal(await sizeOf(await result), '3000x3000')
  assert.match(lines.slice(lineCount).join(''), /SIGKILL/)
})

test('image rendering: an image that always crashes its process is rejected, and the next one is rendered', async () => {
  renderer.close()
  renderer = newRenderer()
  await eventually(() => processesOf().length === 0, 'none')
  await render(await picture(8, 8).png().toBuffer())
  // A process that is killed during its start counts as an error of the platform, not of the image.
  const startSeconds = cpuSeconds(await onlyProcess())
  let isAnswered = false
  const result = render(slow, {}, 'webp').finally(() => {
    isAnswered = true
  })
  result.catch(() => {})
  while (!isAnswered) {
    for (const pid of processesOf())
      if (cpuSeconds(pid) > 2 * startSeconds + 0.3) process.kill(pid, 'SIGKILL')
    await sleep(5)
  }
  await assert.rejects(result, rejection(/cannot be rendered/))
  assert.equal(await sizeOf(await render(await picture(8, 8).png().toBuffer())), '8x8')
})

test('image rendering: an idle process stops and a new one starts on demand', async () => {
  const shortLived = newRenderer({ idleMs: 50 })
  renderer.close()
  renderer = newRenderer()
  const source = await picture(8, 8).png().toBuffer()
  await eventually(() => processesOf().length === 0, 'none')
  for (let round = 0; round < 2; round++) {
    const lineCount = lines.length
    assert.equal(await sizeOf(await render(source, {}, 'origin', shortLived)), '8x8')
    await eventually(() => processesOf().length === 0, 'an end')
    assert.equal(lines.length, lineCount)
  }
  shortLived.close()
})

test('image rendering: one process renders several images and ignores the signals of the platform', async () => {
  const source = await picture(8, 8).png().toBuffer()
  await render(source)
  const pid = await onlyProcess()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.kill(pid, signal)
    await render(source)
    assert.deepEqual(processesOf(), [pid])
  }
})

test('image rendering: the process inherits no environment and no open files', async () => {
  process.env['PLATFORM_SECRET_FOR_TEST'] = 'hunter2'
  const file = openSync(join(import.meta.dirname, 'storage-renderer-processes.test.ts'), 'r')
  renderer.close()
  renderer = newRenderer()
  await render(await picture(8, 8).png().toBuffer())
  const pid = await onlyProcess()
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
  assert.deepEqual(environment.map(entry => entry.split('=')[0]).sort(), [
    'MALLOC_ARENA_MAX',
    'NODE_CHANNEL_FD',
    'NODE_CHANNEL_SERIALIZATION_MODE',
    'TMPDIR',
    'TZ',
    'VIPS_DISC_THRESHOLD',
  ])
  const files = readdirSync(`/proc/${pid}/fd`).map(name => readlinkSync(`/proc/${pid}/fd/${name}`))
  assert.ok(!files.some(name => name.includes('storage-renderer')), files.join(' '))
  assert.equal(readlinkSync(`/proc/${pid}/cwd`), '/')
  closeSync(file)
  delete process.env['PLATFORM_SECRET_FOR_TEST']
})

/** A separate process that renders until it is killed, like the platform. */
function startOther(source: Buffer): ChildProcess {
  const folder = join(import.meta.dirname, '../src')
  const program = `
    const { createRenderer } = await import(${JSON.stringify(`${folder}/services/storage/render/renderer.ts`)})
    const { createLog } = await import(${JSON.stringify(`${folder}/kernel/log.ts`)})
    const source = await new Response(process.stdin).bytes()
    const renderer = createRenderer({ log: createLog('silent') })
    const wanted = { resize: 'cover', quality: 80 }
    await renderer.render('p', async () => Buffer.from(source), wanted, 'webp')`
  const args = ['--input-type=module', '-e', program]
  const other = spawn(process.execPath, args, { stdio: ['pipe', 'inherit', 'inherit'] })
  other.stdin!.end(source)
  return other
}

test('image rendering: the process ends when the platform is killed, even during a render', async () => {
  const other = startOther(slow)
  await eventually(() => processesOf(other.pid).length > 0, 'a process')
  const [pid] = processesOf(other.pid)
  await eventually(() => cpuSeconds(pid!) > 0.4, 'work')
  other.kill('SIGKILL')
  await eventually(() => !existsSync(`/proc/${pid}`), 'its end')
})

test('image rendering: an idle process does not keep the platform running', async () => {
  const other = startOther(await picture(8, 8).png().toBuffer())
  await eventually(() => other.exitCode !== null, 'its end')
  assert.equal(other.exitCode, 0)
})

test('image rendering: two renders at a time, one per project, and sources are read when a render starts', async () => {
  const source = await sharp(slow).resize(800).jpeg().toBuffer()
  let underWay = 0
  let most = 0
  const busy = new Set<string>()
  const one = (project: string) =>
    renderer.render(
      project,
      async () => {
        assert.ok(!busy.has(project))
        busy.add(project)
        most = Math.max(most, ++underWay)
        await sleep(5)
        underWay--
        busy.delete(project)
        return source
      },
      transformationFrom({}),
      'webp',
    )
  await Promise.all(['a', 'a', 'a', 'b', 'b', 'c', 'c', 'd'].map(one))
  assert.ok(most <= 2, `${most} at a time`)
  assert.equal(processesOf().length, 2)
})

test('image rendering: a project waits for its own renders only, and gets 429 beyond 64', async () => {
  const source = await sharp(slow).resize(500).jpeg().toBuffer()
  const order: string[] = []
  const ask = (project: string) =>
    render(source, {}, 'webp', renderer, project).then(
      () => void order.push(project),
      (error: unknown) => error,
    )
  const answers = Array.from({ length: 70 }, () => ask('greedy'))
  await ask('modest')
  // Last in the queue it would be the 66th, and its process may have to start.
  assert.ok(order.indexOf('modest') < 32, order.join(' '))
  const refused = (await Promise.all(answers)).filter(answer => answer !== undefined)
  // On a slow machine some waiting renders may time out as well.
  assert.ok(refused.length >= 5, `${refused.length} were refused`)
  const [{ status, code, headers }] = refused as [{ status: number; code: string; headers: object }]
  assert.deepEqual(
    { status, code, headers },
    { status: 429, code: 'SlowDown', headers: { 'retry-after': '1' } },
  )
})

test('image rendering: a hanging object store blocks a slot only until the timeout', async () => {
  const withShortTimeout = newRenderer({ timeLimitMs: 300 })
  const hangs = withShortTimeout.render('a', () => new Promise(() => {}), transformationFrom({}), 'origin')
  await assert.rejects(hangs, rejection(/cannot be read at the moment/, 503))
  const broken = withShortTimeout.render(
    'a',
    () => Promise.reject(new Error('gone')),
    transformationFrom({}),
    'origin',
  )
  await assert.rejects(broken, { message: 'gone' }, 'the source is read, so the slot is free')
  withShortTimeout.close()
})

test('image rendering: rendering large files does not leak memory of the platform', async () => {
  const source = Buffer.concat([await picture(400, 400).jpeg().toBuffer(), randomBytes(20 * 1024 * 1024)])
  const round = async (times: number) => {
    for (let at = 0; at < times; at++) await render(source, { width: 100 })
    return process.memoryUsage.rss()
  }
  const before = await round(10)
  const grown = (await round(40)) - before
  assert.ok(grown < 60 * 1024 * 1024, `${Math.round(grown / 1024 / 1024)} MB more`)
})

test('image rendering: after close no process is left and renders are rejected', async () => {
  const closing = newRenderer()
  const result = render(slow, {}, 'webp', closing)
  result.catch(() => {})
  const known = processesOf()
  await eventually(() => processesOf().some(pid => !known.includes(pid)), 'its process')
  closing.close()
  await assert.rejects(result, rejection(/at the moment/, 503))
  await assert.rejects(render(slow, {}, 'webp', closing), rejection(/at the moment/, 503))
  renderer.close()
  await eventually(() => processesOf().length === 0, 'none')
})
