import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keyring } from './keys.ts'
import { isSealed, sealer } from './sealed.ts'

const { seal, open } = sealer(keyring('one secret')('sealed'))

test('a sealed value opens with the context it was sealed with', () => {
  const stored = seal('hunter2 — ü', 'project:1:jwt_secret')
  assert.ok(isSealed(stored))
  assert.ok(!stored.includes('hunter2'))
  assert.equal(open(stored, 'project:1:jwt_secret'), 'hunter2 — ü')
})

test('the same text is sealed differently every time', () => {
  assert.notEqual(seal('x', 'c'), seal('x', 'c'))
})

test('a value moved to another column or project does not open', () => {
  const stored = seal('x', 'project:1:jwt_secret')
  assert.throws(() => open(stored, 'project:1:anon_key'))
  assert.throws(() => open(stored, 'project:2:jwt_secret'))
})

test('a flipped bit or another key does not open', () => {
  const stored = seal('x', 'c')
  // Not the last character: base64url may ignore some of its bits.
  const flipped = stored.slice(0, -3) + (stored.at(-3) === 'A' ? 'B' : 'A') + stored.slice(-2)
  assert.throws(() => open(flipped, 'c'))
  assert.throws(() => sealer(keyring('another')('sealed')).open(stored, 'c'))
})

test('a value without the seal prefix is returned unchanged', () => {
  assert.equal(open('plain text of an older version', 'c'), 'plain text of an older version')
})

test('each purpose has a key of its own', () => {
  const derive = keyring('one secret')
  assert.notDeepEqual(derive('sealed'), derive('platform token'))
  assert.deepEqual(derive('sealed'), keyring('one secret')('sealed'))
})
