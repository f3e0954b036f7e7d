import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultAuthSettings as defaults } from '@plinth/contract/auth-settings.ts'
import { authSettingsFrom } from './settings.ts'

const from = (auth: unknown) => authSettingsFrom({ auth })

test('auth settings: stored values override the defaults key by key', () => {
  assert.deepEqual(from(undefined), defaults)
  assert.deepEqual(from({ min_password_length: 72, rate_limits: { mail: 0 }, providers: { github: {} } }), {
    ...defaults,
    min_password_length: 72,
    rate_limits: { ...defaults.rate_limits, mail: 0 },
  })
})

test('auth settings: an invalid value falls back to its default and leaves the other values alone', () => {
  const bad: Record<string, unknown[]> = {
    auto_confirm: ['false', 0, null, {}],
    min_password_length: [5, 73, '8', 7.5, Number.NaN, null, [8]],
    session_duration_seconds: [0, 59, 604_801, '3600', true],
    site_url: ['', 'nowhere', '/path', 'http://', 'http://host:99999', 'javascript:alert(1)', 5, null],
    redirect_allow_list: ['https://x.example', [1], [''], [null], {}, Array(101).fill('x')],
    rate_limits: [null, 5, [], 'x', { token: -1 }, { token: '5' }, { token: 1.5 }, { token: null }],
  }
  for (const [name, values] of Object.entries(bad))
    for (const value of values)
      assert.deepEqual(
        from({ [name]: value, otp_expiry_seconds: 61 }),
        { ...defaults, otp_expiry_seconds: 61 },
        `${name} ${JSON.stringify(value)}`,
      )
  for (const auth of [null, 5, 'x', [], true]) assert.deepEqual(from(auth), defaults)
})

test('auth settings: inherited property names such as __proto__ are not settings', () => {
  const settings = from(
    JSON.parse('{"__proto__": {"auto_confirm": false}, "constructor": 1, "toString": true}'),
  )
  assert.deepEqual(settings, defaults)
  assert.deepEqual(Object.keys(settings).sort(), Object.keys(defaults).sort())
})
