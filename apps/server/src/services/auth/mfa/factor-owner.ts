// Access checks for second factors: the caller's own factors, and those of a user named by the admin API.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { userNotFound } from '../admin.ts'
import { type CurrentUser, currentUser } from '../current-user.ts'
import { findUser, type UserRow } from '../users-store.ts'
import { type FactorRow, findFactor } from './factors-store.ts'

/** An enrolment expires if no code verifies it within this time. */
export const enrolmentSeconds = 300

export const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

/** A copy of the database for another project is sealed again, see reseal.ts. */
export const secretContext = ({ id }: Pick<Tenant, 'id'>, factorId: string) =>
  `project:${id}:mfa_factor:${factorId}`

export const factorNotFound = (message = 'The user has no factor of this id') =>
  new Refusal('mfa_factor_not_found', message)
export const enrolmentDisabled = () =>
  new Refusal('mfa_totp_enroll_not_enabled', 'Second factors are switched off for this project')

/** Runs the work in one transaction that locks user and session. */
export const asFactorOwner =
  (databases: Databases) =>
  <T>(caller: Caller, work: (session: Session, current: CurrentUser) => Promise<T>): Promise<T> =>
    databases.auth(caller.tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      if (current.user.is_anonymous)
        throw new Refusal(
          { code: 'no_authorization', status: 403 },
          'Anonymous users have no second factors; add an email address first',
        )
      return work(session, current)
    })

/** Gives the same error for another user's factor as for an unknown id. */
export async function requireOwnFactor(session: Session, userId: string, id: string): Promise<FactorRow> {
  const factor = isUuid(id) ? await findFactor(session, userId, id, enrolmentSeconds) : undefined
  if (!factor) throw factorNotFound()
  return factor
}

export async function requireUser(session: Session, id: string): Promise<UserRow> {
  const user = isUuid(id) ? await findUser(session, id) : undefined
  if (!user) throw userNotFound()
  return user
}
