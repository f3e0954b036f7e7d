// grant_type=pkce: exchanges an auth code and the PKCE code verifier for a session, once.
import { createHash } from 'node:crypto'
import { isSame } from '#src/kernel/crypto/keys.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from '../client-info.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { createSessionIssuer, type SessionObject } from '../session-issuer.ts'
import { bannedAtSignIn } from '../sign-in-errors.ts'
import { findUser } from '../users-store.ts'
import { openSecrets } from './flow-secrets.ts'
import { deleteFlow, type Flow, findFlowByCode, findFlowOwner } from './flow-store.ts'

export interface CodeExchange {
  auth_code?: string | null | undefined
  code_verifier?: string | null | undefined
}

export function createCodeExchange(deps: FlowDeps) {
  const { databases, hashOneTime, sealer, limits } = deps
  const issueSession = createSessionIssuer(deps)

  return async (tenant: Tenant, body: CodeExchange, client: ClientInfo): Promise<SessionObject> => {
    const { auth_code: code, code_verifier: verifier } = body
    if (!code || !verifier)
      throw new Refusal(
        'validation_failed',
        'invalid request: both auth code and code verifier should be non-empty',
      )
    limits.count(tenant, 'token', client.ip)
    const exchanged = await databases.auth(tenant).transaction(async session => {
      const codeHash = hashOneTime(tenant.id, code)
      const ownerId = await findFlowOwner(session, codeHash)
      const user = ownerId && (await findUser(session, ownerId))
      const flow = user && (await findFlowByCode(session, codeHash))
      if (!flow) throw new Refusal('flow_state_not_found', 'invalid flow state, no valid flow state found')
      if (flow.has_expired) {
        await deleteFlow(session, flow.id)
        return
      }
      if (!matchesChallenge(flow, verifier))
        throw new Refusal('bad_code_verifier', 'code challenge does not match previously saved code verifier')
      await deleteFlow(session, flow.id)
      if (user.is_banned) throw bannedAtSignIn()
      const issued = await issueSession(session, tenant, user.id, flow.authentication_method, client)
      const { providerToken, providerRefreshToken } = openSecrets(sealer, tenant, flow.secrets)
      return {
        ...issued,
        ...(providerToken !== undefined && { provider_token: providerToken }),
        ...(providerRefreshToken !== undefined && { provider_refresh_token: providerRefreshToken }),
      }
    })
    if (!exchanged) throw new Refusal('flow_state_expired', 'invalid flow state, flow state has expired')
    return exchanged
  }
}

function matchesChallenge(
  { code_challenge: challenge, code_challenge_method: method }: Flow,
  verifier: string,
): boolean {
  if (challenge === null || method === null) return false
  return isSame(
    method === 's256' ? createHash('sha256').update(verifier).digest('base64url') : verifier,
    challenge,
  )
}
