import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatTime, parseTime } from './archive-time.ts'

test('archive time: microseconds and offsets are kept', () => {
  const times = {
    '2026-01-02T03:04:05.123456Z': '2026-01-02T03:04:05.123456Z',
    '2026-01-02T03:04:05Z': '2026-01-02T03:04:05.000000Z',
    '2026-01-02 03:04:05.5+01': '2026-01-02T02:04:05.500000Z',
    '2026-01-02T03:04:05.000001-0130': '2026-01-02T04:34:05.000001Z',
    '2024-02-29t03:04:05z': '2024-02-29T03:04:05.000000Z',
    '2026-01-02T03:04:05.1234569+00:00': '2026-01-02T03:04:05.123456Z',
  }
  for (const [text, written] of Object.entries(times)) assert.equal(formatTime(parseTime(text)!), written)
})

test('archive time: a time without an offset, and what is no time, are refused', () => {
  for (const text of [
    '2026-01-02T03:04:05',
    '2026-13-02T03:04:05Z',
    '2026-02-29T03:04:05Z',
    '2030-02-30T10:00:00Z',
    '2030-04-31T10:00:00Z',
    'now',
    '',
    "2026-01-02T03:04:05Z'",
  ])
    assert.equal(parseTime(text), undefined, text)
})
