import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from '#src/kernel/log.ts'
import { createRenderCache, type RenderStore } from './cache.ts'
import type { Rendered } from './renderer.ts'

/** An in-memory store that can fail or write slowly. */
function stage(maxBytes = 1_000_000) {
  const files = new Map<string, Buffer>()
  const lines: string[] = []
  const state = { isBroken: false, mostBytes: 0, gate: Promise.resolve() }
  const unlessBroken = async <T>(work: () => T): Promise<T> => {
    if (state.isBroken) throw new Error('disk on fire')
    return work()
  }
  const used = () => [...files.values()].reduce((sum, { length }) => sum + length, 0)
  const store: RenderStore = {
    async put(project, name, bytes) {
      await state.gate
      await unlessBroken(() => files.set(`${project}/${name}`, bytes))
      state.mostBytes = Math.max(state.mostBytes, used())
    },
    get: (project, name) => unlessBroken(() => files.get(`${project}/${name}`)),
    remove: (project, name) => unlessBroken(() => void files.delete(`${project}/${name}`)),
    clear: () => unlessBroken(() => files.clear()),
  }
  files.set('old/left-over', Buffer.from('x'))
  const log = createLog('info', { write: line => void lines.push(line) })
  const cache = createRenderCache(store, log, maxBytes)
  let made = 0
  const make =
    (text: string, size = 10_000) =>
    async (): Promise<Rendered> => {
      made++
      return { bytes: Buffer.alloc(size, text), contentType: 'image/webp' }
    }
  /** Requests an image, waits until it is cached, and returns whether it was rendered. */
  const isMade = async (project: string, version: string, key = 'k', size?: number) => {
    const before = made
    const { bytes, contentType } = await cache.getOrRender(project, version, key, make(version + key, size))
    assert.equal(contentType, 'image/webp')
    assert.equal(bytes.toString('latin1', 0, (version + key).length), version + key)
    await settled()
    return made > before
  }
  return { files, lines, state, store, cache, make, isMade, count: () => made }
}
const settled = () => new Promise(resolve => setImmediate(resolve))

test('render cache: an image is found by its project, version and key', async () => {
  const { isMade } = stage()
  assert.equal(await isMade('a', 'v1'), true)
  assert.equal(await isMade('a', 'v1'), false)
  assert.equal(await isMade('b', 'v1'), true)
  assert.equal(await isMade('a', 'v2'), true)
  assert.equal(await isMade('a', 'v1', 'other'), true)
  assert.equal(await isMade('a', 'v1'), false)
})

test('render cache: files of an earlier process are removed at start', async () => {
  const { files } = stage()
  await settled()
  assert.equal(files.size, 0)
})

test('render cache: concurrent requests for the same image share one render', async () => {
  const { cache, make, count } = stage()
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => cache.getOrRender('a', 'v', 'k', make('x'))),
  )
  assert.equal(count(), 1)
  assert.ok(answers.every(({ bytes }) => bytes.equals(answers[0]!.bytes)))
})

test('render cache: a failed render rejects all waiting requests, and the next request retries', async () => {
  const { cache, isMade } = stage()
  const fail = () => cache.getOrRender('a', 'v', 'k', async () => Promise.reject(new Error('no image')))
  const [one, other] = await Promise.allSettled([fail(), fail()])
  assert.equal(one.status, 'rejected')
  assert.equal(other.status, 'rejected')
  await settled()
  assert.equal(await isMade('a', 'v'), true)
})

test('render cache: a project uses at most a quarter; the least recently used image is evicted first', async () => {
  const { isMade, files, state } = stage(160_000) // 40,000 bytes per project: two images of 10,000 bytes with their overhead
  await isMade('a', 'v1')
  await isMade('a', 'v2')
  await isMade('a', 'v1')
  await isMade('a', 'v3')
  assert.equal(files.size, 2)
  assert.equal(await isMade('a', 'v1'), false)
  assert.equal(await isMade('a', 'v2'), true)
  assert.ok(state.mostBytes <= 40_000)
})

test('render cache: all projects together stay within the limit; the least recently used image is evicted first', async () => {
  const { isMade, files, state } = stage(160_000)
  for (const project of ['a', 'b', 'c', 'd', 'e', 'f'])
    for (const version of ['v1', 'v2']) await isMade(project, version)
  assert.equal(files.size, 11)
  assert.equal(await isMade('f', 'v2'), false)
  assert.equal(await isMade('a', 'v2'), false)
  assert.equal(await isMade('a', 'v1'), true)
  assert.ok(state.mostBytes <= 160_000)
})

test('render cache: concurrent renders stay within the limit', async () => {
  const { cache, make, state, files } = stage(160_000)
  await Promise.all(
    Array.from({ length: 100 }, (_, at) => cache.getOrRender(`p${at % 10}`, `v${at}`, 'k', make('x'))),
  )
  await settled()
  assert.ok(state.mostBytes <= 160_000, `${state.mostBytes} bytes`)
  assert.ok(files.size >= 8)
})

test('render cache: an image over the limit of a project is returned but not cached', async () => {
  const { isMade, files } = stage(160_000)
  await isMade('a', 'small')
  assert.equal(await isMade('a', 'v', 'k', 40_000), true)
  assert.equal(await isMade('a', 'v', 'k', 40_000), true)
  assert.equal(files.size, 1)
})

test('render cache: forgetting a version or a project removes its files', async () => {
  const { cache, isMade, files } = stage()
  for (const version of ['v1', 'v2']) for (const key of ['k1', 'k2']) await isMade('a', version, key)
  await isMade('b', 'v1')
  await cache.forget('a', 'v1')
  assert.equal(files.size, 3)
  assert.equal(await isMade('a', 'v1', 'k1'), true)
  assert.equal(await isMade('a', 'v2', 'k1'), false)
  await cache.forget('a')
  assert.equal(files.size, 1)
  assert.equal(await isMade('b', 'v1'), false)
  await cache.forget('nobody')
})

test('render cache: an image forgotten while it is rendered or written is not cached', async () => {
  const { cache, files, make, state, isMade } = stage()
  await settled()
  const rendering = Promise.withResolvers<Rendered>()
  const asked = cache.getOrRender('a', 'v', 'k', () => rendering.promise)
  await settled()
  await cache.forget('a', 'v')
  rendering.resolve(await make('x')())
  await asked
  await settled()
  assert.equal(files.size, 0)

  const writing = Promise.withResolvers<void>()
  state.gate = writing.promise
  await cache.getOrRender('a', 'v', 'k', make('x'))
  await settled()
  await cache.forget('a', 'v')
  writing.resolve()
  await settled()
  assert.equal(files.size, 0)
  assert.equal(await isMade('a', 'v'), true)
})

test('render cache: an image whose file is missing is rendered again', async () => {
  const { isMade, files } = stage()
  await isMade('a', 'v')
  files.clear()
  assert.equal(await isMade('a', 'v'), true)
  assert.equal(await isMade('a', 'v'), false)
})

test('render cache: a failing store acts as an empty cache and is logged once', async () => {
  const { isMade, state, lines } = stage()
  await isMade('a', 'v')
  state.isBroken = true
  for (let round = 0; round < 3; round++) assert.equal(await isMade('a', 'v'), true)
  assert.equal(lines.length, 1)
  assert.match(lines[0]!, /disk on fire/)
  state.isBroken = false
  await isMade('a', 'v')
  assert.equal(await isMade('a', 'v'), false)
})
