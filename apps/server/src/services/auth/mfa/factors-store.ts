// Second factors of users, one function per statement.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { expectRow } from '../expected-row.ts'
import type { CurrentSession } from '../sessions-store.ts'
import type { SessionState } from '../tokens.ts'
import { stepSeconds } from './totp.ts'

export const hasVerifiedFactor = async (session: Session, userId: string): Promise<boolean> =>
  (await session.row(
    sql`select from auth.mfa_factors where user_id = ${userId} and status = 'verified' limit 1`,
  )) !== undefined

/** A factor as clients see it, without its secret. */
export type FactorObject = { id: string; status: string; factor_type: string } & Record<string, unknown>

export const listFactors = async (session: Session, userId: string): Promise<FactorObject[]> => {
  const rows = await session.rows<{ factor: FactorObject }>(sql`
    select auth.factor_object(f) as factor from auth.mfa_factors f
     where f.user_id = ${userId} order by f.created_at, f.id`)
  return rows.map(({ factor }) => factor)
}

/** Deletes expired enrolments, so that they do not count against the maximum of factors. */
export const deleteExpiredFactors = (session: Session, userId: string, lifetimeSeconds: number) =>
  session.run(sql`
    delete from auth.mfa_factors
     where user_id = ${userId} and status = 'unverified'
       and created_at < now() - make_interval(secs => ${lifetimeSeconds})`)

export const countFactors = async (session: Session, userId: string): Promise<number> =>
  (await session.row<{ count: number }>(
    sql`select count(*)::int as count from auth.mfa_factors where user_id = ${userId}`,
  ))!.count

export interface NewFactor {
  id: string
  userId: string
  name: string | null
  sealedSecret: string
}

/** False when another factor of the user has this name. */
export const insertTotpFactor = async (session: Session, factor: NewFactor): Promise<boolean> =>
  (await session.run(sql`
    insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, secret)
    values (${factor.id}, ${factor.userId}, ${factor.name}, 'totp', ${factor.sealedSecret})
    on conflict do nothing`)) === 1

export interface FactorRow {
  id: string
  factor_type: string
  is_verified: boolean
  /** The enrolment was not verified in time. */
  is_expired: boolean
  secret: string | null
  last_used_step: number | null
  /** From the database clock, which all nodes share. */
  current_step: number
}

/** Locks the factor until the transaction ends. */
export const findFactor = (session: Session, userId: string, id: string, lifetimeSeconds: number) =>
  session.row<FactorRow>(sql`
    select id, factor_type, status = 'verified' as is_verified,
           status = 'unverified' and created_at < now() - make_interval(secs => ${lifetimeSeconds}) as is_expired,
           secret, last_used_step::int, floor(extract(epoch from clock_timestamp()) / ${stepSeconds})::int as current_step
      from auth.mfa_factors where id = ${id} and user_id = ${userId} for update`)

/** Seconds until the factor accepts codes again. 0 while the wrong codes in the window are below the maximum. */
export const secondsLocked = async (
  session: Session,
  factorId: string,
  maxAttempts: number,
  windowSeconds: number,
): Promise<number> => {
  const row = await session.row<{ seconds: number }>(sql`
    select case when sum(attempts) < ${maxAttempts} then 0
                else ceil(extract(epoch from min(created_at) + make_interval(secs => ${windowSeconds}) - now()))::int
           end as seconds
      from auth.mfa_challenges
     where factor_id = ${factorId} and attempts > 0 and created_at > now() - make_interval(secs => ${windowSeconds})`)
  return row?.seconds ?? 0
}

/** Deletes older challenges, except those whose wrong codes still count. */
export async function insertChallenge(
  session: Session,
  factorId: string,
  ip: string,
  { lifetimeSeconds, keptSeconds }: { lifetimeSeconds: number; keptSeconds: number },
): Promise<{ id: string; expires_at: number }> {
  const inserted = await session.row<{ id: string; expires_at: number }>(sql`
    with old as (
      delete from auth.mfa_challenges
       where factor_id = ${factorId} and created_at < now() - make_interval(secs => ${keptSeconds})
    ), asked as (
      update auth.mfa_factors set last_challenged_at = now(), updated_at = now() where id = ${factorId}
    )
    insert into auth.mfa_challenges (factor_id, ip_address) values (${factorId}, ${ip})
    returning id, (floor(extract(epoch from created_at)) + ${lifetimeSeconds})::int as expires_at`)
  return expectRow(inserted)
}

export interface ChallengeRow {
  id: string
  ip_address: string
  attempts: number
  is_answered: boolean
  is_expired: boolean
}

export const findChallenge = (session: Session, factorId: string, id: string, lifetimeSeconds: number) =>
  session.row<ChallengeRow>(sql`
    select id, ip_address, attempts, verified_at is not null as is_answered,
           created_at < now() - make_interval(secs => ${lifetimeSeconds}) as is_expired
      from auth.mfa_challenges where id = ${id} and factor_id = ${factorId}`)

export const countWrongAnswer = (session: Session, challengeId: string) =>
  session.run(sql`update auth.mfa_challenges set attempts = attempts + 1 where id = ${challengeId}`)

/** Marks the factor as verified. Deletes its other challenges and the user's unverified factors. */
export const acceptAnswer = (
  session: Session,
  {
    userId,
    factorId,
    challengeId,
    step,
  }: Record<'userId' | 'factorId' | 'challengeId', string> & { step: number },
) =>
  session.run(sql`
    with answered as (
      update auth.mfa_challenges set verified_at = now() where id = ${challengeId}
    ), others as (
      delete from auth.mfa_challenges where factor_id = ${factorId} and id <> ${challengeId}
    ), unfinished as (
      delete from auth.mfa_factors where user_id = ${userId} and id <> ${factorId} and status = 'unverified'
    )
    update auth.mfa_factors set status = 'verified', last_used_step = ${step}, updated_at = now()
     where id = ${factorId}`)

/**
 * Upgrades the session to aal2 and rotates its refresh token. Ends the user's other sessions at aal1, because they may
 * belong to someone who has only the password.
 */
export async function upgradeSession(
  session: Session,
  userId: string,
  { id }: CurrentSession,
  factorId: string,
  lifetimeSeconds: number,
): Promise<SessionState> {
  const upgraded = await session.row<SessionState>(sql`
    with ended as (
      delete from auth.sessions where user_id = ${userId} and id <> ${id} and aal = 'aal1'
    ), flows as (
      delete from auth.flow_state where user_id = ${userId} or linking_user_id = ${userId}
    )
    update auth.sessions s
       set aal = 'aal2', factor_id = ${factorId},
           amr = jsonb_build_object('method', 'totp', 'timestamp', extract(epoch from now())::bigint)
                 || ${withoutTotp},
           refresh_token_counter = refresh_token_counter + 1,
           rotated_at = (array_prepend(now(), rotated_at))[1:32],
           refreshed_at = now(), updated_at = now(),
           tokens_until = greatest(tokens_until, now() + make_interval(secs => ${lifetimeSeconds}))
     where id = ${id}
    returning id, aal, amr, refresh_token_counter::int as counter`)
  return expectRow(upgraded)
}

/** Downgrades the sessions that used this factor to aal1. */
export const downgradeSessions = (session: Session, factorId: string) =>
  session.run(sql`
    update auth.sessions s set aal = 'aal1', factor_id = null, amr = ${withoutTotp}, updated_at = now()
     where factor_id = ${factorId}`)

const withoutTotp = sql`
  (select coalesce(jsonb_agg(each.entry order by each.place), '[]')
     from jsonb_array_elements(s.amr) with ordinality as each (entry, place)
    where each.entry ->> 'method' <> 'totp')`

/** Undefined when the user does not have this factor. */
export const deleteFactor = async (
  session: Session,
  userId: string,
  id: string,
): Promise<FactorObject | undefined> =>
  (
    await session.row<{ factor: FactorObject }>(sql`
      delete from auth.mfa_factors f where f.id = ${id} and f.user_id = ${userId}
      returning auth.factor_object(f) as factor`)
  )?.factor
