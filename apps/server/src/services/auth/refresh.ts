// A new access token for a session that goes on. The statement decides; here its verdict gets words.
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { AuthParts, ClientFacts } from './parts.ts'
import { refreshStatement } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import { bannedAtSignIn, type SessionObject } from './sign-in.ts'
import type { AmrEntry } from './tokens.ts'
import type { UserObject } from './users-store.ts'

export function createRefresh({ databases, tokens, limits, log }: AuthParts) {
  return async (tenant: Tenant, refreshToken: string, client: ClientFacts): Promise<SessionObject> => {
    limits.count(tenant, 'token', client.ip)
    const named = tokens.readRefreshToken(tenant, refreshToken)
    if (!named) throw notFound()
    const settings = settingsOf(tenant)
    const { rows } = await databases.asAuth(tenant, refreshStatement, [
      named.sessionId,
      String(named.counter),
      String(settings.refresh_token_reuse_interval_seconds),
      String(settings.refresh_token_duration_seconds),
      String(settings.session_duration_seconds),
    ])
    if (!rows[0]) throw notFound()
    const [verdict, counter, aal, amr, userJson] = rows[0].map(
      cell => cell?.toString('utf8') ?? '',
    ) as Columns
    if (verdict === 'reuse')
      log.warn(
        { project: tenant.id, session: named.sessionId, ip: client.ip },
        'a refresh token was used again long after it was replaced; its session has been ended',
      )
    refuseUnless(verdict)
    const user = JSON.parse(userJson) as UserObject
    const state = { id: named.sessionId, aal, amr: JSON.parse(amr) as AmrEntry[], counter: Number(counter) }
    return { ...tokens.issue(tenant, user, state, settings), user }
  }
}

type Columns = [verdict: string, counter: string, aal: string, amr: string, userJson: string]

const notFound = () =>
  new Refusal('refresh_token_not_found', 'Invalid Refresh Token: Refresh Token Not Found')

function refuseUnless(verdict: string): void {
  switch (verdict) {
    case 'rotate':
    case 'repeat':
      return
    case 'banned':
      throw bannedAtSignIn()
    case 'expired':
      throw new Refusal('session_expired', 'Invalid Refresh Token: Session Expired')
    case 'reuse':
      throw new Refusal('refresh_token_already_used', 'Invalid Refresh Token: Already Used')
    default:
      throw notFound()
  }
}
