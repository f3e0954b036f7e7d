import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatTime } from './archive-time.ts'
import type { BaseBackup } from './base-backup.ts'
import {
  type Catalogue,
  planLatest,
  planRecovery,
  recoveryGaps,
  recoveryWindows,
  type StoredSegment,
  type WalRun,
} from './catalogue.ts'
import { formatLsn, segmentBytes, segmentName } from './wal-position.ts'

const time = (minute: number) => Date.UTC(2030, 0, 31, 10, minute) * 1000

/** A transaction ends in each segment, in the minute with its number plus `later`. */
function run(timeline: number, first: number, last: number, later = 0): WalRun {
  const segments: StoredSegment[] = []
  for (let number = first; number <= last; number++) {
    const times = { first: time(number + later), last: time(number + later) }
    segments.push({ timeline, number, bytes: segmentBytes, times, name: segmentName(timeline, number) })
  }
  return { timeline, segments }
}

function baseBackup(id: string, timeline: number, segment: number, minute: number): BaseBackup {
  const at = formatTime(time(minute))
  const [startLsn, endLsn] = [segment * segmentBytes, segment * segmentBytes + 1000].map(formatLsn)
  const databases = [{ oid: 5, name: 'postgres' }]
  const lsns = { startLsn: startLsn!, endLsn: endLsn! }
  return {
    id,
    timeline,
    ...lsns,
    startedAt: at,
    finishedAt: at,
    databases,
    parts: [],
    fileList: { bytes: 0, storedBytes: 0, mac: '' },
  }
}

test('recovery catalogue: the latest time is that of the latest commit, not of the base backup that ended last', () => {
  // The instance was cut over to timeline 2, whose base backup ended last. After the way back, timeline 1 continues.
  const catalogue: Catalogue = {
    baseBackups: [baseBackup('1', 1, 3, 3), baseBackup('2', 1, 4, 4), baseBackup('of timeline 2', 2, 5, 6)],
    damaged: [],
    runs: [run(1, 3, 9), run(2, 5, 6, 1)],
  }
  const { baseBackup: chosen, segments } = planLatest(catalogue)
  assert.equal(chosen.id, '2')
  const { timeline, number } = segments.at(-1)!
  assert.deepEqual([timeline, number], [1, 9])
})

test('recovery catalogue: without commits after a base backup, the latest time is its end', () => {
  const catalogue: Catalogue = {
    baseBackups: [baseBackup('1', 1, 3, 3), baseBackup('2', 1, 5, 9)],
    damaged: [],
    runs: [run(1, 3, 5)],
  }
  assert.equal(planLatest(catalogue).baseBackup.id, '2')
})

test('recovery catalogue: a gap where the instance was recovered to another time is no loss of WAL', () => {
  const at = (minute: number) => formatTime(time(minute))
  const reasonAt = (catalogue: Catalogue, minute: number) => {
    try {
      return planRecovery(catalogue, at(minute), time(60)).baseBackup.id
    } catch (error) {
      return (error as Error).message
    }
  }
  const missing = 'The WAL of this time is missing in the archive.'
  const recovered = 'This time cannot be recovered, because the instance was recovered to another time then.'
  // WAL was lost between two segments of timeline 1. Then the instance was recovered to a time in segment 6.
  const catalogue: Catalogue = {
    baseBackups: [baseBackup('1', 1, 1, 1), baseBackup('2', 1, 5, 5), baseBackup('3', 2, 7, 20)],
    damaged: [],
    runs: [run(1, 1, 2), run(1, 5, 8), run(2, 6, 9, 14)],
  }
  assert.deepEqual(recoveryGaps(catalogue), [
    { from: at(2), to: at(5), isLoss: true },
    { from: at(8), to: at(20), isLoss: false },
  ])
  assert.deepEqual(
    [1, 3, 7, 10, 22].map(minute => reasonAt(catalogue, minute)),
    ['1', missing, '2', recovered, '3'],
  )
  // Before the first base backup of timeline 2, and WAL that was lost after it.
  const earlier = { ...catalogue, baseBackups: catalogue.baseBackups.slice(0, 2) }
  assert.equal(reasonAt(earlier, 22), recovered)
  const later: Catalogue = {
    baseBackups: [...catalogue.baseBackups, baseBackup('4', 2, 30, 44)],
    damaged: [],
    runs: [...catalogue.runs, run(2, 30, 31, 14)],
  }
  assert.deepEqual(
    recoveryGaps(later).map(({ isLoss }) => isLoss),
    [true, false, true],
  )
  assert.deepEqual([reasonAt(later, 10), reasonAt(later, 30)], [recovered, missing])
})

test('recovery catalogue: the work of a plan grows with the archive, and not with its square', () => {
  let reads = 0
  const { segments } = run(1, 1, 2000)
  const counted = segments.map(segment => ({
    ...segment,
    get times() {
      reads++
      return segment.times
    },
  }))
  const catalogue: Catalogue = {
    baseBackups: Array.from({ length: 500 }, (_, at) => baseBackup(`${at}`, 1, 1 + 4 * at, 1 + 4 * at)),
    damaged: [],
    runs: [{ timeline: 1, segments: counted }],
  }
  assert.equal(recoveryWindows(catalogue).length, 1)
  const target = formatTime(time(1000) + 1)
  const { baseBackup: chosen, segments: replayed } = planRecovery(catalogue, target, time(3000))
  assert.deepEqual([chosen.id, replayed[0]?.number, replayed.at(-1)?.number], ['249', 997, 1001])
  assert.equal(planLatest(catalogue).baseBackup.id, '499')
  assert.ok(reads < 3 * counted.length, `${reads} reads`)
})
