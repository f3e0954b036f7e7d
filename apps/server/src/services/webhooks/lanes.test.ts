import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { createLanes, type LaneResult, type Lanes } from './lanes.ts'

const bounds = { all: 10, perProject: 8 }
const projectOf = (webhook: string) => webhook.split('/')[0]!

/** Starts as many deliveries as the webhook may have, and returns their number. */
function fill(lanes: Lanes, webhook: string): number {
  let count = 0
  for (; lanes.free(webhook, projectOf(webhook)) > 0; count++) lanes.start(webhook, projectOf(webhook))
  return count
}
function run(lanes: Lanes, webhook: string, result: LaneResult, times = 1): void {
  for (let n = 0; n < times; n++) {
    lanes.start(webhook, projectOf(webhook))
    lanes.end(webhook, result)
  }
}
const many = (count: number, name: (n: number) => string) => Array.from({ length: count }, (_, n) => name(n))
const fillAll = (lanes: Lanes, webhooks: readonly string[]) =>
  webhooks.reduce((sum, webhook) => sum + fill(lanes, webhook), 0)

test('lanes: a webhook begins with one delivery at a time and gets twice as many after each answer', () => {
  const lanes = createLanes(bounds)
  for (const expected of [1, 2, 4, 8, 8]) {
    equal(lanes.free('p/a', 'p'), expected)
    run(lanes, 'p/a', 'answered')
  }
  run(lanes, 'p/a', 'failed')
  equal(lanes.free('p/a', 'p'), 1)
})

test('lanes: webhooks that have not answered leave places to those that have', () => {
  const lanes = createLanes(bounds)
  equal(
    fillAll(
      lanes,
      many(20, n => `p${n}/new`),
    ),
    8,
  )
  run(lanes, 'q/proven', 'answered', 5)
  equal(lanes.free('q/proven', 'q'), 8)
})

test('lanes: new webhooks of one project leave places to those of others', () => {
  const lanes = createLanes(bounds)
  equal(
    fillAll(
      lanes,
      many(20, n => `p/new${n}`),
    ),
    4,
  )
  equal(fill(lanes, 'q/new'), 1)
})

test('lanes: webhooks that time out use at most half of the places', () => {
  const lanes = createLanes(bounds)
  const dead = many(20, n => `p${n}/dead`)
  for (const webhook of dead) run(lanes, webhook, 'timed_out')
  equal(fillAll(lanes, dead), 5)
  equal(fill(lanes, 'q/new'), 1)
})

test('lanes: a webhook whose attempt takes long counts among those that time out', () => {
  let now = 0
  const lanes = createLanes(bounds, () => now)
  const waiting = many(6, n => `p${n}/proven`)
  for (const webhook of waiting) {
    run(lanes, webhook, 'answered', 3)
    lanes.start(webhook, projectOf(webhook))
  }
  run(lanes, 'q/dead', 'timed_out')
  equal(lanes.free('q/dead', 'q'), 1)
  now = 3001
  equal(lanes.free('q/dead', 'q'), 0)
  lanes.end(waiting[0]!, 'answered')
  equal(lanes.free('q/dead', 'q'), 0)
  lanes.end(waiting[1]!, 'answered')
  equal(lanes.free('q/dead', 'q'), 1)
})

test('lanes: with a single place, all webhooks take turns', () => {
  const lanes = createLanes({ all: 1, perProject: 1 })
  equal(fill(lanes, 'p/new'), 1)
  equal(lanes.free('q/other', 'q'), 0)
  lanes.end('p/new', 'timed_out')
  equal(lanes.free('p/new', 'p'), 1)
  equal(lanes.free('q/other', 'q'), 1)
})

test('lanes: a place that was reserved and not used changes nothing', () => {
  const lanes = createLanes(bounds)
  run(lanes, 'p/a', 'unused')
  equal(lanes.free('p/a', 'p'), 1)
})
