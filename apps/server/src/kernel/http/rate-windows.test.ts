import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRateWindows } from './rate-windows.ts'

test('a window allows requests up to its limit, and none until it ends', () => {
  const windows = createRateWindows()
  assert.deepEqual(windows.take('a', 2, 60_000, 0), { remaining: 1, retryAfterSeconds: 60 })
  assert.deepEqual(windows.take('a', 2, 60_000, 1000), { remaining: 0, retryAfterSeconds: 59 })
  assert.deepEqual(windows.take('a', 2, 60_000, 59_999), { remaining: -1, retryAfterSeconds: 1 })
  assert.equal(windows.take('a', 2, 60_000, 60_000).remaining, 1)
})

test('keys do not share a window', () => {
  const windows = createRateWindows()
  windows.take('a', 1, 60_000, 0)
  assert.equal(windows.take('a', 1, 60_000, 0).remaining, -1)
  assert.equal(windows.take('b', 1, 60_000, 0).remaining, 0)
})

test('a limit that changes during a window applies immediately', () => {
  const windows = createRateWindows()
  for (let count = 0; count < 5; count++) windows.take('a', 10, 60_000, 0)
  assert.equal(windows.take('a', 5, 60_000, 0).remaining, -1)
  assert.equal(windows.take('a', 6, 60_000, 0).remaining, 0)
})
