// The user of an access token. The auth routes check the session in the database, so a token stops working there as
// soon as its session ends.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import { type CurrentSession, currentUserStatement, findSession } from './sessions-store.ts'
import { findUser, type UserRow } from './users-store.ts'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const userMissing = () =>
  new Refusal({ code: 'user_not_found', status: 403 }, 'User from sub claim in JWT does not exist')
const sessionMissing = () =>
  new Refusal('session_not_found', 'Session from session_id claim in JWT does not exist')
const banned = () => new Refusal('user_banned', 'User is banned')

/** The ids in a token. A token signed outside this service may have none. */
function idsOf({ claims, userId }: Caller): { userId: string; sessionId: string } {
  const { session_id: sessionId } = JSON.parse(claims) as { session_id?: unknown }
  if (!uuid.test(userId)) throw userMissing()
  if (typeof sessionId !== 'string' || !uuid.test(sessionId)) throw sessionMissing()
  return { userId, sessionId }
}

/** The user object as JSON text from the database. */
export async function readCurrentUser(databases: Databases, caller: Caller): Promise<string> {
  const { userId, sessionId } = idsOf(caller)
  const { rows } = await databases.asAuth(caller.tenant, currentUserStatement, [userId, sessionId])
  const [row] = rows
  if (!row) throw userMissing()
  const [user, isBanned, hasSession] = row.map(cell => cell?.toString('utf8') ?? '') as [
    string,
    string,
    string,
  ]
  if (isBanned === 't') throw banned()
  if (hasSession !== 't') throw sessionMissing()
  return user
}

export interface CurrentUser {
  user: UserRow
  session: CurrentSession
}

/** Locks the user and the session until the transaction ends. */
export async function currentUser(session: Session, caller: Caller): Promise<CurrentUser> {
  const { userId, sessionId } = idsOf(caller)
  const user = await findUser(session, userId)
  if (!user) throw userMissing()
  if (user.is_banned) throw banned()
  const current = await findSession(session, sessionId, userId)
  if (!current) throw sessionMissing()
  return { user, session: current }
}
