// User operations that only the management API has: bans with a reason, and revoking single sessions.
import type { User, UserSession } from '@plinth/contract/users.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { userNotFound } from './admin.ts'
import { banUntil } from './admin-store.ts'
import { banEnd } from './ban-duration.ts'
import { expectRow } from './expected-row.ts'
import { findManagedUser, listManagedUsers, listSessions } from './managed-users-store.ts'
import { deleteSessions, type LogoutScope } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import { findUser, type UserRow, writeEvent } from './users-store.ts'

export interface BanRequest {
  reason?: string | null
  expires_at?: string | null
  duration?: string | null
}

/** Clients parse the end of a ban as a time, so a permanent ban needs one. */
const permanentBanEnd = '9999-01-01T00:00:00.000Z'

export function createManagedUsers(databases: Databases) {
  /** Runs the work in one transaction on the locked user. */
  const change = <T>(
    tenant: Tenant,
    id: string,
    work: (session: Session, user: UserRow) => Promise<T>,
  ): Promise<T> =>
    databases.auth(tenant).transaction(async session => {
      const user = await findUser(session, id)
      if (!user) throw userNotFound()
      return work(session, user)
    })

  const endSessions = (tenant: Tenant, id: string, scope: LogoutScope, sessionId: string | null) =>
    change(tenant, id, async (session, user) => {
      const ended = await deleteSessions(session, id, scope, sessionId)
      if (ended > 0) await writeEvent(session, 'user.signed_out', id, user.email)
      return ended
    })

  return {
    list: (tenant: Tenant, search: string | undefined, page: Paging) =>
      databases.auth(tenant).transaction(session => listManagedUsers(session, search, page)),

    async read(tenant: Tenant, id: string): Promise<User> {
      const user = await findManagedUser(databases.auth(tenant), id)
      if (!user) throw userNotFound()
      return user
    },

    async ban(tenant: Tenant, id: string, request: BanRequest): Promise<User> {
      const until = banEndFrom(request)
      return change(tenant, id, async (session, user) => {
        await banUntil(session, id, until, request.reason || null)
        await writeEvent(session, 'user.updated', id, user.email)
        return expectRow(await findManagedUser(session, id))
      })
    },

    unban: (tenant: Tenant, id: string): Promise<User> =>
      change(tenant, id, async (session, user) => {
        await banUntil(session, id, null, null)
        if (user.is_banned) await writeEvent(session, 'user.updated', id, user.email)
        return expectRow(await findManagedUser(session, id))
      }),

    sessions: (
      tenant: Tenant,
      id: string,
      page: Paging,
    ): Promise<{ sessions: UserSession[]; total: number }> =>
      databases.auth(tenant).transaction(async session => {
        if (!(await findManagedUser(session, id))) throw userNotFound()
        return listSessions(session, id, settingsOf(tenant).refresh_token_duration_seconds, page)
      }),

    async revokeSessions(tenant: Tenant, id: string): Promise<void> {
      await endSessions(tenant, id, 'global', null)
    },

    async revokeSession(tenant: Tenant, id: string, sessionId: string): Promise<void> {
      if ((await endSessions(tenant, id, 'local', sessionId)) === 0)
        throw new Refusal(
          { code: 'session_not_found', status: 404 },
          'The user has no session of this id; it may have ended already',
        )
    },
  }
}

function banEndFrom({ expires_at, duration }: BanRequest): string {
  if (expires_at && duration)
    throw new Refusal('validation_failed', 'Give either "expires_at" or "duration", not both')
  const until = duration ? banEnd(duration)! : (expires_at ?? permanentBanEnd)
  if (Date.parse(until) <= Date.now())
    throw new Refusal('validation_failed', 'Field "expires_at" must be a time to come')
  return until
}
