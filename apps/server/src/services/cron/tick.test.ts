import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideTick, tickAfter } from './tick.ts'

const nodeStartedAt = new Date('2026-03-01T10:00:00Z')
const longAgo = '2026-01-01T00:00:00.000Z'

/** The decision about a tick at 12:00, so many seconds later. */
function decision({ lateBy = 0, isRunning = false, nodeSince = nodeStartedAt, projectSince = longAgo } = {}) {
  const tick = new Date('2026-03-01T12:00:00Z')
  return decideTick(
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

test('cron: a tick that is at most a minute late runs', () => {
  for (const lateBy of [0, 0.001, 5, 6, 59.999, 60])
    assert.deepEqual(decision({ lateBy }), run, `${lateBy} s`)
})

test('cron: a tick that is more than a minute late is skipped', () => {
  for (const lateBy of [60.001, 3600, 1e8]) assert.deepEqual(decision({ lateBy }), noTurn, `${lateBy} s`)
})

test('cron: a tick is skipped while the previous run is active', () => {
  for (const lateBy of [0, 30, 3600]) assert.deepEqual(decision({ lateBy, isRunning: true }), stillGoing)
})

test('cron: a tick from before the start of the node is dropped, unless it is very recent', () => {
  const nodeSince = new Date('2026-03-01T12:00:01Z')
  for (const lateBy of [1, 5]) assert.deepEqual(decision({ lateBy, nodeSince }), run, `${lateBy} s`)
  for (const lateBy of [5.001, 30, 3600, 1e8])
    for (const isRunning of [true, false])
      assert.deepEqual(decision({ lateBy, nodeSince, isRunning }), drop, `${lateBy} s`)
  assert.deepEqual(
    decision({ lateBy: 30, nodeSince: new Date('2026-03-01T12:00:00Z') }),
    run,
    'there in time',
  )
})

test('cron: a tick from before the project was resumed is dropped, unless it is very recent', () => {
  const projectSince = '2026-03-01T12:00:01.000Z'
  assert.deepEqual(decision({ lateBy: 3, projectSince }), run)
  for (const lateBy of [5.001, 3600])
    assert.deepEqual(decision({ lateBy, projectSince }), drop, `${lateBy} s`)
})

test('cron: the next tick is in the future, even if several were missed', () => {
  const [tick, now] = [new Date('2026-03-01T12:00:00Z'), new Date('2026-03-01T13:01:05Z')]
  assert.deepEqual(tickAfter('*/5 * * * *', now, tick), new Date('2026-03-01T13:05:00Z'))
  assert.deepEqual(tickAfter('50 seconds', now, tick), new Date('2026-03-01T13:01:40Z'))
})

test('cron: a schedule without a next tick, or an invalid one, gets a date in the far future', () => {
  const never = new Date('9999-12-31T00:00:00Z')
  for (const schedule of ['0 0 30 2 *', 'at dawn', ''])
    assert.deepEqual(tickAfter(schedule, nodeStartedAt), never)
})
