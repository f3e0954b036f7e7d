// Creates the session of a user whom a sign-in flow has authenticated. Every flow uses this function.
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from './client-info.ts'
import type { FlowDeps } from './flow-deps.ts'
import { insertSession } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import type { IssuedTokens } from './tokens.ts'
import type { UserObject } from './users-store.ts'

/** The session object of GoTrue: tokens and user. */
export type SessionObject = IssuedTokens & { user: UserObject } & Record<string, unknown>

export type IssueSession = (
  session: Session,
  tenant: Tenant,
  userId: string,
  method: string,
  client: ClientInfo,
) => Promise<SessionObject>

/** Runs in the transaction of the flow, so that a flow that fails leaves no session. */
export const createSessionIssuer =
  ({ tokens }: Pick<FlowDeps, 'tokens'>): IssueSession =>
  async (session, tenant, userId, method, { ip, userAgent }) => {
    const settings = settingsOf(tenant)
    const { user, state } = await insertSession(session, {
      userId,
      method,
      lifetimeSeconds: settings.session_duration_seconds,
      idleSeconds: settings.refresh_token_duration_seconds,
      ip,
      userAgent,
    })
    return { ...(await tokens.issue(tenant, user, state, settings)), user }
  }
