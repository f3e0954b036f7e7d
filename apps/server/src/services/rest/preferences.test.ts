import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appliedHeader, preferencesFrom } from './preferences.ts'

test('several preferences in one header, in any order, with or without blanks', () => {
  const { representation, resolution, count, isDefaultForMissing } = preferencesFrom(
    'return=representation,resolution=merge-duplicates, count=exact ,missing=default',
  )
  assert.deepEqual(
    [representation, resolution, count, isDefaultForMissing],
    ['representation', 'merge-duplicates', 'exact', true],
  )
})

test('nothing is preferred by default', () => {
  const { representation, rollsBack, maxAffected, timeZone } = preferencesFrom(undefined)
  assert.deepEqual(
    [representation, rollsBack, maxAffected, timeZone],
    ['minimal', false, undefined, undefined],
  )
})

test('what is not understood is ignored, or refused when handling is strict', () => {
  assert.equal(preferencesFrom('return=everything, fly=high').representation, 'minimal')
  for (const header of [
    'handling=strict, fly=high',
    'timezone=Mars/Olympus,handling=strict',
    'handling=strict,max-affected=-1',
  ])
    assert.throws(() => preferencesFrom(header), { code: 'PGRST122', status: 400 }, header)
})

test('max-affected counts only with strict handling', () => {
  assert.equal(preferencesFrom('max-affected=3').maxAffected, undefined)
  assert.equal(preferencesFrom('max-affected=3,handling=strict').maxAffected, 3)
})

test('Preference-Applied names what was honoured and means something here', () => {
  const preferences = preferencesFrom(
    'count=exact, handling=strict, timezone=Europe/Paris, return=representation',
  )
  assert.equal(
    appliedHeader(preferences, ['return', 'count', 'timezone']),
    'return=representation, count=exact, timezone=Europe/Paris',
  )
  assert.equal(appliedHeader(preferencesFrom('fly=high'), ['return']), undefined)
})

test('names that every object has are no preferences', () => {
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    assert.equal(preferencesFrom(`${name}=x`).representation, 'minimal')
    assert.throws(() => preferencesFrom(`handling=strict,${name}`), { code: 'PGRST122' })
  }
})

test('a header of more preferences than there are is refused before any is looked at', () => {
  const zones = (count: number) => Array(count).fill('timezone=Mars/Olympus').join()
  assert.equal(preferencesFrom(zones(50)).timeZone, undefined)
  assert.throws(() => preferencesFrom(zones(51)), { code: 'invalid_request', status: 400 })
})
