import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inSlices } from '#src/kernel/slices.ts'
import { mergeSorted } from './merge-sorted.ts'

const byNumber = (a: number, b: number) => a - b
const randomList = () =>
  Array.from({ length: Math.floor(Math.random() * 50) }, () => Math.floor(Math.random() * 100)).sort(byNumber)

test('merge: random sorted lists give all of their items in order', async () => {
  for (let lists = 0; lists < 30; lists++) {
    const given = Array.from({ length: lists }, randomList)
    assert.deepEqual(await inSlices(mergeSorted(given, byNumber)), given.flat().sort(byNumber))
  }
})

test('merge: a slice ends after 2,000 items', () => {
  const given = [0, 1, 2].map(first => Array.from({ length: 10_000 }, (_, place) => place * 3 + first))
  const work = mergeSorted(given, byNumber)
  let slices = 0
  while (!work.next().done) slices++
  // Two lists are merged first, then the third alone, then both results.
  assert.equal(slices, 10 + 5 + 15)
})
