import type { Caller, Databases } from '#src/tenancy/databases.ts'
import { currentUser } from './current-user.ts'
import { readUserObject } from './users-store.ts'

/** The session that an access token belongs to, and its user. */
export const createCurrentSession = (databases: Databases) => (caller: Caller) =>
  databases.auth(caller.tenant).transaction(async session => {
    const { user, session: current } = await currentUser(session, caller)
    const { id, aal, amr, created_at, refreshed_at, user_agent, ip } = current
    const { exp } = JSON.parse(caller.claims) as { exp?: number }
    return {
      session: {
        id,
        user_id: user.id,
        aal,
        amr,
        created_at,
        refreshed_at,
        user_agent,
        ip,
        expires_at: exp ?? null,
      },
      user: await readUserObject(session, user.id),
    }
  })
