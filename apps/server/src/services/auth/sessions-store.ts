// Sessions, one function per statement. Whatever ends one is noted for the access tokens that are still about by a
// trigger in the database.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { AuthStatement } from '#src/tenancy/databases.ts'
import type { AmrEntry, SessionState } from './tokens.ts'
import type { UserObject } from './users-store.ts'

export interface NewSession {
  userId: string
  method: string
  lifetimeSeconds: number
  /** Sessions of the user that nobody has refreshed for so long go, to make room. */
  idleSeconds: number
  ip: string
  userAgent: string | undefined
}

/** Makes a session, notes the sign-in at the user, and tells both as clients will see them. */
export async function insertSession(
  session: Session,
  { userId, method, lifetimeSeconds, idleSeconds, ip, userAgent }: NewSession,
): Promise<{ user: UserObject; state: SessionState }> {
  const made = await session.row<{ id: string; amr: AmrEntry[]; user: UserObject }>(sql`
    with idle as (
      delete from auth.sessions
       where user_id = ${userId} and coalesce(refreshed_at, created_at) < now() - make_interval(secs => ${idleSeconds})
    ), made as (
      insert into auth.sessions (user_id, amr, tokens_until, ip, user_agent)
      values (${userId}, jsonb_build_array(jsonb_build_object('method', ${method}::text,
                'timestamp', extract(epoch from now())::bigint)),
              now() + make_interval(secs => ${lifetimeSeconds}), ${ip}, ${userAgent ?? null})
      returning id, amr
    ), seen as (
      update auth.users set last_sign_in_at = now(), updated_at = now() where id = ${userId}
      returning email, auth.user_object(users) as "user"
    ), told as (
      insert into auth.events (type, user_id, email) select 'user.signed_in', ${userId}, email from seen
    )
    select made.id, made.amr, seen."user" from made, seen`)
  return { user: made!.user, state: { id: made!.id, aal: 'aal1', amr: made!.amr, counter: 1 } }
}

/**
 * Decides about a refresh token and acts on the decision in one statement, on the locked row: callers on one session
 * take turns. The newest number is replaced; its parent, or one replaced within the reuse window, is told the newest
 * again; anything older is a copy in the wrong hands, and the session ends.
 */
export const refreshStatement: AuthStatement = {
  name: 'refresh',
  sql: `
    with s as materialized (
      select s.id, s.user_id, s.aal, s.amr, s.refresh_token_counter as counter, s.rotated_at, s.not_after,
             coalesce(s.refreshed_at, s.created_at) as refreshed_at, u.email,
             coalesce(u.banned_until > now(), false) as is_banned
        from auth.sessions s join auth.users u on u.id = s.user_id and u.deleted_at is null
       where s.id = $1::uuid for update of s
    ), judged as materialized (
      select s.*, case
          when is_banned then 'banned'
          when not_after < now() or refreshed_at < now() - make_interval(secs => $4::int) then 'expired'
          when $2::bigint = counter then 'rotate'
          when $2::bigint = counter - 1 then 'repeat'
          when $2::bigint < counter and rotated_at[counter - $2::bigint] > now() - make_interval(secs => $3::int) then 'repeat'
          when $2::bigint < counter then 'reuse'
          else 'unknown' end as verdict
        from s
    ), kept as (
      update auth.sessions t
         set refresh_token_counter = j.counter + (j.verdict = 'rotate')::int,
             rotated_at = case when j.verdict = 'rotate' then (array_prepend(now(), j.rotated_at))[1:32] else j.rotated_at end,
             refreshed_at = now(), updated_at = now(),
             tokens_until = greatest(t.tokens_until, now() + make_interval(secs => $5::int))
        from judged j
       where t.id = j.id and j.verdict in ('rotate', 'repeat')
      returning t.refresh_token_counter
    ), ended as (
      delete from auth.sessions t using judged j where t.id = j.id and j.verdict = 'reuse' returning t.id
    ), told as (
      insert into auth.events (type, user_id, email)
      select 'user.signed_out', j.user_id, j.email from judged j where j.verdict = 'reuse'
    )
    select j.verdict, coalesce((select refresh_token_counter from kept), j.counter), j.aal, j.amr,
           (select auth.user_object(u) from auth.users u where u.id = j.user_id)
      from judged j`,
}

/** Who a token speaks for, as long as its session exists. */
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

/** How many sessions ended. */
export const deleteSessions = (
  session: Session,
  userId: string,
  scope: LogoutScope,
  sessionId: string | null,
) =>
  session.run(sql`
    delete from auth.sessions
     where user_id = ${userId}
       and case ${scope}::text when 'global' then true when 'local' then id = ${sessionId}::uuid
                               else id is distinct from ${sessionId}::uuid end`)
