import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dayMs, fillBuckets } from './buckets.ts'
import { hourMs } from './counters.ts'

const row = (start: number, requests: number, storage_bytes: number) => ({
  bucket_start: new Date(start).toISOString(),
  requests,
  bytes_in: 0,
  bytes_out: 0,
  function_invocations: 0,
  storage_bytes,
})
const all = { from: Number.NEGATIVE_INFINITY, daysBefore: 0, limit: 100 }
const shown = (buckets: ReturnType<typeof fillBuckets>) =>
  buckets.map(({ bucket_start, requests, storage_bytes }) => [
    Date.parse(bucket_start) / hourMs,
    requests,
    storage_bytes,
  ])

test('usage buckets: stored files have a bucket in every hour, and an hour without usage has none', () => {
  const rows = [row(9 * hourMs, 4, 0), row(6 * hourMs, 3, 70), row(2 * hourMs, 2, 0)]
  assert.deepEqual(shown(fillBuckets(rows, { ...all, to: 11 * hourMs })), [
    [9, 4, 0],
    [8, 0, 70],
    [7, 0, 70],
    [6, 3, 70],
    [2, 2, 0],
  ])
})

test('usage buckets: `from` is inclusive and `to` exclusive, also for hours without a row', () => {
  const rows = [row(2 * hourMs, 1, 70)]
  const starts = (from: number, to: number) =>
    fillBuckets(rows, { ...all, from, to }).map(({ bucket_start }) => Date.parse(bucket_start) / hourMs)
  assert.deepEqual(starts(4 * hourMs, 6 * hourMs), [5, 4])
  assert.deepEqual(starts(4 * hourMs + 1, 6 * hourMs + 1), [6, 5])
  assert.deepEqual(starts(4 * hourMs, 4 * hourMs), [])
  assert.deepEqual(starts(0, 3 * hourMs), [2])
})

test('usage buckets: the limit counts filled hours', () => {
  const rows = [row(9 * hourMs, 1, 70), row(hourMs, 1, 50)]
  assert.deepEqual(shown(fillBuckets(rows, { ...all, to: 11 * hourMs, limit: 3 })), [
    [10, 0, 70],
    [9, 1, 70],
    [8, 0, 50],
  ])
})

test('usage buckets: old buckets are days', () => {
  const rows = [row(10 * dayMs + hourMs, 5, 70), row(7 * dayMs, 4, 60)]
  const range = { ...all, to: 10 * dayMs + 2 * hourMs, daysBefore: 10 * dayMs }
  assert.deepEqual(shown(fillBuckets(rows, range)), [
    [241, 5, 70],
    [240, 0, 60],
    [216, 0, 60],
    [192, 0, 60],
    [168, 4, 60],
  ])
})
