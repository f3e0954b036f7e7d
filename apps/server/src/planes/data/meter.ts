// Rate limiter: counts requests per project and role, or per address on open routes, in windows of 60 seconds.
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
const settingNames = {
  anon: 'PLATFORM_RATE_LIMIT_ANON',
  authenticated: 'PLATFORM_RATE_LIMIT_AUTHENTICATED',
  service_role: 'PLATFORM_RATE_LIMIT_SERVICE_ROLE',
} as const

const projectHint = (role: Role) =>
  `The operator can raise this limit, or lift it with 0: for this project with the quota ${quotaNames[role]} ` +
  `(PATCH /api/v1/projects/{id} with {"quotas": {"${quotaNames[role]}": 0}}), ` +
  `for all projects without this quota with the setting ${settingNames[role]} of the platform.`
const addressHint = (role: Role) =>
  'This limit counts the requests of one address to routes that need no credential. ' +
  `The operator can raise it, or lift it with 0, with the setting ${settingNames[role]} of the platform.`

export interface Meter {
  countCaller(tenant: Tenant, role: Role, setHeader: SetHeader): void
  /** For routes that need no credential. The limit is that of the role `like`, in a separate window. */
  countAddress(ip: string, setHeader: SetHeader, like?: Role): void
}

export function createMeter(windows: RateWindows, limits: RateLimits): Meter {
  /** Built once per project, because V8 hashes every newly concatenated string again. */
  const keys = new WeakMap<Tenant, Record<Role, string>>()
  function keysOf(tenant: Tenant): Record<Role, string> {
    const known = keys.get(tenant)
    if (known) return known
    const { id } = tenant
    const created = {
      anon: `${id}:anon`,
      authenticated: `${id}:authenticated`,
      service_role: `${id}:service_role`,
    }
    keys.set(tenant, created)
    return created
  }

  function count(key: string, limit: number, setHeader: SetHeader, hint: () => string): void {
    if (limit === 0) return
    const { remaining, retryAfterSeconds } = windows.take(key, limit, windowMs)
    setHeader('x-ratelimit-limit', String(limit))
    setHeader('x-ratelimit-remaining', String(Math.max(0, remaining)))
    if (remaining < 0)
      throw retryLater(
        'over_request_rate_limit',
        `More than ${limit} requests in 60 seconds; try again in ${retryAfterSeconds} seconds`,
        retryAfterSeconds,
        hint(),
      )
  }
  return {
    countCaller: (tenant, role, setHeader) =>
      count(keysOf(tenant)[role], tenant.quotas[quotaNames[role]] ?? limits[role], setHeader, () =>
        projectHint(role),
      ),
    countAddress: (ip, setHeader, like = 'anon') =>
      count(`address:${like}:${networkOf(ip)}`, limits[like], setHeader, () => addressHint(like)),
  }
}
