import type { PlatformRole, PlatformToken } from '@plinth/contract/platform.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const tokenColumns = sql`id, name, scope, created_at, expires_at, last_used_at, revoked_at`

export const insertToken = (
  control: Database,
  token: { name: string; scope: string; hash: Buffer; expiresAt: string | null; createdBy: string },
) =>
  control.row<PlatformToken>(sql`
    insert into tokens (name, scope, hash, expires_at, created_by)
    values (${token.name}, ${token.scope}, ${token.hash}, ${token.expiresAt}, ${token.createdBy})
    returning ${tokenColumns}`)

export async function listTokens(control: Database, { limit, offset }: Paging) {
  const [rows, count] = await Promise.all([
    control.rows<PlatformToken>(
      sql`select ${tokenColumns} from tokens order by created_at desc, id limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(sql`select count(*)::int as total from tokens`),
  ])
  return { rows, total: count?.total ?? 0 }
}

export const revokeToken = (control: Database, id: string) =>
  control.run(sql`update tokens set revoked_at = now() where id = ${id} and revoked_at is null`)

export const findLogin = (control: Database, email: string) =>
  control.row<{
    id: string
    email: string
    role: PlatformRole
    password_hash: string
    session_version: number
  }>(sql`
    select id, email, role, password_hash, session_version from users
     where lower(email) = lower(${email}) and is_active`)

export const saveLoginTime = (control: Database, id: string) =>
  control.run(sql`update users set last_login_at = now() where id = ${id}`)

/**
 * Counts an attempt before its password is checked, so that concurrent attempts cannot exceed the limit.
 * Returns the seconds that the pair of network and address stays locked, or 0.
 */
export async function countAttempt(
  control: Database,
  pair: Buffer,
  allowed: number,
  lockSeconds: number,
): Promise<number> {
  const lock = sql`make_interval(secs => ${lockSeconds})`
  const isOver = sql`coalesce(f.locked_until, f.since + ${lock}) < now()`
  const row = await control.row<{ locked_for: number }>(sql`
    insert into login_failures as f (pair, failures) values (${pair}, 1)
    on conflict (pair) do update set
      failures = case when ${isOver} then 1 else f.failures + 1 end,
      since = case when ${isOver} then now() else f.since end,
      locked_until = case
        when ${isOver} then null
        when f.failures >= ${allowed} then coalesce(f.locked_until, now() + ${lock}) end
    returning coalesce(ceil(extract(epoch from locked_until - now())), 0)::int as locked_for`)
  return row?.locked_for ?? 0
}

export const deleteAttempts = (control: Database, pair: Buffer) =>
  control.run(sql`delete from login_failures where pair = ${pair}`)

export const deleteOldAttempts = (control: Database, olderThanSeconds: number) =>
  control.run(
    sql`delete from login_failures where since < now() - make_interval(secs => ${olderThanSeconds})`,
  )
