import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCounters, hourMs } from './counters.ts'

const answer = (project: string | undefined, route = '/v1/whoami/{project}') => ({
  project,
  route,
  bytesIn: 10,
  bytesOut: 100,
})

test('usage counters: only admitted requests of the data plane count', () => {
  const counters = createCounters()
  counters.countAnswer(answer('a'))
  counters.countAnswer(answer('a', '/v1/*'))
  counters.countAnswer(answer(undefined))
  counters.countAnswer(answer('a', '/api/v1/projects/{id}'))
  counters.countInvocation('a')
  const [count] = counters.nextBatch()!.counts
  assert.deepEqual(
    [count?.project, count?.requests, count?.bytesIn, count?.bytesOut, count?.invocations],
    ['a', 2, 20, 200, 1],
  )
})

test('usage counters: each hour has its own count', () => {
  let now = 5 * hourMs - 1
  const counters = createCounters({ now: () => now })
  counters.countAnswer(answer('a'))
  now += 1
  counters.countAnswer(answer('a'))
  counters.countAnswer(answer('a'))
  assert.deepEqual(
    counters.nextBatch()!.counts.map(({ hour, requests }) => [hour, requests]),
    [
      [4, 1],
      [5, 2],
    ],
  )
})

test('usage counters: a batch stays the same until it is done', () => {
  const counters = createCounters()
  counters.countAnswer(answer('a'))
  const first = counters.nextBatch()
  counters.countAnswer(answer('a'))
  assert.equal(counters.nextBatch(), first)
  assert.equal(first?.counts[0]?.requests, 1)
  counters.batchDone()
  const second = counters.nextBatch()
  assert.deepEqual([second?.number, second?.counts[0]?.requests], [2, 1])
  counters.batchDone()
  assert.equal(counters.nextBatch(), undefined)
})

test('usage counters: memory is bounded, and what is not counted is known', () => {
  const counters = createCounters({ maxCounts: 3, maxBatch: 2 })
  for (const project of ['a', 'b', 'c', 'd', 'a']) counters.countAnswer(answer(project))
  assert.equal(counters.takeLost(), 1)
  assert.equal(counters.takeLost(), 0)
  const sizes: number[] = []
  for (let batch = counters.nextBatch(); batch; batch = counters.nextBatch()) {
    sizes.push(batch.counts.length)
    counters.batchDone()
  }
  assert.deepEqual(sizes, [2, 1])
  counters.countAnswer(answer('d'))
  assert.equal(counters.takeLost(), 0)
})
