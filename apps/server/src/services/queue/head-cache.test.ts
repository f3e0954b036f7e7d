import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { createHeadCache, type FindHead, type Head, type HeadCache, horizonSeconds } from './head-cache.ts'

let clock: number
/** Searches from the beginning. */
let searches: number
let movesFrom: string[]
let found: Head | Error
let heads: HeadCache
beforeEach(() => {
  clock = 1000
  searches = 0
  movesFrom = []
  found = { id: '500', ms: 50 }
  heads = createHeadCache(undefined, () => clock)
})

const findHead: FindHead = async from => {
  if (from === '0') searches++
  else movesFrom.push(from)
  if (found instanceof Error) throw found
  return found
}
const settle = () => new Promise(resolve => setImmediate(resolve))
const slowRead = async () => {
  heads.record('q', 100, findHead)
  await settle()
}

test('queue head: quick reads start at the beginning, without a search', async () => {
  heads.record('q', 1, findHead)
  await settle()
  assert.equal(heads.of('q', findHead), '0')
  assert.equal(searches, 0)
})

test('queue head: after a slow read the head is searched, and reads start there', async () => {
  await slowRead()
  assert.equal(heads.of('q', findHead), '500')
  assert.equal(heads.of('another', findHead), '0')
  assert.equal(searches, 1)
})

test('queue head: the result of a quick search is not cached', async () => {
  found = { id: '500', ms: 0.3 }
  await slowRead()
  assert.equal(heads.of('q', findHead), '0')
})

test('queue head: searches take at most one twentieth of the time and run one at a time', async () => {
  await slowRead()
  clock += 999
  assert.equal(heads.of('q', findHead), '500')
  await settle()
  assert.equal(searches, 1)
  clock += 2
  found = { id: '700', ms: 400 }
  assert.equal(heads.of('q', findHead), '500')
  heads.of('q', findHead)
  await settle()
  assert.equal(searches, 2)
  assert.equal(heads.of('q', findHead), '700')
  clock += 7999
  heads.of('q', findHead)
  await settle()
  assert.equal(searches, 2)
  clock += 2
  heads.of('q', findHead)
  assert.equal(searches, 3)
})

test('queue head: a head expires before messages below it can become visible', async () => {
  await slowRead()
  clock += horizonSeconds * 1000
  assert.equal(heads.of('q', findHead), '0')
})

test('queue head: a message that is put back is visible at once', async () => {
  await slowRead()
  heads.forget('q')
  assert.equal(heads.of('q', findHead), '0')
})

test('queue head: after a failed search reads start at the beginning', async () => {
  found = new Error('no such queue')
  await slowRead()
  assert.equal(heads.of('q', findHead), '0')
  found = { id: '500', ms: 50 }
  await slowRead()
  assert.equal(heads.of('q', findHead), '500')
})

test('queue head: between full searches the head advances and never moves back', async () => {
  await slowRead()
  found = { id: '650', ms: 0.1 }
  heads.of('q', findHead)
  assert.deepEqual(movesFrom, [], 'not at once')
  clock += 100
  assert.equal(heads.of('q', findHead), '500')
  await settle()
  assert.deepEqual(movesFrom, ['500'])
  assert.equal(heads.of('q', findHead), '650')
  clock += 100
  found = { id: '600', ms: 0.1 }
  heads.of('q', findHead)
  await settle()
  assert.deepEqual(movesFrom, ['500', '650'])
  assert.equal(heads.of('q', findHead), '650')
  assert.equal(searches, 1)
})

test('queue head: advancing does not extend the validity', async () => {
  found = { id: '500', ms: 10_000 }
  await slowRead()
  for (let tenths = 0; tenths < horizonSeconds * 10; tenths++) {
    assert.equal(heads.of('q', findHead), '500')
    clock += 100
    await settle()
  }
  assert.equal(heads.of('q', findHead), '0')
})
