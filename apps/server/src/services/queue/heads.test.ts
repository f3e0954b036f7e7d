import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { createHeads, type Head, type Heads, horizonSeconds, type Look } from './heads.ts'

let clock: number
/** From the beginning. */
let looks: number
let movesFrom: string[]
let found: Head | Error
let heads: Heads
beforeEach(() => {
  clock = 1000
  looks = 0
  movesFrom = []
  found = { id: '500', ms: 50 }
  heads = createHeads(undefined, () => clock)
})

const look: Look = async from => {
  if (from === '0') looks++
  else movesFrom.push(from)
  if (found instanceof Error) throw found
  return found
}
const settle = () => new Promise(resolve => setImmediate(resolve))
const slowRead = async () => {
  heads.note('q', 100, look)
  await settle()
}

test('a queue whose reads are quick is read from its beginning, and nobody looks', async () => {
  heads.note('q', 1, look)
  await settle()
  assert.equal(heads.of('q', look), '0')
  assert.equal(looks, 0)
})

test('after a slow read the head is looked up, and reads begin there', async () => {
  await slowRead()
  assert.equal(heads.of('q', look), '500')
  assert.equal(heads.of('another', look), '0')
  assert.equal(looks, 1)
})

test('what a look finds at once is not worth passing over', async () => {
  found = { id: '500', ms: 0.3 }
  await slowRead()
  assert.equal(heads.of('q', look), '0')
})

test('looks take one twentieth of the time at most, and one goes on at a time', async () => {
  await slowRead()
  clock += 999
  assert.equal(heads.of('q', look), '500')
  await settle()
  assert.equal(looks, 1)
  clock += 2
  found = { id: '700', ms: 400 }
  assert.equal(heads.of('q', look), '500')
  heads.of('q', look)
  await settle()
  assert.equal(looks, 2)
  assert.equal(heads.of('q', look), '700')
  clock += 7999
  heads.of('q', look)
  await settle()
  assert.equal(looks, 2)
  clock += 2
  heads.of('q', look)
  assert.equal(looks, 3)
})

test('a head is used no longer than what lies below it was sure to stay hidden', async () => {
  await slowRead()
  clock += horizonSeconds * 1000
  assert.equal(heads.of('q', look), '0')
})

test('a message put back counts at once', async () => {
  await slowRead()
  heads.forget('q')
  assert.equal(heads.of('q', look), '0')
})

test('a look that fails leaves the queue to be read from its beginning', async () => {
  found = new Error('no such queue')
  await slowRead()
  assert.equal(heads.of('q', look), '0')
  found = { id: '500', ms: 50 }
  await slowRead()
  assert.equal(heads.of('q', look), '500')
})

test('between looks from the beginning the head moves on from where it is, and never back', async () => {
  await slowRead()
  found = { id: '650', ms: 0.1 }
  heads.of('q', look)
  assert.deepEqual(movesFrom, [], 'not at once')
  clock += 100
  assert.equal(heads.of('q', look), '500')
  await settle()
  assert.deepEqual(movesFrom, ['500'])
  assert.equal(heads.of('q', look), '650')
  clock += 100
  found = { id: '600', ms: 0.1 }
  heads.of('q', look)
  await settle()
  assert.deepEqual(movesFrom, ['500', '650'])
  assert.equal(heads.of('q', look), '650')
  assert.equal(looks, 1)
})

test('to move on does not make a head valid for longer', async () => {
  found = { id: '500', ms: 10_000 }
  await slowRead()
  for (let tenths = 0; tenths < horizonSeconds * 10; tenths++) {
    assert.equal(heads.of('q', look), '500')
    clock += 100
    await settle()
  }
  assert.equal(heads.of('q', look), '0')
})
