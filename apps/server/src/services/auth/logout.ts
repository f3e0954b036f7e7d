import { Refusal } from '#src/kernel/errors.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import { currentUser } from './current-user.ts'
import { deleteSessions, type LogoutScope } from './sessions-store.ts'
import { writeEvent } from './users-store.ts'

/** Ends the sessions of the scope and revokes their access tokens. */
export const createLogout =
  (databases: Databases) =>
  async (caller: Caller, scope = 'global'): Promise<void> => {
    if (!isScope(scope))
      throw new Refusal('validation_failed', `Unsupported logout scope "${scope}": global, local or others`)
    await databases.auth(caller.tenant).transaction(async session => {
      const { user, session: current } = await currentUser(session, caller)
      await deleteSessions(session, user.id, scope, current.id)
      await writeEvent(session, 'user.signed_out', user.id, user.email)
    })
  }

const isScope = (scope: string): scope is LogoutScope =>
  scope === 'global' || scope === 'local' || scope === 'others'
