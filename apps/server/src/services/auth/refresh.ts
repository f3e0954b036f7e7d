// Refreshes a session. One SQL function decides; this maps its verdict to an answer.
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from './client-info.ts'
import type { FlowDeps } from './flow-deps.ts'
import type { SessionObject } from './session-issuer.ts'
import { refreshStatement } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import { bannedAtSignIn } from './sign-in-errors.ts'
import type { AmrEntry } from './tokens.ts'
import type { UserObject } from './users-store.ts'

export function createRefresh({ databases, tokens, limits, log }: FlowDeps) {
  return async (tenant: Tenant, refreshToken: string, client: ClientInfo): Promise<SessionObject> => {
    limits.count(tenant, 'token', client.ip)
    const claimed = tokens.readRefreshToken(tenant, refreshToken)
    if (!claimed) throw tokenNotFound()
    const settings = settingsOf(tenant)
    const { rows } = await databases.asAuth(tenant, refreshStatement, [
      claimed.sessionId,
      String(claimed.counter),
      String(settings.refresh_token_reuse_interval_seconds),
      String(settings.refresh_token_duration_seconds),
      String(settings.session_duration_seconds),
    ])
    if (!rows[0]) throw tokenNotFound()
    const [verdict, counter, aal, amr, userJson] = rows[0].map(
      cell => cell?.toString('utf8') ?? '',
    ) as Columns
    if (verdict === 'reuse')
      log.warn(
        { project: tenant.id, session: claimed.sessionId, ip: client.ip },
        'refresh token reused after its reuse interval; session ended',
      )
    checkVerdict(verdict)
    const user = JSON.parse(userJson) as UserObject
    const state = { id: claimed.sessionId, aal, amr: JSON.parse(amr) as AmrEntry[], counter: Number(counter) }
    return { ...(await tokens.issue(tenant, user, state, settings)), user }
  }
}

type Columns = [verdict: string, counter: string, aal: string, amr: string, userJson: string]

const tokenNotFound = () =>
  new Refusal('refresh_token_not_found', 'Invalid Refresh Token: Refresh Token Not Found')

function checkVerdict(verdict: string): void {
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
      throw tokenNotFound()
  }
}
