import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLiveness } from './liveness.ts'

test('node liveness: a node is dead after the maximum number of missed heartbeats, not earlier', () => {
  const liveness = createLiveness(2)
  liveness.seen('a')
  liveness.seen('b')
  assert.deepEqual(liveness.tick(), [])
  assert.deepEqual(liveness.tick(), [])
  liveness.seen('b')
  assert.deepEqual(liveness.tick(), ['a'])
  assert.deepEqual(liveness.tick(), [])
  assert.deepEqual(liveness.tick(), ['b'])
  assert.deepEqual(liveness.tick(), [])
})

test('node liveness: the first message of a dead node reports it as returned', () => {
  const liveness = createLiveness(0)
  assert.equal(liveness.seen('a'), 'new')
  assert.equal(liveness.seen('a'), 'known')
  assert.deepEqual(liveness.tick(), ['a'])
  assert.equal(liveness.seen('a'), 'returned')
  assert.equal(liveness.seen('a'), 'known')
})

test('node liveness: a node that shut down is not declared dead, and is new when it comes back', () => {
  const liveness = createLiveness(0)
  liveness.seen('a')
  liveness.remove('a')
  assert.deepEqual(liveness.tick(), [])
  assert.equal(liveness.seen('a'), 'new')
})

test('node liveness: after forgetDead no node is reported as returned', () => {
  const liveness = createLiveness(0)
  liveness.seen('a')
  liveness.tick()
  liveness.forgetDead()
  assert.equal(liveness.seen('a'), 'new')
})

test('node liveness: only the latest 1000 dead nodes are remembered', () => {
  const liveness = createLiveness(0)
  for (let node = 0; node < 1001; node++) liveness.seen(String(node))
  assert.equal(liveness.tick().length, 1001)
  assert.equal(liveness.seen('0'), 'new')
  assert.equal(liveness.seen('1'), 'returned')
})
