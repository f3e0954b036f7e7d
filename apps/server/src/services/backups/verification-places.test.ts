import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createVerificationPlaces, GaveWay } from './verification-places.ts'

/** The limit is only for a test that would wait forever. */
const never = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    const limit = setTimeout(reject, 120_000, new Error('nothing has ended it'))
    signal.addEventListener('abort', () => {
      clearTimeout(limit)
      reject(signal.reason)
    })
  })

test('verification places: of two that take long, the later one gives way', async () => {
  const places = createVerificationPlaces(2, 1)
  const stop = new AbortController()
  const first = places.run(stop.signal, never)
  while (!places.isSlowOneRunning()) await sleep(1)
  assert.equal(places.left(), 1)
  await assert.rejects(places.run(stop.signal, never), GaveWay)
  assert.equal(places.left(), 1)
  assert.equal(await places.run(stop.signal, async () => 'prompt'), 'prompt')
  assert.ok(places.isSlowOneRunning())
  stop.abort(new Error('it takes too long'))
  await assert.rejects(first, /it takes too long/)
  assert.equal(places.left(), 2)
  assert.equal(places.isSlowOneRunning(), false)
})

test('verification places: one that ends in time leaves the place of those that take long', async () => {
  const places = createVerificationPlaces(2, 60_000)
  const { promise, resolve } = Promise.withResolvers<string>()
  const run = places.run(new AbortController().signal, () => promise)
  assert.deepEqual([places.left(), places.isSlowOneRunning()], [1, false])
  resolve('verified')
  assert.equal(await run, 'verified')
  assert.equal(places.left(), 2)
})
