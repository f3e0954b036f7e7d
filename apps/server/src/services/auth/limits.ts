// How often one address may try, and how many mails go out. Whoever asks is told the same, whether the address they name
// has an account or none.
import type { AuthSettings } from '@plinth/contract/auth-settings.ts'
import { retryLater } from '#src/kernel/errors.ts'
import { networkOf } from '#src/kernel/http/network-of.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { settingsOf } from './settings.ts'

type Kind = 'token' | 'verify' | 'email' | 'anonymous' | 'mfa'

export interface Limits {
  /** Refuses an address that has asked too often for this kind of thing. */
  count(tenant: Tenant, kind: Kind, ip: string): void
  /** Refuses a mail too soon after the last one to this recipient, or when the project has sent enough for now. */
  countMail(tenant: Tenant, recipient: string): void
  /** Whether the project may send more mail in this hour. */
  mayMail(tenant: Tenant): boolean
  /** Mails that go out count for the project, requests that send none do not: those cost nobody anything. */
  spendMail(tenant: Tenant): void
}

const fiveMinutesMs = 300_000
const hourMs = 3_600_000

export function createLimits(windows: RateWindows): Limits {
  function take(key: string, limit: number, windowMs: number): number {
    if (limit === 0) return 0
    const { remaining, retryAfterSeconds } = windows.take(key, limit, windowMs)
    return remaining < 0 ? retryAfterSeconds : 0
  }
  const waitForProject = (tenant: Tenant): number => {
    const { mail } = limitsOf(tenant)
    if (mail === 0) return 0
    const { remaining, retryAfterSeconds } = windows.look(projectKey(tenant), mail)
    return remaining <= 0 ? retryAfterSeconds : 0
  }
  const limitsOf = (tenant: Tenant): AuthSettings['rate_limits'] => settingsOf(tenant).rate_limits
  return {
    count(tenant, kind, ip) {
      const wait = take(`auth:${tenant.id}:${kind}:${networkOf(ip)}`, limitsOf(tenant)[kind], fiveMinutesMs)
      if (wait > 0)
        throw retryLater(
          'over_request_rate_limit',
          `Too many requests from this address; try again in ${wait} seconds`,
          wait,
        )
    },
    countMail(tenant, recipient) {
      const interval = limitsOf(tenant).mail_interval_seconds * 1000
      const wait =
        waitForProject(tenant) ||
        (interval === 0 ? 0 : take(`auth:${tenant.id}:mail:${recipient}`, 1, interval))
      if (wait > 0)
        throw retryLater(
          'over_email_send_rate_limit',
          `For security purposes, you can only request this after ${wait} seconds`,
          wait,
        )
    },
    mayMail: tenant => waitForProject(tenant) === 0,
    spendMail: tenant => void take(projectKey(tenant), limitsOf(tenant).mail, hourMs),
  }
}

const projectKey = ({ id }: Tenant) => `auth:${id}:mail`
