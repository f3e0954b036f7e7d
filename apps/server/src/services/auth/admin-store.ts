// Statements of the admin API, one function each.
import type { Session } from '#src/kernel/postgres/database.ts'
import { allOf, sql } from '#src/kernel/postgres/sql.ts'
import type { UserObject } from './users-store.ts'

export interface UserFilter {
  /** Substring of the email address or of the full name. */
  search?: string | undefined
  isAscending: boolean
  limit: number
  offset: number
}
export interface UserPage {
  users: UserObject[]
  total: number
}

export async function listUsers(
  session: Session,
  { search, isAscending, limit, offset }: UserFilter,
): Promise<UserPage> {
  const matching = allOf([
    sql`u.deleted_at is null`,
    ...(search
      ? [
          sql`(position(lower(${search}) in u.email) > 0
              or position(lower(${search}) in lower(u.raw_user_meta_data ->> 'full_name')) > 0)`,
        ]
      : []),
  ])
  const order = isAscending ? sql`u.created_at, u.id` : sql`u.created_at desc, u.id desc`
  const rows = await session.rows<{ user: UserObject }>(
    sql`select auth.user_object(u) as "user" from auth.users u where ${matching} order by ${order} limit ${limit} offset ${offset}`,
  )
  const count = await session.row<{ total: number }>(
    sql`select count(*)::int as total from auth.users u where ${matching}`,
  )
  return { users: rows.map(({ user }) => user), total: count!.total }
}

export const writeAdminFields = (session: Session, id: string, role: string | null, aud: string | null) =>
  session.run(sql`
    update auth.users set role = coalesce(${role}, role), aud = coalesce(${aud}, aud), updated_at = now()
     where id = ${id}`)

/** Null removes the ban. Returns false for an unknown user. */
export const banUntil = async (session: Session, id: string, until: string | null, reason: string | null) =>
  (await session.run(sql`
    update auth.users set banned_until = ${until}, ban_reason = ${reason}, updated_at = now()
     where id = ${id} and deleted_at is null`)) === 1

export const markInvited = (session: Session, id: string) =>
  session.run(sql`update auth.users set invited_at = now(), updated_at = now() where id = ${id}`)

/** Soft delete: identifying columns become hashes, so that a known address or identity can still be matched. */
export const obfuscateUser = (session: Session, id: string) =>
  session.run(sql`
    with sessions as (delete from auth.sessions where user_id = ${id}),
         factors as (delete from auth.mfa_factors where user_id = ${id}),
         tokens as (delete from auth.one_time_tokens where user_id = ${id}),
         flows as (delete from auth.flow_state where user_id = ${id} or linking_user_id = ${id}),
         identities as (
           update auth.identities set identity_data = '{}', updated_at = now(),
                  provider_id = encode(sha256(convert_to(provider || provider_id, 'UTF8')), 'hex')
            where user_id = ${id})
    update auth.users set deleted_at = now(), updated_at = now(), raw_user_meta_data = '{}', raw_app_meta_data = '{}',
           encrypted_password = null, email_change = null, phone_change = null,
           email = encode(sha256(convert_to(id::text || email, 'UTF8')), 'hex'),
           phone = encode(sha256(convert_to(id::text || phone, 'UTF8')), 'hex')
     where id = ${id}`)
