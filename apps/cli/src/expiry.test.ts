import assert from 'node:assert/strict'
import { test } from 'node:test'
import { branchExpiry, expiryTime } from './expiry.ts'
import { Failure } from './failure.ts'

const now = Date.parse('2026-01-01T00:00:00Z')

test('expiry: durations count from now; a month is 30 days and a year 365', () => {
  assert.equal(expiryTime('12h', now), '2026-01-01T12:00:00.000Z')
  assert.equal(expiryTime('90d', now), '2026-04-01T00:00:00.000Z')
  assert.equal(expiryTime('2w', now), '2026-01-15T00:00:00.000Z')
  assert.equal(expiryTime('1m', now), '2026-01-31T00:00:00.000Z')
  assert.equal(expiryTime('1y', now), '2027-01-01T00:00:00.000Z')
})

test('expiry: a duration of a branch counts by the clock of the platform, and m is minutes', () => {
  for (const span of ['30m', '12h', '7d', '2w'])
    assert.deepEqual(branchExpiry(span, now), { expires_in: span })
  assert.deepEqual(branchExpiry('2026-06-01T12:00:00+02:00', now), { expires_at: '2026-06-01T10:00:00.000Z' })
  assert.throws(() => branchExpiry('1y', now), /--expires cannot be "1y"/)
  assert.throws(() => branchExpiry('2020-01-01T00:00:00Z', now), /is in the past/)
})

test('expiry: an RFC 3339 time keeps its offset', () => {
  assert.equal(expiryTime('2026-06-01T12:00:00+02:00', now), '2026-06-01T10:00:00.000Z')
})

test('expiry: rejects a missing unit, a missing offset, a past time and a time after the year 9999', () => {
  for (const text of [
    '90',
    'soon',
    '0d',
    '-1d',
    '90 d',
    '2026-06-01',
    '2026-06-01T12:00:00',
    '2020-01-01T00:00:00Z',
    '999999y',
  ])
    assert.throws(() => expiryTime(text, now), Failure, text)
})
