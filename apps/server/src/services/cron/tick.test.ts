import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tickAfter, verdictOn } from './tick.ts'

const nodeStartedAt = new Date('2026-03-01T10:00:00Z')
const longAgo = '2026-01-01T00:00:00.000Z'

/** What becomes of a tick at 12:00, looked at so many seconds later. */
function verdict({ lateBy = 0, isRunning = false, nodeSince = nodeStartedAt, projectSince = longAgo } = {}) {
  const tick = new Date('2026-03-01T12:00:00Z')
  return verdictOn(
    {
      next_run_at: tick.toISOString(),
      now: new Date(tick.getTime() + lateBy * 1000).toISOString(),
      project_changed_at: projectSince,
      is_running: isRunning,
    },
    nodeSince,
  )
}
const run = { kind: 'run' }
const drop = { kind: 'drop' }
const stillGoing = { kind: 'skip', why: 'the run before was still going' }
const noTurn = { kind: 'skip', why: 'it found no turn within 60 seconds of its time' }

test('a tick in time, and one that waited for up to a minute, is run', () => {
  for (const lateBy of [0, 0.001, 5, 6, 59.999, 60]) assert.deepEqual(verdict({ lateBy }), run, `${lateBy} s`)
})

test('a tick that waited for more than a minute is skipped', () => {
  for (const lateBy of [60.001, 3600, 1e8]) assert.deepEqual(verdict({ lateBy }), noTurn, `${lateBy} s`)
})

test('a tick is skipped while the run before is going, however late it is', () => {
  for (const lateBy of [0, 30, 3600]) assert.deepEqual(verdict({ lateBy, isRunning: true }), stillGoing)
})

test('a tick from before the node was there is dropped, but for one a moment ago', () => {
  const nodeSince = new Date('2026-03-01T12:00:01Z')
  for (const lateBy of [1, 5]) assert.deepEqual(verdict({ lateBy, nodeSince }), run, `${lateBy} s`)
  for (const lateBy of [5.001, 30, 3600, 1e8])
    for (const isRunning of [true, false])
      assert.deepEqual(verdict({ lateBy, nodeSince, isRunning }), drop, `${lateBy} s`)
  assert.deepEqual(verdict({ lateBy: 30, nodeSince: new Date('2026-03-01T12:00:00Z') }), run, 'there in time')
})

test('a tick from before the project was resumed is dropped, but for one a moment ago', () => {
  const projectSince = '2026-03-01T12:00:01.000Z'
  assert.deepEqual(verdict({ lateBy: 3, projectSince }), run)
  for (const lateBy of [5.001, 3600]) assert.deepEqual(verdict({ lateBy, projectSince }), drop, `${lateBy} s`)
})

test('the tick after a tick is the next one of its schedule, however many have passed', () => {
  const [tick, now] = [new Date('2026-03-01T12:00:00Z'), new Date('2026-03-01T13:01:05Z')]
  assert.deepEqual(tickAfter('*/5 * * * *', now, tick), new Date('2026-03-01T13:05:00Z'))
  assert.deepEqual(tickAfter('50 seconds', now, tick), new Date('2026-03-01T13:01:40Z'))
})

test('a schedule without a further tick, or one that cannot be read, has it in the last year there is', () => {
  const never = new Date('9999-12-31T00:00:00Z')
  for (const schedule of ['0 0 30 2 *', 'at dawn', ''])
    assert.deepEqual(tickAfter(schedule, nodeStartedAt), never)
})
