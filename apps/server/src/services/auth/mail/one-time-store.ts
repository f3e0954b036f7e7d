// Codes and links sent by mail, one function per statement. Each slot of a user holds one: a new one takes the place of
// the one before.
import type { Session } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { written } from '../written.ts'

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

/** Also notes at the user when it was sent, where clients look. */
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
            -- Once asked for by the reader of the mail, it stays so: nobody else can take that back by asking again.
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

/** By what a link carries. Takes it away: whoever comes second finds nothing. The user is locked before, as everywhere. */
export async function takeByLinkToken(
  session: Session,
  hash: string,
  slots: readonly Slot[],
): Promise<FoundOneTime | undefined> {
  const carried = sql`token_hash = ${hash} and token_type = any(${slots}) and expires_at > now()`
  await lockUsers(session, carried)
  return session.row<FoundOneTime>(sql`
    delete from auth.one_time_tokens where ${carried}
    returning user_id, token_type, relates_to, flow_id, starts_over`)
}

/** Every flow locks users first and what belongs to them after: nobody waits in a circle. */
const lockUsers = (session: Session, ofTokens: SqlFragment) =>
  session.rows(sql`
    select from auth.users where id in (select user_id from auth.one_time_tokens where ${ofTokens}) order by id
    for no key update`)

const mayTry = { oneCode: 10, inAnHour: 30 }

/**
 * By what a person has typed for an address. Whoever tries waits for whoever tries the same: a wrong code counts against
 * everything that was sent there. After too many of them that is good for nothing; and after very many within an hour
 * nothing that is sent later is, either, unless its link is followed.
 */
export async function takeByCode(
  session: Session,
  address: string,
  hashes: readonly string[],
  slots: readonly Slot[],
): Promise<FoundOneTime | undefined> {
  const sent = sql`relates_to = ${address} and token_type = any(${slots})`
  const isThisHour = sql`hour_since > now() - interval '1 hour'`
  await lockUsers(session, sent)
  const found = await session.row<FoundOneTime>(sql`
    delete from auth.one_time_tokens
     where ${sent} and token_hash = any(${hashes}) and expires_at > now()
       and not (${isThisHour} and tried_in_hour >= ${mayTry.inAnHour})
    returning user_id, token_type, relates_to, flow_id, starts_over`)
  if (!found)
    await session.run(sql`
      update auth.one_time_tokens
         set attempts = attempts + 1,
             token_hash = case when attempts + 1 >= ${mayTry.oneCode} then '' else token_hash end,
             tried_in_hour = case when ${isThisHour} then tried_in_hour + 1 else 1 end,
             hour_since = case when ${isThisHour} then hour_since else now() end
       where ${sent}`)
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

/** The client that asked for the mail; it alone can turn the link into a session. */
export async function insertMailFlow(session: Session, flow: NewFlow): Promise<string> {
  const row = await session.row<{ id: string }>(sql`
    with swept as (delete from auth.flow_state where expires_at < now() - interval '10 minutes')
    insert into auth.flow_state (user_id, provider, authentication_method, code_challenge, code_challenge_method,
                                 redirect_to, expires_at)
    values (${flow.userId}, 'email', ${flow.method}, ${flow.challenge}, ${flow.challengeMethod}, ${flow.redirectTo},
            now() + make_interval(secs => ${flow.expirySeconds}))
    returning id`)
  return written(row).id
}

/** From here the client has five minutes. False when the flow is gone. */
export async function giveFlowCode(session: Session, flowId: string, codeHash: string): Promise<boolean> {
  const updated = await session.run(sql`
    update auth.flow_state set auth_code_hash = ${codeHash}, expires_at = now() + interval '5 minutes'
     where id = ${flowId} and auth_code_hash is null`)
  return updated === 1
}
