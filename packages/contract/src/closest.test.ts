import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closest, distance } from './closest.ts'

test('a slip of the finger finds its word', () => {
  const words = ['start', 'stop', 'status', 'projects']
  assert.equal(closest('strat', words), 'start')
  assert.equal(closest('sttaus', words), 'status')
  assert.equal(closest('proj', words), 'projects')
  assert.equal(closest('PROJECTS', words), 'projects')
})

test('what resembles nothing finds nothing', () => {
  assert.equal(closest('frobnicate', ['start', 'stop']), undefined)
  assert.equal(closest('x', []), undefined)
})

test('a swap counts as one edit', () => {
  assert.equal(distance('lsit', 'list'), 1)
  assert.equal(distance('', 'abc'), 3)
  assert.equal(distance('same', 'same'), 0)
})
