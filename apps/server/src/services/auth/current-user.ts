// Who a request speaks for. A token outlives its session; here it does not.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import { type CurrentSession, currentUserStatement, findSession } from './sessions-store.ts'
import { findUser, type UserRow } from './users-store.ts'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const userGone = () =>
  new Refusal({ code: 'user_not_found', status: 403 }, 'User from sub claim in JWT does not exist')
const sessionGone = () =>
  new Refusal('session_not_found', 'Session from session_id claim in JWT does not exist')
const banned = () => new Refusal('user_banned', 'User is banned')

/** The ids a token carries; tokens made by hand may carry none. */
function idsOf({ claims, userId }: Caller): { userId: string; sessionId: string } {
  const { session_id: sessionId } = JSON.parse(claims) as { session_id?: unknown }
  if (!uuid.test(userId)) throw userGone()
  if (typeof sessionId !== 'string' || !uuid.test(sessionId)) throw sessionGone()
  return { userId, sessionId }
}

/** JSON text of the user object, as the database wrote it. */
export async function readCurrentUser(databases: Databases, caller: Caller): Promise<string> {
  const { userId, sessionId } = idsOf(caller)
  const { rows } = await databases.asAuth(caller.tenant, currentUserStatement, [userId, sessionId])
  const [row] = rows
  if (!row) throw userGone()
  const [user, isBanned, hasSession] = row.map(cell => cell?.toString('utf8') ?? '') as [
    string,
    string,
    string,
  ]
  if (isBanned === 't') throw banned()
  if (hasSession !== 't') throw sessionGone()
  return user
}

export interface CurrentUser {
  user: UserRow
  session: CurrentSession
}

/** Both locked until the transaction ends. */
export async function currentUser(session: Session, caller: Caller): Promise<CurrentUser> {
  const { userId, sessionId } = idsOf(caller)
  const user = await findUser(session, userId)
  if (!user) throw userGone()
  if (user.is_banned) throw banned()
  const current = await findSession(session, sessionId, userId)
  if (!current) throw sessionGone()
  return { user, session: current }
}
