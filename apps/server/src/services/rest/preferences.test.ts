import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appliedHeader, preferencesFrom } from './preferences.ts'

test('preferences: a header may have several, in any order, with or without spaces', () => {
  const { representation, resolution, count, isDefaultForMissing } = preferencesFrom(
    'return=representation,resolution=merge-duplicates, count=exact ,missing=default',
  )
  assert.deepEqual(
    [representation, resolution, count, isDefaultForMissing],
    ['representation', 'merge-duplicates', 'exact', true],
  )
})

test('preferences: there are none by default', () => {
  const { representation, rollsBack, maxAffected, timeZone } = preferencesFrom(undefined)
  assert.deepEqual(
    [representation, rollsBack, maxAffected, timeZone],
    ['minimal', false, undefined, undefined],
  )
})

test('preferences: unknown ones are ignored, or refused with strict handling', () => {
  assert.equal(preferencesFrom('return=everything, fly=high').representation, 'minimal')
  for (const header of [
    'handling=strict, fly=high',
    'timezone=Mars/Olympus,handling=strict',
    'handling=strict,max-affected=-1',
  ])
    assert.throws(() => preferencesFrom(header), { code: 'PGRST122', status: 400 }, header)
})

test('preferences: only the exact name of a time zone is one', () => {
  const zones = new Set(['Europe/Paris'])
  assert.equal(preferencesFrom('timezone=Europe/Paris', zones).timeZone, 'Europe/Paris')
  for (const zone of ['europe/paris', 'Mars/Olympus', '+02:00', 'UTC+2', ''])
    assert.equal(preferencesFrom(`timezone=${zone}`, zones).timeZone, undefined, zone)
})

test('preferences: max-affected applies only with strict handling', () => {
  assert.equal(preferencesFrom('max-affected=3').maxAffected, undefined)
  assert.equal(preferencesFrom('max-affected=3,handling=strict').maxAffected, 3)
})

test('preferences: Preference-Applied names those that apply to the request', () => {
  const preferences = preferencesFrom(
    'count=exact, handling=strict, timezone=Europe/Paris, return=representation',
    new Set(['Europe/Paris']),
  )
  assert.equal(
    appliedHeader(preferences, ['return', 'count', 'timezone']),
    'return=representation, count=exact, timezone=Europe/Paris',
  )
  assert.equal(appliedHeader(preferencesFrom('fly=high'), ['return']), undefined)
})

test('preferences: names of Object.prototype are not preferences', () => {
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    assert.equal(preferencesFrom(`${name}=x`).representation, 'minimal')
    assert.throws(() => preferencesFrom(`handling=strict,${name}`), { code: 'PGRST122' })
  }
})

test('preferences: a header with too many is refused before any is checked', () => {
  const zones = (count: number) => Array(count).fill('timezone=Mars/Olympus').join()
  assert.equal(preferencesFrom(zones(50)).timeZone, undefined)
  assert.throws(() => preferencesFrom(zones(51)), { code: 'invalid_request', status: 400 })
})
