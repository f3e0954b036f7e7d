import assert from 'node:assert/strict'
import { test } from 'node:test'
import { segmentBytes } from './wal-position.ts'
import { WalScanner } from './wal-scanner.ts'

const pageBytes = 8192
const longHeaderBytes = 40
const shortHeaderBytes = 24

/** A commit with a main data of this length, which begins with its time. */
function commit(at: number, dataBytes: number): Buffer {
  const record = Buffer.alloc(24 + 5 + dataBytes)
  record.writeUInt32LE(record.length, 0)
  record[17] = 1
  record[24] = 254
  record.writeUInt32LE(dataBytes, 25)
  record.writeBigInt64LE(BigInt(at - 946_684_800_000_000), 29)
  return record
}

test('WAL scanner: a commit is found at the end of its record, which may be in the next segment', () => {
  const at = 1_900_000_000_123_456
  const record = commit(at, 200)
  const wal = Buffer.alloc(segmentBytes + pageBytes)
  const start = segmentBytes - 96
  // A record that fills everything before it, and another one that is continued in the next segment.
  const pages = segmentBytes / pageBytes
  const filler = start - longHeaderBytes - (pages - 1) * shortHeaderBytes
  wal.writeUInt32LE(filler, longHeaderBytes)
  let left = filler - (pageBytes - longHeaderBytes)
  for (let page = 1; page < pages; page++) {
    wal.writeUInt16LE(1, page * pageBytes + 2)
    wal.writeUInt32LE(left, page * pageBytes + 16)
    left -= pageBytes - shortHeaderBytes
  }
  record.copy(wal, start)
  wal.writeUInt16LE(1, segmentBytes + 2)
  wal.writeUInt32LE(record.length - 96, segmentBytes + 16)
  record.copy(wal, segmentBytes + longHeaderBytes, 96)

  const found: number[] = []
  const scanner = new WalScanner(0, { onTransactionEnd: time => found.push(time) })
  scanner.push(wal.subarray(0, segmentBytes))
  assert.deepEqual(found, [], 'recovery would not stop there')
  scanner.push(wal.subarray(segmentBytes))
  assert.deepEqual(found, [at])
})
