import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { isSealed, sealer } from '#src/kernel/crypto/sealed.ts'
import { mergeSettings, redact, sealSettings, settingsContext } from './settings-secrets.ts'

const box = sealer(keyring('x')('sealed'))
const settings = {
  smtp: { host: 'mail', password: 'hunter2' },
  providers: [{ client_id: 'a', client_secret: 'b' }],
  min_password_length: 8,
  exposed_schemas: ['public'],
}

test('settings: every secret at any depth is shown as [redacted], and other values are unchanged', () => {
  assert.deepEqual(redact(settings), {
    smtp: { host: 'mail', password: '[redacted]' },
    providers: [{ client_id: 'a', client_secret: '[redacted]' }],
    min_password_length: 8,
    exposed_schemas: ['public'],
  })
})

test('settings: secrets are encrypted once and decrypt only in their project', () => {
  const first = sealSettings(settings, 'p1', box)
  assert.equal(first.sealed, 2)
  const { password } = first.settings['smtp'] as { password: string }
  assert.ok(isSealed(password))
  assert.equal(box.open(password, settingsContext('p1')), 'hunter2')
  assert.throws(() => box.open(password, settingsContext('p2')))
  assert.deepEqual(sealSettings(first.settings, 'p1', box), { settings: first.settings, sealed: 0 })
})

test('settings: a change merges top-level keys, and null removes one', () => {
  assert.deepEqual(mergeSettings({ a: 1, b: { c: 1 }, d: 2 }, { b: { e: 2 }, d: null }), {
    a: 1,
    b: { e: 2 },
  })
})

test('settings: a [redacted] value that is sent back keeps the stored secret', () => {
  const stored = { smtp: { host: 'mail', password: 'sealed:v1:x' }, providers: [{ client_secret: 's' }] }
  const merged = mergeSettings(stored, {
    smtp: { host: 'new', password: '[redacted]' },
    providers: [{ client_secret: '[redacted]' }],
  })
  assert.deepEqual(merged, {
    smtp: { host: 'new', password: 'sealed:v1:x' },
    providers: [{ client_secret: 's' }],
  })
})
