import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from '#src/kernel/log.ts'
import { createRenderCache, type RenderStore } from './cache.ts'
import type { Rendered } from './renderer.ts'

/** A store in memory that can be made to fail, or to be slow to write. */
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
  /** Asks, waits until it is kept, and says whether it had to be made. */
  const isMade = async (project: string, version: string, key = 'k', size?: number) => {
    const before = made
    const { bytes, contentType } = await cache.through(project, version, key, make(version + key, size))
    assert.equal(contentType, 'image/webp')
    assert.equal(bytes.toString('latin1', 0, (version + key).length), version + key)
    await settled()
    return made > before
  }
  return { files, lines, state, store, cache, make, isMade, count: () => made }
}
const settled = () => new Promise(resolve => setImmediate(resolve))

test('what was rendered once is found, and only under its project, version and key', async () => {
  const { isMade } = stage()
  assert.equal(await isMade('a', 'v1'), true)
  assert.equal(await isMade('a', 'v1'), false)
  assert.equal(await isMade('b', 'v1'), true)
  assert.equal(await isMade('a', 'v2'), true)
  assert.equal(await isMade('a', 'v1', 'other'), true)
  assert.equal(await isMade('a', 'v1'), false)
})

test('of an earlier run nothing is left', async () => {
  const { files } = stage()
  await settled()
  assert.equal(files.size, 0)
})

test('many who ask for the same at once get it from one rendering', async () => {
  const { cache, make, count } = stage()
  const answers = await Promise.all(Array.from({ length: 20 }, () => cache.through('a', 'v', 'k', make('x'))))
  assert.equal(count(), 1)
  assert.ok(answers.every(({ bytes }) => bytes.equals(answers[0]!.bytes)))
})

test('a rendering that fails is told to all who waited, and tried again by the next', async () => {
  const { cache, isMade } = stage()
  const fail = () => cache.through('a', 'v', 'k', async () => Promise.reject(new Error('no image')))
  const [one, other] = await Promise.allSettled([fail(), fail()])
  assert.equal(one.status, 'rejected')
  assert.equal(other.status, 'rejected')
  await settled()
  assert.equal(await isMade('a', 'v'), true)
})

test('a project uses at most its quarter; what was not asked for the longest goes first', async () => {
  const { isMade, files, state } = stage(160_000) // 40 000 a project: two of 10 000 and what a file takes
  await isMade('a', 'v1')
  await isMade('a', 'v2')
  await isMade('a', 'v1')
  await isMade('a', 'v3')
  assert.equal(files.size, 2)
  assert.equal(await isMade('a', 'v1'), false)
  assert.equal(await isMade('a', 'v2'), true)
  assert.ok(state.mostBytes <= 40_000)
})

test('all together use at most the whole; the least recently used of any project goes first', async () => {
  const { isMade, files, state } = stage(160_000)
  for (const project of ['a', 'b', 'c', 'd', 'e', 'f'])
    for (const version of ['v1', 'v2']) await isMade(project, version)
  assert.equal(files.size, 11)
  assert.equal(await isMade('f', 'v2'), false)
  assert.equal(await isMade('a', 'v2'), false)
  assert.equal(await isMade('a', 'v1'), true)
  assert.ok(state.mostBytes <= 160_000)
})

test('many at once do not exceed it either', async () => {
  const { cache, make, state, files } = stage(160_000)
  await Promise.all(
    Array.from({ length: 100 }, (_, at) => cache.through(`p${at % 10}`, `v${at}`, 'k', make('x'))),
  )
  await settled()
  assert.ok(state.mostBytes <= 160_000, `${state.mostBytes} bytes`)
  assert.ok(files.size >= 8)
})

test('what is larger than a share is answered and not kept', async () => {
  const { isMade, files } = stage(160_000)
  await isMade('a', 'small')
  assert.equal(await isMade('a', 'v', 'k', 40_000), true)
  assert.equal(await isMade('a', 'v', 'k', 40_000), true)
  assert.equal(files.size, 1)
})

test('a version, or a project, that is forgotten leaves nothing behind', async () => {
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

test('what is forgotten while it is rendered or written is not kept', async () => {
  const { cache, files, make, state, isMade } = stage()
  await settled()
  const rendering = Promise.withResolvers<Rendered>()
  const asked = cache.through('a', 'v', 'k', () => rendering.promise)
  await settled()
  await cache.forget('a', 'v')
  rendering.resolve(await make('x')())
  await asked
  await settled()
  assert.equal(files.size, 0)

  const writing = Promise.withResolvers<void>()
  state.gate = writing.promise
  await cache.through('a', 'v', 'k', make('x'))
  await settled()
  await cache.forget('a', 'v')
  writing.resolve()
  await settled()
  assert.equal(files.size, 0)
  assert.equal(await isMade('a', 'v'), true)
})

test('a file that is gone is rendered anew', async () => {
  const { isMade, files } = stage()
  await isMade('a', 'v')
  files.clear()
  assert.equal(await isMade('a', 'v'), true)
  assert.equal(await isMade('a', 'v'), false)
})

test('a store that fails is a cache without anything in it, and is said once', async () => {
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
