// Requests per project and role, or per address on open routes, in windows of 60 seconds.
import type { Role } from '@plinth/contract/route.ts'
import { retryLater } from '#src/kernel/errors.ts'
import { networkOf } from '#src/kernel/http/network-of.ts'
import type { SetHeader } from '#src/kernel/http/plane.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

export type RateLimits = Readonly<Record<Role, number>>

const windowMs = 60_000
const quotaNames = {
  anon: 'rate_limit_anon',
  authenticated: 'rate_limit_authenticated',
  service_role: 'rate_limit_service_role',
} as const

export interface Meter {
  countCaller(tenant: Tenant, role: Role, setHeader: SetHeader): void
  /** Without a credential; by the limit of a role, in a window of its own. */
  countAddress(ip: string, setHeader: SetHeader, like?: Role): void
}

export function createMeter(windows: RateWindows, limits: RateLimits): Meter {
  /** Made once per project: a text put together anew would have to be hashed anew. */
  const keys = new WeakMap<Tenant, Record<Role, string>>()
  function keysOf(tenant: Tenant): Record<Role, string> {
    const known = keys.get(tenant)
    if (known) return known
    const { id } = tenant
    const made = {
      anon: `${id}:anon`,
      authenticated: `${id}:authenticated`,
      service_role: `${id}:service_role`,
    }
    keys.set(tenant, made)
    return made
  }

  function count(key: string, limit: number, setHeader: SetHeader): void {
    if (limit === 0) return
    const { remaining, retryAfterSeconds } = windows.take(key, limit, windowMs)
    setHeader('x-ratelimit-limit', String(limit))
    setHeader('x-ratelimit-remaining', String(Math.max(0, remaining)))
    if (remaining < 0)
      throw retryLater(
        'over_request_rate_limit',
        `More than ${limit} requests in 60 seconds; try again in ${retryAfterSeconds} seconds`,
        retryAfterSeconds,
      )
  }
  return {
    countCaller: (tenant, role, setHeader) =>
      count(keysOf(tenant)[role], tenant.quotas[quotaNames[role]] ?? limits[role], setHeader),
    countAddress: (ip, setHeader, like = 'anon') =>
      count(`address:${like}:${networkOf(ip)}`, limits[like], setHeader),
  }
}
