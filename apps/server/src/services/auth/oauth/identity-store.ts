// Provider identities and their users, one function per statement.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export const findUserIdByIdentity = async (session: Session, provider: string, subject: string) =>
  (
    await session.row<{ user_id: string }>(sql`
      select i.user_id from auth.identities i join auth.users u on u.id = i.user_id and u.deleted_at is null
       where i.provider = ${provider} and i.provider_id = ${subject}`)
  )?.user_id

export const writeIdentityData = (session: Session, provider: string, subject: string, data: object) =>
  session.run(sql`
    update auth.identities set identity_data = ${JSON.stringify(data)}, last_sign_in_at = now(), updated_at = now()
     where provider = ${provider} and provider_id = ${subject}`)

/** Copies the provider's claims to the user metadata, unless the metadata would exceed its size limit. */
export const mergeClaims = (session: Session, userId: string, claims: object) =>
  session.run(sql`
    update auth.users u set updated_at = now(), raw_user_meta_data = m.merged
      from (select raw_user_meta_data || ${JSON.stringify(claims)}::jsonb as merged from auth.users where id = ${userId}) m
     where u.id = ${userId} and octet_length(m.merged::text) + octet_length(u.raw_app_meta_data::text) <= 8000`)

/** Deletes everything that gives access to an account whose address was never proven. */
export const resetUnprovenAccount = (session: Session, userId: string) =>
  session.run(sql`
    with identities as (delete from auth.identities where user_id = ${userId}),
         sessions as (delete from auth.sessions where user_id = ${userId}),
         factors as (delete from auth.mfa_factors where user_id = ${userId}),
         tokens as (delete from auth.one_time_tokens where user_id = ${userId}),
         flows as (delete from auth.flow_state where user_id = ${userId} or linking_user_id = ${userId})
    update auth.users
       set encrypted_password = null, email_change = null, email_change_confirm_status = 0, phone = null,
           phone_confirmed_at = null, phone_change = null, raw_user_meta_data = '{}', updated_at = now()
     where id = ${userId}`)

/** Sets an address that the provider has verified. The user may have had none. */
export const writeConfirmedEmail = (session: Session, userId: string, email: string) =>
  session.run(sql`
    update auth.users
       set email = ${email}, email_confirmed_at = coalesce(email_confirmed_at, now()),
           is_email_unproven = false, updated_at = now()
     where id = ${userId}`)

export const markPermanent = (session: Session, userId: string) =>
  session.run(sql`update auth.users set is_anonymous = false, updated_at = now() where id = ${userId}`)

/** Updates `provider` and `providers` in app_metadata from the identities. */
export const writeProviders = (session: Session, userId: string) =>
  session.run(sql`
    update auth.users u set updated_at = now(),
           raw_app_meta_data = u.raw_app_meta_data || jsonb_build_object('provider', i.providers[1], 'providers', i.providers)
      from (select array_agg(provider order by first_at, provider) as providers
              from (select provider, min(created_at) as first_at
                      from auth.identities where user_id = ${userId} group by provider) p) i
     where u.id = ${userId} and i.providers is not null`)

export interface IdentityRow {
  id: string
  provider: string
  email: string | null
  is_verified: boolean
}

export const listIdentities = (session: Session, userId: string) =>
  session.rows<IdentityRow>(sql`
    select id, provider, email, coalesce(identity_data -> 'email_verified' = 'true', false) as is_verified
      from auth.identities where user_id = ${userId} order by created_at, id for update`)

export const deleteIdentity = (session: Session, id: string) =>
  session.run(sql`delete from auth.identities where id = ${id}`)

export const isAddressTaken = async (session: Session, email: string, exceptUserId: string) =>
  (await session.row(
    sql`select from auth.users where email = ${email} and id <> ${exceptUserId} and deleted_at is null`,
  )) !== undefined

/** Sets the address of a remaining identity. Deletes tokens and flows that belong to the old address. */
export const moveToAddress = (
  session: Session,
  userId: string,
  email: string | null,
  isConfirmed: boolean,
  isProven: boolean,
) =>
  session.run(sql`
    with sent as (delete from auth.one_time_tokens where user_id = ${userId}),
         flows as (delete from auth.flow_state where user_id = ${userId} or linking_user_id = ${userId})
    update auth.users
       set email = ${email}, email_confirmed_at = case when ${isConfirmed} then coalesce(email_confirmed_at, now()) end,
           is_email_unproven = ${isConfirmed && !isProven}, updated_at = now()
     where id = ${userId}`)

/** For a user who unlinks the email identity. */
export const dropPassword = (session: Session, userId: string) =>
  session.run(sql`update auth.users set encrypted_password = null, updated_at = now() where id = ${userId}`)
