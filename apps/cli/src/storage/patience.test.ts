import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failure } from '../failure.ts'
import { isPassing, patience, persistently, waitAfter } from './patience.ts'
import { Refused } from './wire.ts'

const never = new AbortController().signal
const cut = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })

test('cut connections and busy servers pass; refusals and local files do not', () => {
  for (const status of [423, 429, 502, 503, 504])
    assert.ok(isPassing(new Refused(status, {}, {})), String(status))
  for (const status of [400, 401, 403, 404, 409, 413, 500])
    assert.ok(!isPassing(new Refused(status, {}, {})), String(status))
  assert.ok(isPassing(cut))
  assert.ok(!isPassing(new Failure('file_unreadable', 'gone', null, cut)))
  assert.ok(!isPassing(Object.assign(new Error('no space'), { code: 'ENOSPC' })))
})

test('it tries again ever later or when it is asked to, and gives up in the end', () => {
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

test('something that moved makes the next failure the first one again', async () => {
  const patient = patience(never)
  const begun = performance.now()
  for (let i = 0; i < 3; i++) {
    await patient.after(cut)
    patient.restored()
  }
  // Three times the first wait; without it the third alone would be longer.
  assert.ok(performance.now() - begun < 2000)
})

test('what will not pass, or comes after an interruption, is thrown at once', async () => {
  const refused = new Refused(404, { code: 'NoSuchKey', message: 'Object not found' }, {})
  let attempts = 0
  const work = async () => {
    attempts++
    throw refused
  }
  await assert.rejects(persistently(never, work), refused)
  await assert.rejects(patience(AbortSignal.abort()).after(cut), cut)
  assert.equal(attempts, 1)
})
