// Users and sessions as the management API shows them, one function per statement.
import type { User, UserSession } from '@plinth/contract/users.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { allOf, type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

// A seed script may have set banned_until to infinity, which clients cannot parse as a time.
const userColumns = sql`
  u.id, u.email, u.role, u.is_anonymous, u.email_confirmed_at, u.invited_at, u.last_sign_in_at,
  coalesce(u.banned_until > now(), false) as is_banned,
  case when u.banned_until is not null then least(u.banned_until, '9999-01-01 00:00:00Z') end as banned_until, u.ban_reason,
  array(select i.provider from auth.identities i where i.user_id = u.id group by i.provider order by min(i.created_at), i.provider)
    as providers,
  u.raw_app_meta_data as app_metadata, u.raw_user_meta_data as user_metadata, u.created_at, u.updated_at`

export const findManagedUser = (session: Pick<Session, 'row'>, id: string) =>
  session.row<User>(sql`select ${userColumns} from auth.users u where u.id = ${id} and u.deleted_at is null`)

/** `search` is a substring of the address. */
export async function listManagedUsers(
  session: Session,
  search: string | undefined,
  { limit, offset }: Paging,
): Promise<{ users: User[]; total: number }> {
  const matches = allOf([
    sql`u.deleted_at is null`,
    ...(search ? [sql`position(lower(${search}) in u.email) > 0`] : []),
  ])
  const users = await session.rows<User>(sql`
    select ${userColumns} from auth.users u where ${matches}
     order by u.created_at desc, u.id desc limit ${limit} offset ${offset}`)
  return { users, total: await count(session, sql`auth.users u where ${matches}`) }
}

/** Sessions that can still be refreshed. */
export async function listSessions(
  session: Session,
  userId: string,
  idleSeconds: number,
  { limit, offset }: Paging,
): Promise<{ sessions: UserSession[]; total: number }> {
  const refreshable = sql`
    auth.sessions s where s.user_id = ${userId} and (s.not_after is null or s.not_after > now())
       and coalesce(s.refreshed_at, s.created_at) >= now() - make_interval(secs => ${idleSeconds})`
  const sessions = await session.rows<UserSession>(sql`
    select s.id, s.created_at, s.refreshed_at, s.user_agent, s.ip, s.aal from ${refreshable}
     order by s.created_at desc, s.id limit ${limit} offset ${offset}`)
  return { sessions, total: await count(session, refreshable) }
}

async function count(session: Session, of: SqlFragment): Promise<number> {
  const row = await session.row<{ total: number }>(sql`select count(*)::int as total from ${of}`)
  return row!.total
}
