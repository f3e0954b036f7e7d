// Statements of the user import, one function each.
import { jsonText } from '#src/kernel/json-text.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { ImportedUser } from './record.ts'

/**
 * Inserts users with their identities and events, skips those whose address or id is taken, and returns the inserted
 * ids. Inserts in the order of addresses, so that concurrent imports do not deadlock.
 */
export async function insertImported(session: Session, users: readonly ImportedUser[]): Promise<Set<string>> {
  const { bytes } = await jsonText(users)
  const rows = await session.rows<{ id: string }>(sql`
    with given as (
      select * from jsonb_to_recordset(${bytes.toString('utf8')}::jsonb) as g(
        id uuid, email text, password_hash text, email_confirmed_at timestamptz, created_at timestamptz,
        user_metadata jsonb)
    ), made as (
      insert into auth.users (id, email, encrypted_password, email_confirmed_at, created_at,
                              raw_user_meta_data, raw_app_meta_data)
      select id, email, password_hash, email_confirmed_at, coalesce(created_at, now()), user_metadata,
             '{"provider": "email", "providers": ["email"]}'
        from given order by email
      on conflict do nothing
      returning id, email, email_confirmed_at, created_at
    ), identified as (
      insert into auth.identities (user_id, provider, provider_id, identity_data, created_at)
      select id, 'email', id::text,
             jsonb_build_object('sub', id, 'email', email, 'email_verified', email_confirmed_at is not null,
                                'phone_verified', false),
             created_at
        from made
    ), event as (
      insert into platform.events (kind, payload)
      select 'user.created', jsonb_build_object('user_id', id, 'email', email) from made
    )
    select id from made`)
  return new Set(rows.map(({ id }) => id))
}

/** Users that already have one of these addresses or ids. */
export const findTaken = (session: Session, users: readonly ImportedUser[]) =>
  session.rows<{ id: string; email: string | null }>(sql`
    select id, email from auth.users
     where email = any(${users.map(({ email }) => email)}) or id = any(${users.map(({ id }) => id)}::uuid[])`)
