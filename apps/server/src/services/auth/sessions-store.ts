// Sessions, one function per statement. A trigger in the database writes a revocation whenever a session ends.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { AuthStatement } from '#src/tenancy/databases.ts'
import { expectRow } from './expected-row.ts'
import type { AmrEntry, SessionState } from './tokens.ts'
import type { UserObject } from './users-store.ts'

export interface NewSession {
  userId: string
  method: string
  lifetimeSeconds: number
  /** Deletes the user's sessions that were not refreshed for this long, and the oldest above the maximum. */
  idleSeconds: number
  ip: string
  userAgent: string | undefined
}

const maxSessions = 100

/** Inserts a session, sets last_sign_in_at, writes the event, and returns the user object and the session state. */
export async function insertSession(
  session: Session,
  { userId, method, lifetimeSeconds, idleSeconds, ip, userAgent }: NewSession,
): Promise<{ user: UserObject; state: SessionState }> {
  const row = await session.row<{ id: string; amr: AmrEntry[]; user: UserObject }>(sql`
    with idle as (
      delete from auth.sessions
       where user_id = ${userId}
         and (coalesce(refreshed_at, created_at) < now() - make_interval(secs => ${idleSeconds})
              or id in (select id from auth.sessions where user_id = ${userId}
                         order by created_at desc offset ${maxSessions - 1}))
    ), made as (
      insert into auth.sessions (user_id, amr, tokens_until, ip, user_agent)
      values (${userId}, jsonb_build_array(jsonb_build_object('method', ${method}::text,
                'timestamp', extract(epoch from now())::bigint)),
              now() + make_interval(secs => ${lifetimeSeconds}), ${ip}, ${userAgent ?? null})
      returning id, amr
    ), seen as (
      update auth.users set last_sign_in_at = now(), updated_at = now() where id = ${userId}
      returning email, auth.user_object(users) as "user"
    ), event as (
      insert into platform.events (kind, payload)
      select 'user.signed_in', jsonb_build_object('user_id', ${userId}::uuid, 'email', email) from seen
    )
    select made.id, made.amr, seen."user" from made, seen`)
  const { id, amr, user } = expectRow(row)
  return { user, state: { id, aal: 'aal1', amr, counter: 1 } }
}

/** auth.refresh_session decides about a refresh token and rotates it. */
export const refreshStatement: AuthStatement = {
  name: 'refresh',
  sql: `select verdict, counter, aal, amr, "user"
          from auth.refresh_session($1::uuid, $2::bigint, $3::integer, $4::integer, $5::integer)`,
}

/** The user of a token, whether the user is banned, and whether the session exists. */
export const currentUserStatement: AuthStatement = {
  name: 'current user',
  sql: `
    select auth.user_object(u), coalesce(u.banned_until > now(), false), s.id is not null
      from auth.users u left join auth.sessions s on s.id = $2::uuid and s.user_id = u.id
     where u.id = $1::uuid and u.deleted_at is null`,
}

export interface CurrentSession {
  id: string
  aal: string
  amr: AmrEntry[]
  counter: number
  created_at: string
  refreshed_at: string | null
  user_agent: string | null
  ip: string | null
}

export const findSession = (session: Session, id: string, userId: string) =>
  session.row<CurrentSession>(sql`
    select id, aal, amr, refresh_token_counter::int as counter, created_at, refreshed_at, user_agent, ip
      from auth.sessions where id = ${id} and user_id = ${userId} for update`)

export type LogoutScope = 'global' | 'local' | 'others'

/**
 * Returns the number of ended sessions. Also deletes pending flows that would create a session after the
 * logout: those that link an identity, and those that sign in unless the scope is local.
 */
export const deleteSessions = (
  session: Session,
  userId: string,
  scope: LogoutScope,
  sessionId: string | null,
) =>
  session.run(sql`
    with flows as (
      delete from auth.flow_state
       where linking_user_id = ${userId} or (user_id = ${userId} and ${scope}::text <> 'local'))
    delete from auth.sessions
     where user_id = ${userId}
       and case ${scope}::text when 'global' then true when 'local' then id = ${sessionId}::uuid
                               else id is distinct from ${sessionId}::uuid end`)
