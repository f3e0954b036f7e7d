import type { PlatformUser } from '@plinth/contract/admin.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const columns = sql`id, email, name, role, is_active, created_at, updated_at, last_login_at`

export async function listUsers(control: Database, { limit, offset }: Paging) {
  const [rows, count] = await Promise.all([
    control.rows<PlatformUser>(
      sql`select ${columns} from users order by created_at, id limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(sql`select count(*)::int as total from users`),
  ])
  return { rows, total: count?.total ?? 0 }
}

/** Returns the new user, or undefined when the address is taken. */
export const insertUser = (
  control: Database,
  user: { email: string; name: string; role: string; passwordHash: string },
) =>
  control.row<PlatformUser>(sql`
    insert into users (email, name, role, password_hash)
    values (${user.email}, ${user.name}, ${user.role}, ${user.passwordHash})
    on conflict (lower(email)) do nothing returning ${columns}`)

/** The same, but only if there is no active super_admin. */
export const insertFirstSuperAdmin = (
  session: Session,
  user: { email: string; name: string; passwordHash: string },
) =>
  session.row<PlatformUser>(sql`
    insert into users (email, name, role, password_hash)
    select ${user.email}, ${user.name}, 'super_admin', ${user.passwordHash}
     where not exists (select from users where role = 'super_admin' and is_active)
    on conflict (lower(email)) do nothing returning ${columns}`)

/** Every removal or demotion of a super_admin locks all of them, so that two concurrent ones cannot leave none. */
export const lockSuperAdmins = (session: Session) =>
  session.rows<{ id: string }>(
    sql`select id from users where role = 'super_admin' and is_active order by id for update`,
  )

export const lockUser = (session: Session, id: string) =>
  session.row<PlatformUser>(sql`select ${columns} from users where id = ${id} for update`)

export const saveUser = (
  session: Session,
  user: Pick<PlatformUser, 'id' | 'email' | 'name' | 'role' | 'is_active'>,
  passwordHash: string | undefined,
) =>
  session.row<PlatformUser>(sql`
    update users set email = ${user.email}, name = ${user.name}, role = ${user.role}, is_active = ${user.is_active},
           password_hash = coalesce(${passwordHash ?? null}, password_hash),
           session_version = session_version + ${passwordHash === undefined && user.is_active ? 0 : 1},
           updated_at = now()
     where id = ${user.id} returning ${columns}`)

export const deleteUser = (session: Session, id: string) =>
  session.run(sql`delete from users where id = ${id}`)
