// Pending sign-in flows, one function per statement.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface Flow {
  id: string
  user_id: string | null
  linking_user_id: string | null
  linking_session_id: string | null
  provider: string
  authentication_method: string
  code_challenge: string | null
  code_challenge_method: 's256' | 'plain' | null
  redirect_to: string
  /** Sealed. */
  secrets: string | null
  has_expired: boolean
}

export type NewFlow = Pick<
  Flow,
  | 'linking_user_id'
  | 'linking_session_id'
  | 'provider'
  | 'code_challenge'
  | 'code_challenge_method'
  | 'redirect_to'
  | 'secrets'
> & { id: string }

type RowAccess = Pick<Session, 'row' | 'run'>

/** The flow expires after five minutes. Also deletes flows that expired long ago. */
export const insertFlow = (session: RowAccess, flow: NewFlow) =>
  session.run(sql`
    with swept as (delete from auth.flow_state where expires_at < now() - interval '10 minutes')
    insert into auth.flow_state (id, linking_user_id, linking_session_id, provider, authentication_method, code_challenge,
                                 code_challenge_method, redirect_to, secrets, expires_at)
    values (${flow.id}, ${flow.linking_user_id}, ${flow.linking_session_id}, ${flow.provider}, 'oauth', ${flow.code_challenge},
            ${flow.code_challenge_method}, ${flow.redirect_to}, ${flow.secrets}, now() + interval '5 minutes')`)

const flowColumns = sql`
  id, user_id, linking_user_id, linking_session_id, provider, authentication_method, code_challenge, code_challenge_method, redirect_to,
  secrets, expires_at <= now() as has_expired`

/** Finds and deletes the flow, so that a state works once. */
export const consumeFlow = (session: RowAccess, id: string) =>
  session.row<Flow>(sql`
    delete from auth.flow_state where id = ${id} and provider <> 'email' and auth_code_hash is null
    returning ${flowColumns}`)

export interface CodeFlow {
  userId: string
  provider: string
  challenge: string
  challengeMethod: string
  codeHash: string
  redirectTo: string
  secrets: string
}

/** After the callback the client has five minutes to exchange the code for its session. */
export const insertCodeFlow = (session: Session, flow: CodeFlow) =>
  session.run(sql`
    insert into auth.flow_state (user_id, provider, authentication_method, code_challenge, code_challenge_method,
                                 auth_code_hash, redirect_to, secrets, expires_at)
    values (${flow.userId}, ${flow.provider}, 'oauth', ${flow.challenge}, ${flow.challengeMethod}, ${flow.codeHash},
            ${flow.redirectTo}, ${flow.secrets}, now() + interval '5 minutes')`)

/** Returns the user id, so that the user can be locked before the flow. */
export const findFlowOwner = async (session: Session, codeHash: string) =>
  (
    await session.row<{ user_id: string | null }>(
      sql`select user_id from auth.flow_state where auth_code_hash = ${codeHash}`,
    )
  )?.user_id ?? undefined

/** Locks the flow, so that of two exchanges of one code the second finds nothing. */
export const findFlowByCode = (session: Session, codeHash: string) =>
  session.row<Flow>(
    sql`select ${flowColumns} from auth.flow_state where auth_code_hash = ${codeHash} for update`,
  )

export const deleteFlow = (session: Session, id: string) =>
  session.run(sql`delete from auth.flow_state where id = ${id}`)
