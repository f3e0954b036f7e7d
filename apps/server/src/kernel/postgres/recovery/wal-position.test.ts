import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatLsn, parseLsn, parseSegmentName, segmentAt, segmentName } from './wal-position.ts'

test('WAL position: texts and segment names as Postgres writes them', () => {
  const position = parseLsn('16/B374D848')
  assert.equal(position, 0x16b374d848)
  assert.equal(formatLsn(position), '16/B374D848')
  assert.equal(formatLsn(parseLsn('0/0')), '0/0')
  // select pg_walfile_name('16/B374D848')
  assert.equal(segmentName(1, segmentAt(position)), '0000000100000016000000B3')
  assert.deepEqual(parseSegmentName('0000000100000016000000b3'), {
    timeline: 1,
    segment: segmentAt(position),
  })
  assert.throws(() => parseLsn('nonsense'), /is not a position/)
})
