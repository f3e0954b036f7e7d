// Email change, one function per step. It takes effect when both addresses have confirmed it.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { writeEmailIdentity } from '../users-store.ts'

/** Replaces a pending change. */
export const beginEmailChange = (session: Session, id: string, address: string) =>
  session.run(sql`
    with dead as (
      -- The rows stay: wrong codes of this hour still count.
      update auth.one_time_tokens set token_hash = '', expires_at = now()
       where user_id = ${id} and token_type in ('email_change_current', 'email_change_new'))
    update auth.users set email_change = ${address}, email_change_confirm_status = 0, updated_at = now()
     where id = ${id}`)

/** A bit mask: 1 for the new address, 2 for the current one. */
export const saveEmailChangeStatus = (session: Session, id: string, confirmed: number) =>
  session.run(sql`
    update auth.users set email_change_confirm_status = ${confirmed}, updated_at = now() where id = ${id}`)

/**
 * Sets the new address as confirmed and makes an anonymous user permanent. Deletes all pending flows except the one
 * whose link was followed, because they were started for the old address.
 */
export async function finishEmailChange(
  session: Session,
  id: string,
  address: string,
  isProven: boolean,
  followedFlowId: string | null = null,
): Promise<void> {
  await session.run(sql`
    with gone as (
      delete from auth.one_time_tokens
       where user_id = ${id} and token_type in ('email_change_current', 'email_change_new', 'confirmation', 'recovery')),
         flows as (
           delete from auth.flow_state
            where (user_id = ${id} or linking_user_id = ${id}) and id is distinct from ${followedFlowId}::uuid)
    update auth.users set email = ${address}, email_change = null, email_change_confirm_status = 0,
           email_confirmed_at = now(), is_email_unproven = ${!isProven}, is_anonymous = false, updated_at = now(),
           raw_user_meta_data = raw_user_meta_data || jsonb_build_object('email', ${address}::text, 'email_verified', true),
           raw_app_meta_data = case when raw_app_meta_data ? 'provider' then raw_app_meta_data
             else raw_app_meta_data || '{"provider": "email", "providers": ["email"]}' end
     where id = ${id}`)
  await writeEmailIdentity(session, id, address, true)
}
