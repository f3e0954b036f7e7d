import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Backoff } from './backoff.ts'

const settings = { startMs: 1000, capMs: 30_000, resetMs: 60_000 }

test('back-off: each crash doubles the pause, up to the cap', () => {
  const backoff = new Backoff(settings)
  const pauses = Array.from({ length: 7 }, () => {
    backoff.crashed('a', 10, 0)
    return backoff.pauseOf('a', 0)
  })
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
})

test('back-off: the pause ends, other projects have none, and a healthy run starts again at the first pause', () => {
  const backoff = new Backoff(settings)
  backoff.crashed('a', 10, 0)
  backoff.crashed('a', 10, 0)
  assert.equal(backoff.pauseOf('a', 1500), 500)
  assert.equal(backoff.pauseOf('a', 2000), 0)
  assert.equal(backoff.pauseOf('b', 0), 0)
  backoff.crashed('a', 60_000, 0)
  assert.equal(backoff.pauseOf('a', 0), 1000)
  backoff.reset('a')
  assert.equal(backoff.pauseOf('a', 0), 0)
})
