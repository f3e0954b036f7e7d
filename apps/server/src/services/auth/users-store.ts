// Users and their identities, one function per statement.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { TokenUser } from './tokens.ts'

/** A user as clients see it, built by auth.user_object in the database. */
export type UserObject = TokenUser & Record<string, unknown>

export interface UserRow {
  id: string
  email: string | null
  encrypted_password: string | null
  email_confirmed_at: string | null
  is_email_unproven: boolean
  email_change: string | null
  email_change_confirm_status: number
  is_anonymous: boolean
  is_banned: boolean
  raw_user_meta_data: Record<string, unknown>
  raw_app_meta_data: Record<string, unknown>
}

const userColumns = sql`
  u.id, u.email, u.encrypted_password, u.email_confirmed_at, u.is_email_unproven, nullif(u.email_change, '') as email_change,
  u.email_change_confirm_status, u.is_anonymous, coalesce(u.banned_until > now(), false) as is_banned,
  u.raw_user_meta_data, u.raw_app_meta_data`

/** Locks the user until the transaction ends, so that concurrent flows on one user run one after the other. */
export const findUserByEmail = (session: Session, email: string) =>
  session.row<UserRow>(
    sql`select ${userColumns} from auth.users u where u.email = ${email} and u.deleted_at is null for no key update`,
  )

/** Takes no lock, because a sign-in hashes the password before it starts its transaction. */
export const findPasswordHash = async (session: Pick<Session, 'row'>, email: string) =>
  (
    await session.row<{ hash: string | null }>(
      sql`select encrypted_password as hash from auth.users where email = ${email} and deleted_at is null`,
    )
  )?.hash || undefined

export const findUser = (session: Session, id: string) =>
  session.row<UserRow>(
    sql`select ${userColumns} from auth.users u where u.id = ${id} and u.deleted_at is null for no key update`,
  )

/** The user with a pending email change from or to this address. */
export const findUserByEmailChange = (session: Session, address: string) =>
  session.row<UserRow>(sql`
    select ${userColumns} from auth.users u
     where u.email_change <> '' and (u.email_change = ${address} or u.email = ${address}) and u.deleted_at is null
     order by u.email_change = ${address} desc limit 1 for no key update`)

export async function readUserObject(session: Session, id: string): Promise<UserObject | undefined> {
  const row = await session.row<{ user: UserObject }>(
    sql`select auth.user_object(u) as "user" from auth.users u where u.id = ${id}`,
  )
  return row?.user
}

export interface NewUser {
  id?: string | undefined
  email: string | null
  passwordHash: string | null
  isConfirmed: boolean
  isProven?: boolean
  isAnonymous: boolean
  userMetadata: object
  appMetadata: object
  role?: string | undefined
  aud?: string | undefined
  bannedUntil?: string | null | undefined
}

/** Returns the new user's id, or undefined when the address or id is taken. */
export async function insertUser(session: Session, user: NewUser): Promise<string | undefined> {
  const row = await session.row<{ id: string }>(sql`
    insert into auth.users (id, email, encrypted_password, email_confirmed_at, is_email_unproven, is_anonymous, raw_user_meta_data,
                            raw_app_meta_data, role, aud, banned_until)
    values (coalesce(${user.id ?? null}::uuid, gen_random_uuid()), ${user.email}, ${user.passwordHash},
            case when ${user.isConfirmed} then now() end, ${user.isConfirmed && !user.isProven},
            ${user.isAnonymous}, ${JSON.stringify(user.userMetadata)},
            ${JSON.stringify(user.appMetadata)}, ${user.role ?? 'authenticated'}, ${user.aud ?? 'authenticated'},
            ${user.bannedUntil ?? null})
    on conflict do nothing returning id`)
  return row?.id
}

export interface NewIdentity {
  userId: string
  provider: string
  providerId: string
  data: object
}

/** False when a user already has the identity. */
export async function insertIdentity(session: Session, identity: NewIdentity): Promise<boolean> {
  const inserted = await session.run(sql`
    insert into auth.identities (user_id, provider, provider_id, identity_data, last_sign_in_at)
    values (${identity.userId}, ${identity.provider}, ${identity.providerId}, ${JSON.stringify(identity.data)}, now())
    on conflict do nothing`)
  return inserted === 1
}

/** Keeps the email identity in sync with the user's address and its confirmation. */
export const writeEmailIdentity = (
  session: Session,
  userId: string,
  email: string,
  isVerified: boolean,
  data: object = {},
) =>
  session.run(sql`
    insert into auth.identities (user_id, provider, provider_id, identity_data, last_sign_in_at)
    values (${userId}, 'email', ${userId},
            ${JSON.stringify({ ...data, sub: userId, email, email_verified: isVerified, phone_verified: false })}::jsonb, now())
    on conflict (provider, provider_id) do update
      set identity_data = auth.identities.identity_data || excluded.identity_data, updated_at = now()`)

/** `isProven`: the user opened a mail to the address, or the admin API confirmed it. Auto-confirmation proves nothing. */
export const confirmEmail = (session: Session, id: string, isProven: boolean) =>
  session.run(sql`
    with confirmed as (
      update auth.users set email_confirmed_at = coalesce(email_confirmed_at, now()), updated_at = now(),
             is_email_unproven = ${!isProven} and (is_email_unproven or email_confirmed_at is null),
             raw_user_meta_data = raw_user_meta_data
               || '{"email_verified": true}'
       where id = ${id} returning id)
    update auth.identities i set updated_at = now(),
           identity_data = i.identity_data || '{"email_verified": true}'::jsonb
      from confirmed where i.user_id = confirmed.id and i.provider = 'email'`)

/**
 * Deletes the password, sessions, factors and identities of an account whose address nobody has proven to own.
 * Otherwise a stranger could sign up with somebody's address first and keep access after the owner confirms it.
 * `data` of the admin API becomes the metadata. Otherwise the metadata is a copy of the identity.
 */
export const resetUnprovenUser = (session: Session, id: string, data?: object) =>
  session.run(sql`
    with sessions as (delete from auth.sessions where user_id = ${id}),
         factors as (delete from auth.mfa_factors where user_id = ${id}),
         others as (delete from auth.identities where user_id = ${id} and provider <> 'email'),
         own as (
           update auth.identities set updated_at = now(), identity_data = ${JSON.stringify(data ?? {})}::jsonb
                  || jsonb_build_object('sub', user_id, 'email', email, 'email_verified', false, 'phone_verified', false)
            where user_id = ${id} and provider = 'email')
    update auth.users
       set encrypted_password = null, updated_at = now(), raw_user_meta_data = coalesce(${data ? JSON.stringify(data) : null}::jsonb,
             jsonb_build_object('sub', id, 'email', email, 'email_verified', false, 'phone_verified', false))
     where id = ${id}`)

/** Merges top-level keys. A null removes the key. */
export const mergeMetadata = (session: Session, id: string, user: object, app: object) =>
  session.run(sql`
    update auth.users set updated_at = now(),
           raw_user_meta_data = (raw_user_meta_data || ${JSON.stringify(user)}::jsonb) - ${nullKeys(user)}::text[],
           raw_app_meta_data = (raw_app_meta_data || ${JSON.stringify(app)}::jsonb) - ${nullKeys(app)}::text[]
     where id = ${id}`)

const nullKeys = (given: object) =>
  Object.entries(given).flatMap(([key, value]) => (value === null ? [key] : []))

/** Also deletes one-time tokens and pending flows, because someone who knew the old password may hold them. */
export const writePassword = (session: Session, id: string, hash: string) =>
  session.run(sql`
    with sent as (delete from auth.one_time_tokens where user_id = ${id}),
         flows as (delete from auth.flow_state where user_id = ${id} or linking_user_id = ${id})
    update auth.users set encrypted_password = ${hash}, updated_at = now() where id = ${id}`)

export const deleteUserRow = (session: Session, id: string) =>
  session.row<{ id: string; email: string | null }>(
    sql`delete from auth.users where id = ${id} returning id, email`,
  )

export type EventType =
  | 'user.created'
  | 'user.updated'
  | 'user.deleted'
  | 'user.signed_in'
  | 'user.signed_out'

/** Runs in the transaction of the change, so that the event is committed if and only if the change is. */
export const writeEvent = (session: Session, type: EventType, userId: string, email: string | null) =>
  session.run(sql`
    insert into platform.events (kind, payload)
    values (${type}, jsonb_build_object('user_id', ${userId}::uuid, 'email', ${email}::text))`)
