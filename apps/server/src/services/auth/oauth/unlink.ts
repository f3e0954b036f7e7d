// A signed-in user unlinks an identity. At least one must remain.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { currentUser } from '../current-user.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { requireSecondFactor } from '../mfa/second-factor.ts'
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
import { requireManualLinking } from './manual-linking.ts'

export const createUnlink =
  ({ databases }: FlowDeps) =>
  (caller: Caller, identityId: string): Promise<Record<string, never>> =>
    databases.auth(caller.tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      requireManualLinking(caller.tenant)
      await requireSecondFactor(session, current)
      const { user } = current
      const identities = await listIdentities(session, user.id)
      const unlinked = identities.find(({ id }) => id === identityId.toLowerCase())
      if (!unlinked) throw new Refusal('identity_not_found', 'Identity doesn’t exist')
      const remaining = identities.filter(each => each !== unlinked)
      if (remaining.length === 0)
        throw new Refusal(
          'single_identity_not_deletable',
          'User must have at least 1 identity after unlinking',
        )
      await deleteIdentity(session, unlinked.id)
      if (unlinked.provider === 'email') await dropPassword(session, user.id)
      await updateEmail(session, caller.tenant, user, remaining)
      await writeProviders(session, user.id)
      await writeEvent(session, 'user.updated', user.id, user.email)
      return {}
    })

/** The user's address must be the address of a remaining identity. */
async function updateEmail(
  session: Session,
  tenant: Tenant,
  user: UserRow,
  remaining: readonly IdentityRow[],
) {
  if (user.email === null || remaining.some(({ email }) => email === user.email)) return
  const next =
    remaining.find(({ email, is_verified }) => email !== null && is_verified) ??
    remaining.find(({ email }) => email !== null)
  const email = next?.email ?? null
  if (email !== null && (await isAddressTaken(session, email, user.id)))
    throw new Refusal(
      'email_conflict_identity_not_deletable',
      'Unable to unlink identity due to email conflict: another user has the address that would be left',
    )
  const isConfirmed = next !== undefined && (next.is_verified || settingsOf(tenant).auto_confirm)
  await moveToAddress(session, user.id, email, isConfirmed, next?.is_verified ?? false)
}
