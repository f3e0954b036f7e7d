import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedReading } from './shared-reading.ts'

/** Readings that the test ends. */
function readings(recentMs: number) {
  const begun: ReturnType<typeof Promise.withResolvers<number>>[] = []
  const shared = sharedReading(() => {
    const reading = Promise.withResolvers<number>()
    begun.push(reading)
    return reading.promise
  }, recentMs)
  return { begun, shared }
}

test('shared reading: callers share a reading that is slow, and its result while it is recent', async () => {
  const { begun, shared } = readings(1_000_000)
  const results = [shared.get(), shared.get()]
  begun[0]!.resolve(1)
  assert.deepEqual(await Promise.all([...results, shared.get()]), [1, 1, 1])
  assert.equal(begun.length, 1)
})

test('shared reading: after it has expired, callers share the next one, which waits for the one that runs', async () => {
  const { begun, shared } = readings(0)
  const before = shared.get()
  shared.expire()
  const after = [shared.get(), shared.get()]
  assert.equal(begun.length, 1, 'one at a time')
  begun[0]!.reject(new Error('failed'))
  await assert.rejects(before)
  await new Promise(setImmediate)
  assert.equal(begun.length, 2)
  begun[1]!.resolve(2)
  assert.deepEqual(await Promise.all(after), [2, 2])
  const third = shared.get()
  begun[2]!.resolve(3)
  assert.equal(await third, 3, 'it is not recent')
})
