import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DataRoute } from '@plinth/contract/route.ts'
import { whoamiApi } from '@plinth/contract/whoami.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { noSigningKeys } from '#src/tenancy/tenant-signing-keys.ts'
import { callerFrom, opensWithUnknownKey, projectIn } from './admit.ts'

const anonKey = 'platform_anon_app_aaaaaaaa'
const serviceRoleKey = 'platform_service_role_app_bbbbbbbb'
const tenant: Tenant = {
  id: '4f0e6ad2-6a3e-4d3b-9a53-1f2f0f1e9b11',
  ref: 'p_x',
  name: 'app',
  status: 'active',
  anonKey,
  serviceRoleKey,
  jwtSecret: 'the project’s secret',
  signingKeys: noSigningKeys,
  quotas: {},
  exposedSchemas: ['public'],
  settings: {},
}
const token = (claims: object) => signJwt(claims as Record<string, unknown>, tenant.jwtSecret)
const user = token({ role: 'authenticated', sub: 'u1' })
const roleOf = (
  headers: Record<string, string>,
  of: Tenant | null = tenant,
  route: DataRoute = whoamiApi.read,
) => {
  try {
    return callerFrom(of ?? undefined, route, headers).role
  } catch (error) {
    return (error as { status: number }).status
  }
}

const cases: [string, Record<string, string>, string | number][] = [
  ['the anon key', { apikey: anonKey }, 'anon'],
  ['the service_role key', { apikey: serviceRoleKey }, 'service_role'],
  ['a project key as Bearer alone', { authorization: `Bearer ${serviceRoleKey}` }, 'service_role'],
  ['a user beside the anon key', { apikey: anonKey, authorization: `Bearer ${user}` }, 'authenticated'],
  ['the Bearer decides', { apikey: serviceRoleKey, authorization: `Bearer ${anonKey}` }, 'anon'],
  [
    'a JWT with the role anon',
    { apikey: anonKey, authorization: `Bearer ${token({ role: 'anon' })}` },
    'anon',
  ],
  ['a JWT-shaped key', { apikey: token({ role: 'anon' }) }, 'anon'],
  ['nothing', {}, 401],
  ['a user without a key', { authorization: `Bearer ${user}` }, 401],
  ['a user token as key', { apikey: user }, 401],
  ['an invalid Bearer beside a valid key', { apikey: anonKey, authorization: 'Bearer nonsense' }, 401],
  ['another scheme beside a valid key', { apikey: anonKey, authorization: `Basic ${user}` }, 401],
  [
    'a project key as Bearer beside a wrong key',
    { apikey: 'wrong', authorization: `Bearer ${anonKey}` },
    'anon',
  ],
  ['a user beside a wrong key', { apikey: 'wrong', authorization: `Bearer ${user}` }, 401],
  [
    'a NUL in the user id',
    { apikey: anonKey, authorization: `Bearer ${token({ role: 'anon', sub: 'a\0' })}` },
    401,
  ],
  ['an unknown role', { apikey: anonKey, authorization: `Bearer ${token({ role: 'postgres' })}` }, 401],
  ['no role', { apikey: anonKey, authorization: `Bearer ${token({ sub: 'u1' })}` }, 401],
  [
    'an expired user',
    { apikey: anonKey, authorization: `Bearer ${token({ role: 'authenticated', exp: 1 })}` },
    401,
  ],
]
for (const [what, headers, expected] of cases)
  test(`${what}: ${expected}`, () => assert.equal(roleOf(headers), expected))

test('admission: an unknown project is rejected like an unknown key', () => {
  assert.equal(roleOf({ apikey: anonKey }, null), 401)
})

test('admission: only a valid key learns that the project is suspended', () => {
  const suspended: Tenant = { ...tenant, status: 'suspended' }
  assert.equal(roleOf({ apikey: anonKey }, suspended), 403)
  assert.equal(roleOf({ apikey: 'wrong' }, suspended), 401)
})

test('admission: a route for service_role rejects other roles with 403', () => {
  const route: DataRoute = { ...whoamiApi.read, allow: ['service_role'] }
  assert.equal(roleOf({ apikey: anonKey }, tenant, route), 403)
  assert.equal(roleOf({ apikey: serviceRoleKey }, tenant, route), 'service_role')
})

test('admission: a cached token is rejected after it has expired', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_000_000 })
  const headers = {
    apikey: anonKey,
    authorization: `Bearer ${token({ role: 'authenticated', exp: 1010 })}`,
  }
  assert.equal(roleOf(headers), 'authenticated')
  t.mock.timers.setTime(1_011_000)
  assert.equal(roleOf(headers), 401)
})

test('admission: the project is found in both URL shapes', () => {
  const head = (path: string, params: Record<string, string> = {}) =>
    ({ path, params }) as unknown as RequestHead
  assert.equal(projectIn(head(`/v1/cache/${tenant.id}/get/x`)), tenant.id)
  assert.equal(projectIn(head(`/v1/${tenant.id.toUpperCase()}/cache/v1`)), tenant.id)
  assert.equal(projectIn(head('/v1/x', { project: tenant.id })), tenant.id)
  assert.equal(projectIn(head(`/v1/a/b/${tenant.id}`)), undefined)
  assert.equal(projectIn(head('/v1/x', { project: "' or 1=1" })), undefined)
})

test('admission: a socket waits for a new signing key, whether the project exists or not', () => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const token = `${part({ alg: 'ES256', kid: 'new' })}.${part({ role: 'authenticated' })}.${'A'.repeat(86)}`
  const waits = (query: string, project: Tenant | undefined) =>
    opensWithUnknownKey(project, new URLSearchParams(query), {})
  for (const project of [tenant, undefined]) {
    assert.equal(waits(`apikey=${token}`, project), true)
    assert.equal(waits(`apikey=${anonKey}&token=${token}`, project), true)
    assert.equal(waits(`apikey=${anonKey}`, project), false)
    assert.equal(waits(`token=${user}`, project), false)
  }
})
