import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasMoreValues } from './value-count.ts'

test('value count: a value, its members and their members count', () => {
  for (const [value, count] of [
    ['text', 1],
    [null, 1],
    [[], 1],
    [[1, 2], 3],
    [{ a: [{ b: null }], c: {} }, 5],
  ] as const) {
    assert.equal(hasMoreValues(value, count), false, JSON.stringify(value))
    assert.equal(hasMoreValues(value, count - 1), true, JSON.stringify(value))
  }
})

test('value count: any depth is counted', () => {
  let value: unknown[] = []
  for (let depth = 1; depth < 100_000; depth++) value = [value]
  assert.equal(hasMoreValues(value, 99_999), true)
  assert.equal(hasMoreValues(value, 100_000), false)
})
