import assert from 'node:assert/strict'
import { test } from 'node:test'
import { remember } from './remember.ts'

test('remember: the entry that was added first is removed when the map is full', () => {
  const entries = new Map<string, number>()
  for (const [key, value] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
    ['c', 4],
  ] as const)
    remember(entries, key, value, 2)
  assert.deepEqual(Object.fromEntries(entries), { a: 3, c: 4 })
})
