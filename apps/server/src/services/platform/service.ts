// Login of platform users, and platform tokens.
import type { Scope } from '@plinth/contract/route.ts'
import { type DeriveKey, hmac, randomToken } from '#src/kernel/crypto/keys.ts'
import type { Passwords } from '#src/kernel/crypto/password.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import { networkOf } from '#src/kernel/http/network-of.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { type Credentials, tokenPrefix } from '#src/planes/management/admit.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import * as store from './store.ts'

export interface PlatformDeps {
  control: Database
  credentials: Credentials
  passwords: Passwords
  windows: RateWindows
  deriveKey: DeriveKey
}

const loginsPerMinute = 20
const maxFailures = 5
const lockSeconds = 15 * 60

export type PlatformService = ReturnType<typeof platformService>

export function platformService({ control, credentials, passwords, windows, deriveKey }: PlatformDeps) {
  const pairKey = deriveKey('login failures')

  return {
    async login(email: string, password: string, ip: string) {
      const taken = windows.take(`login:${networkOf(ip)}`, loginsPerMinute, 60_000)
      if (taken.remaining < 0)
        throw retryLater(
          'over_request_rate_limit',
          'Too many logins from this address; try again shortly',
          taken.retryAfterSeconds,
        )
      const pair = hmac(pairKey, `${networkOf(ip)}\n${email.toLowerCase()}`)
      const lockedFor = await store.countAttempt(control, pair, maxFailures, lockSeconds)
      if (lockedFor > 0)
        throw retryLater('login_locked', 'Too many failed logins; try again later', lockedFor)
      const user = await store.findLogin(control, email)
      // Without a user verify does the same work, so that the response time does not show which addresses exist.
      const matches = await passwords.verify(password, user?.password_hash)
      if (!user || !matches) throw new Refusal('invalid_login', 'E-mail or password is wrong')
      await store.deleteAttempts(control, pair)
      await store.deleteOldAttempts(control, lockSeconds)
      await store.saveLoginTime(control, user.id)
      const { token, expiresAt } = credentials.issueSession({
        id: user.id,
        sessionVersion: user.session_version,
      })
      return { token, expires_at: expiresAt, user: { id: user.id, email: user.email, role: user.role } }
    },

    async mintToken(actor: Actor, request: { name: string; scope: Scope; expires_at?: string | null }) {
      const expiresAt = request.expires_at ?? null
      if (expiresAt !== null && Date.parse(expiresAt) <= Date.now())
        throw new Refusal('invalid_request', 'Field "expires_at" must lie in the future')
      const token = tokenPrefix + randomToken()
      const row = await store.insertToken(control, {
        name: request.name,
        scope: request.scope,
        hash: credentials.hashOf(token),
        expiresAt,
        createdBy: actor.kind === 'user' || actor.kind === 'token' ? `${actor.kind}:${actor.id}` : actor.kind,
      })
      return { ...row!, token }
    },

    async listTokens(page: Paging) {
      const { rows, total } = await store.listTokens(control, page)
      return { tokens: rows, total, ...page }
    },

    async revokeToken(id: string): Promise<void> {
      if ((await store.revokeToken(control, id)) === 0)
        throw new Refusal('token_not_found', 'No active platform token has this id')
    },
  }
}
