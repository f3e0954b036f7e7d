// Rate limits per client network and for mail. A limit counts the same for addresses with and without an account, so
// that it does not show which addresses exist.
import type { AuthSettings } from '@plinth/contract/auth-settings.ts'
import { retryLater } from '#src/kernel/errors.ts'
import { networkOf } from '#src/kernel/http/network-of.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { settingsOf } from './settings.ts'

type Kind = 'token' | 'verify' | 'email' | 'anonymous' | 'mfa'

export interface Limits {
  /** Refuses a client network that is over the limit of this kind. */
  count(tenant: Tenant, kind: Kind, ip: string): void
  /**
   * Enforces the interval per recipient and the mail limit of the project. Also counts requests that send no mail:
   * otherwise the limit would show which addresses have an account.
   */
  countMail(tenant: Tenant, recipient: string): void
  /** Counts a mail that no request asked for. False when the project is over its mail limit. */
  mayMail(tenant: Tenant): boolean
}

const fiveMinutesMs = 300_000
const hourMs = 3_600_000

export function createLimits(windows: RateWindows): Limits {
  function take(key: string, limit: number, windowMs: number): number {
    if (limit === 0) return 0
    const { remaining, retryAfterSeconds } = windows.take(key, limit, windowMs)
    return remaining < 0 ? retryAfterSeconds : 0
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
      const { mail, mail_interval_seconds } = limitsOf(tenant)
      const interval = mail_interval_seconds * 1000
      const wait =
        (interval === 0 ? 0 : take(`auth:${tenant.id}:mail:${recipient}`, 1, interval)) ||
        take(projectKey(tenant), mail, hourMs)
      if (wait > 0)
        throw retryLater(
          'over_email_send_rate_limit',
          `For security purposes, you can only request this after ${wait} seconds`,
          wait,
        )
    },
    mayMail: tenant => take(projectKey(tenant), limitsOf(tenant).mail, hourMs) === 0,
  }
}

const projectKey = ({ id }: Tenant) => `auth:${id}:mail`
