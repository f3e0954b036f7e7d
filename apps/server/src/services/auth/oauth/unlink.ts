// A signed-in user gives up a way to sign in; at least one has to stay.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { currentUser } from '../current-user.ts'
import { needSecondFactor } from '../mfa/second-factor.ts'
import type { AuthParts } from '../parts.ts'
import { settingsOf } from '../settings.ts'
import { type UserRow, writeEvent } from '../users-store.ts'
import {
  deleteIdentity,
  dropPassword,
  type IdentityRow,
  isAddressTaken,
  listIdentities,
  moveToAddress,
  writeProviders,
} from './identity-store.ts'

export const createUnlink =
  ({ databases }: AuthParts) =>
  (caller: Caller, identityId: string): Promise<Record<string, never>> =>
    databases.auth(caller.tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      await needSecondFactor(session, current)
      const { user } = current
      const identities = await listIdentities(session, user.id)
      const gone = identities.find(({ id }) => id === identityId.toLowerCase())
      if (!gone) throw new Refusal('identity_not_found', 'Identity doesn’t exist')
      const left = identities.filter(each => each !== gone)
      if (left.length === 0)
        throw new Refusal(
          'single_identity_not_deletable',
          'User must have at least 1 identity after unlinking',
        )
      await deleteIdentity(session, gone.id)
      if (gone.provider === 'email') await dropPassword(session, user.id)
      await followAddress(session, caller.tenant, user, left)
      await writeProviders(session, user.id)
      await writeEvent(session, 'user.updated', user.id, user.email)
      return {}
    })

/** The user's address is always that of one of the identities. */
async function followAddress(session: Session, tenant: Tenant, user: UserRow, left: readonly IdentityRow[]) {
  if (user.email === null || left.some(({ email }) => email === user.email)) return
  const next =
    left.find(({ email, is_verified }) => email !== null && is_verified) ??
    left.find(({ email }) => email !== null)
  const email = next?.email ?? null
  if (email !== null && (await isAddressTaken(session, email, user.id)))
    throw new Refusal(
      'email_conflict_identity_not_deletable',
      'Unable to unlink identity due to email conflict: another user has the address that would be left',
    )
  const isConfirmed = next !== undefined && (next.is_verified || settingsOf(tenant).auto_confirm)
  await moveToAddress(session, user.id, email, isConfirmed, next?.is_verified ?? false)
}
