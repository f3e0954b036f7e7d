import assert from 'node:assert/strict'
import { test } from 'node:test'
import { branchExpiryTime, expiryTime } from './expiry.ts'
import { Failure } from './failure.ts'

const now = Date.parse('2026-01-01T00:00:00Z')

test('expiry: durations count from now; a month is 30 days and a year 365', () => {
  assert.equal(expiryTime('12h', now), '2026-01-01T12:00:00.000Z')
  assert.equal(expiryTime('90d', now), '2026-04-01T00:00:00.000Z')
  assert.equal(expiryTime('2w', now), '2026-01-15T00:00:00.000Z')
  assert.equal(expiryTime('1m', now), '2026-01-31T00:00:00.000Z')
  assert.equal(expiryTime('1y', now), '2027-01-01T00:00:00.000Z')
})

test('expiry: of a branch, m is minutes as in the API, and months and years are not offered', () => {
  assert.equal(branchExpiryTime('30m', now), '2026-01-01T00:30:00.000Z')
  assert.equal(branchExpiryTime('12h', now), '2026-01-01T12:00:00.000Z')
  assert.equal(branchExpiryTime('7d', now), '2026-01-08T00:00:00.000Z')
  assert.equal(branchExpiryTime('2w', now), '2026-01-15T00:00:00.000Z')
  assert.throws(() => branchExpiryTime('1y', now), /--expires cannot be "1y"/)
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
