import assert from 'node:assert/strict'
import { test } from 'node:test'
import { longestMs } from './time-limit.ts'

const minuteMs = 60_000

test('backups: a task has more time for a backup that took longer, and for its bytes and files', () => {
  const none = { ms: 0, bytes: 0, files: 0 }
  assert.equal(longestMs(none), 15 * minuteMs)
  assert.equal(longestMs({ ...none, ms: 1000 }), 15 * minuteMs + 50_000)
  assert.equal(longestMs({ ...none, bytes: 3_600_000_000 }), 75 * minuteMs)
  assert.equal(longestMs({ ...none, files: 120 }), 16 * minuteMs)
})

test('backups: the time of a task is one that a timer can have', () => {
  assert.equal(longestMs({ ms: -1000, bytes: 0, files: 0 }), 15 * minuteMs)
  assert.equal(longestMs({ ms: 0, bytes: 0, files: 1e9 }), 2 ** 31 - 1)
})
