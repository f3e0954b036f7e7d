// One-time tokens sent by mail, one function per statement. A user has one token per slot; a new one replaces the old.
import type { Session } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { expectRow } from '../expected-row.ts'

export type Slot =
  | 'confirmation'
  | 'recovery'
  | 'email_change_current'
  | 'email_change_new'
  | 'reauthentication'

export interface NewOneTime {
  userId: string
  slot: Slot
  hash: string
  address: string
  flowId: string | null
  startsOver: boolean
  expirySeconds: number
}

/** Also sets the `…_sent_at` column of the user, which clients read. */
export const writeOneTime = (
  session: Session,
  { userId, slot, hash, address, flowId, startsOver, expirySeconds }: NewOneTime,
) =>
  session.run(sql`
    with written as (
      insert into auth.one_time_tokens (user_id, token_type, token_hash, relates_to, flow_id, starts_over, expires_at)
      values (${userId}, ${slot}, ${hash}, ${address}, ${flowId}, ${startsOver}, now() + make_interval(secs => ${expirySeconds}))
      on conflict (user_id, token_type) do update
        set token_hash = excluded.token_hash, relates_to = excluded.relates_to, flow_id = excluded.flow_id,
            -- Once set, starts_over stays until the token expires. Another sign-up must not clear it.
            starts_over = excluded.starts_over or (auth.one_time_tokens.starts_over and auth.one_time_tokens.expires_at > now()),
            expires_at = excluded.expires_at, attempts = 0, created_at = now())
    update auth.users set
           confirmation_sent_at = case when ${slot}::text = 'confirmation' then now() else confirmation_sent_at end,
           recovery_sent_at = case when ${slot}::text = 'recovery' then now() else recovery_sent_at end,
           email_change_sent_at = case when ${slot}::text like 'email_change%' then now() else email_change_sent_at end,
           reauthentication_sent_at =
             case when ${slot}::text = 'reauthentication' then now() else reauthentication_sent_at end
     where id = ${userId}`)

export interface FoundOneTime {
  user_id: string
  token_type: Slot
  relates_to: string
  flow_id: string | null
  starts_over: boolean
}

/** Finds and deletes the token of a link, so that it works once. Locks the user first, as all flows do. */
export async function consumeByLinkToken(
  session: Session,
  hash: string,
  slots: readonly Slot[],
): Promise<FoundOneTime | undefined> {
  const isLinked = sql`token_hash = ${hash} and token_type = any(${slots}) and expires_at > now()`
  await lockUsers(session, isLinked)
  return session.row<FoundOneTime>(sql`
    delete from auth.one_time_tokens where ${isLinked}
    returning user_id, token_type, relates_to, flow_id, starts_over`)
}

/** Every flow locks the user before other rows of the user. The fixed order prevents deadlocks. */
const lockUsers = (session: Session, ofTokens: SqlFragment) =>
  session.rows(sql`
    select from auth.users where id in (select user_id from auth.one_time_tokens where ${ofTokens}) order by id
    for no key update`)

const maxAttempts = { perCode: 10, perHour: 30 }

/**
 * Finds and deletes the token of a typed code. A wrong code counts against every token sent to the address, and the
 * lock on the user makes concurrent attempts count one by one. Ten wrong codes invalidate a token. After thirty within
 * an hour the address accepts no code at all; the links in its mails still work.
 */
export async function consumeByCode(
  session: Session,
  address: string,
  hashes: readonly string[],
  slots: readonly Slot[],
): Promise<FoundOneTime | undefined> {
  const isSentThere = sql`relates_to = ${address} and token_type = any(${slots})`
  const isThisHour = sql`hour_since > now() - interval '1 hour'`
  await lockUsers(session, isSentThere)
  const found = await session.row<FoundOneTime>(sql`
    delete from auth.one_time_tokens
     where ${isSentThere} and token_hash = any(${hashes}) and expires_at > now()
       and not (${isThisHour} and tried_in_hour >= ${maxAttempts.perHour})
    returning user_id, token_type, relates_to, flow_id, starts_over`)
  if (!found)
    await session.run(sql`
      update auth.one_time_tokens
         set attempts = attempts + 1,
             token_hash = case when attempts + 1 >= ${maxAttempts.perCode} then '' else token_hash end,
             tried_in_hour = case when ${isThisHour} then tried_in_hour + 1 else 1 end,
             hour_since = case when ${isThisHour} then hour_since else now() end
       where ${isSentThere}`)
  return found
}

export interface NewFlow {
  userId: string
  method: string
  challenge: string
  challengeMethod: string
  redirectTo: string
  expirySeconds: number
}

/** Stores the PKCE challenge of the client, which alone can exchange the link for a session. */
export async function insertMailFlow(session: Session, flow: NewFlow): Promise<string> {
  const row = await session.row<{ id: string }>(sql`
    with swept as (delete from auth.flow_state where expires_at < now() - interval '10 minutes')
    insert into auth.flow_state (user_id, provider, authentication_method, code_challenge, code_challenge_method,
                                 redirect_to, expires_at)
    values (${flow.userId}, 'email', ${flow.method}, ${flow.challenge}, ${flow.challengeMethod}, ${flow.redirectTo},
            now() + make_interval(secs => ${flow.expirySeconds}))
    returning id`)
  return expectRow(row).id
}

/** The client has five minutes to exchange the code. False when the flow no longer exists. */
export async function saveFlowCode(session: Session, flowId: string, codeHash: string): Promise<boolean> {
  const updated = await session.run(sql`
    update auth.flow_state set auth_code_hash = ${codeHash}, expires_at = now() + interval '5 minutes'
     where id = ${flowId} and auth_code_hash is null`)
  return updated === 1
}
