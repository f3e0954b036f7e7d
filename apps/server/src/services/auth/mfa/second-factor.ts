// Changes of email, password or identities need aal2 once the user has a verified factor. Otherwise a stolen password or
// mailbox would be enough to take over the account.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { CurrentUser } from '../current-user.ts'
import { hasVerifiedFactor } from './factors-store.ts'

export async function requireSecondFactor(
  session: Session,
  { user, session: current }: CurrentUser,
  status = 403,
): Promise<void> {
  if (current.aal === 'aal1' && (await hasVerifiedFactor(session, user.id)))
    throw new Refusal(
      { code: 'insufficient_aal', status },
      'AAL2 session is required to update email, password or identities when MFA is enabled.',
    )
}
