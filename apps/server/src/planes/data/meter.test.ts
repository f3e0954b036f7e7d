import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Role } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createRateWindows } from '#src/kernel/http/rate-windows.ts'
import { settings } from '#src/settings.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { noSigningKeys } from '#src/tenancy/tenant-signing-keys.ts'
import { createMeter } from './meter.ts'

const tenant: Tenant = {
  id: '3d5c6f0e-6a0e-4a86-93a1-6f0f1f1f2a2b',
  ref: 'p_meter',
  name: 'meter',
  status: 'active',
  anonKey: '',
  serviceRoleKey: '',
  jwtSecret: '',
  signingKeys: noSigningKeys,
  quotas: {},
  exposedSchemas: ['public'],
  settings: {},
}
const names: readonly [Role, setting: string, quota: string][] = [
  ['anon', 'PLATFORM_RATE_LIMIT_ANON', 'rate_limit_anon'],
  ['authenticated', 'PLATFORM_RATE_LIMIT_AUTHENTICATED', 'rate_limit_authenticated'],
  ['service_role', 'PLATFORM_RATE_LIMIT_SERVICE_ROLE', 'rate_limit_service_role'],
]
const meter = () => createMeter(createRateWindows(), { anon: 1, authenticated: 1, service_role: 1 })
const noHeader = () => {}

function refusalOf(call: () => void): Refusal {
  call()
  try {
    call()
  } catch (error) {
    assert.ok(error instanceof Refusal)
    assert.equal(error.code, 'over_request_rate_limit')
    assert.match(error.headers['retry-after'] ?? '', /^\d+$/)
    return error
  }
  return assert.fail('the second request is over the limit')
}

for (const [role, setting, quota] of names) {
  test(`rate limits: the 429 of ${role} names the quota and the setting that raise the limit`, () => {
    const { countCaller } = meter()
    const { message, hint } = refusalOf(() => countCaller(tenant, role, noHeader))
    assert.match(hint, new RegExp(`\\b${setting}\\b`))
    assert.match(hint, new RegExp(`PATCH /api/v1/projects/{id} with {"quotas": {"${quota}": `))
    assert.doesNotMatch(message, /rate_limit|PLATFORM_/i)
    assert.ok(settings.some(({ name }) => name === setting))
  })

  test(`rate limits: the 429 of an address counted like ${role} names the setting alone`, () => {
    const { countAddress } = meter()
    const { hint } = refusalOf(() => countAddress('203.0.113.7', noHeader, role))
    assert.match(hint, new RegExp(`\\b${setting}\\b`))
    assert.doesNotMatch(hint, /quota|rate_limit_/)
  })
}
