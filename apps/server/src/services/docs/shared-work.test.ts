import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedWork } from './shared-work.ts'

test('shared work: one run at a time, and no caller gets a result that started before its call', async () => {
  let begun = 0
  let atOnce = 0
  const work = sharedWork(async () => {
    const mine = ++begun
    assert.equal(++atOnce, 1)
    await sleep(20)
    atOnce--
    return mine
  })
  const first = work('a')
  const rest = Promise.all(Array.from({ length: 50 }, () => work('a')))
  assert.equal(await first, 1)
  assert.deepEqual([...new Set(await rest)], [2])
  assert.equal(await work('a'), 3)
})

test('shared work: a failure does not affect callers that wait for the next run', async () => {
  let begun = 0
  const work = sharedWork(async () => {
    if (++begun === 1) throw new Error('broken')
    return begun
  })
  const results = await Promise.allSettled([work('a'), work('a'), work('b')])
  assert.deepEqual(
    results.map(each => (each.status === 'fulfilled' ? each.value : each.reason.message)),
    ['broken', 3, 2],
  )
})
