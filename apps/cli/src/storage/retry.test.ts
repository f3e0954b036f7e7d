import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failure } from '../failure.ts'
import { Refused } from './client.ts'
import { isTransient, retries, waitAfter, withRetries } from './retry.ts'

const never = new AbortController().signal
const cut = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })

test('retry: cut connections and busy servers are transient; client errors and local files are not', () => {
  for (const status of [423, 429, 502, 503, 504])
    assert.ok(isTransient(new Refused(status, {}, {})), String(status))
  for (const status of [400, 401, 403, 404, 409, 413, 500])
    assert.ok(!isTransient(new Refused(status, {}, {})), String(status))
  assert.ok(isTransient(cut))
  assert.ok(!isTransient(new Failure('file_unreadable', 'gone', null, cut)))
  assert.ok(!isTransient(Object.assign(new Error('no space'), { code: 'ENOSPC' })))
})

test('retry: waits longer each time, honours Retry-After, and gives up', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 6].map(failures => waitAfter(cut, failures)),
    [300, 1000, 2000, 4000, 8000, 8000, null],
  )
  const busy = (seconds: string) => new Refused(429, {}, { 'retry-after': seconds })
  assert.equal(waitAfter(busy('20'), 0), 20_000)
  assert.equal(waitAfter(busy('1'), 2), 2000)
  assert.equal(waitAfter(busy('86400'), 0), 60_000)
  assert.equal(waitAfter(busy('Sun, 06 Nov 1994 08:49:37 GMT'), 0), 300)
})

test('retry: progress resets the wait', async () => {
  const waits: number[] = []
  const retry = retries(never, async milliseconds => void waits.push(milliseconds))
  await retry.after(cut)
  await retry.after(cut)
  retry.succeeded()
  await retry.after(cut)
  assert.deepEqual(waits, [300, 1000, 300])
})

test('retry: permanent errors and interruptions are thrown at once', async () => {
  const refused = new Refused(404, { code: 'NoSuchKey', message: 'Object not found' }, {})
  let attempts = 0
  const work = async () => {
    attempts++
    throw refused
  }
  await assert.rejects(withRetries(never, work), refused)
  await assert.rejects(retries(AbortSignal.abort()).after(cut), cut)
  assert.equal(attempts, 1)
})
