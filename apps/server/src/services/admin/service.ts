// Platform administration: users, counts, the audit log.
import type { PlatformUser } from '@plinth/contract/admin.ts'
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { Passwords } from '#src/kernel/crypto/password.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { keepOwners } from '#src/services/team/service.ts'
import { exportAudit } from './audit-export.ts'
import { type AuditFilter, deleteOlderThan, listEntries } from './audit-store.ts'
import { encryptSettingsSecrets } from './secrets-sweep.ts'
import * as users from './users-store.ts'

interface AdminDeps {
  control: Database
  passwords: Passwords
  sealer: Sealer
  auditRetentionDays: number
  /** The archive of what projects' users did. */
  pruneEvents(projectIds: readonly string[], days: number): Promise<number>
}

export interface UserChange {
  email?: string
  name?: string
  role?: PlatformRole
  is_active?: boolean
  password?: string
}

export type AdminService = ReturnType<typeof adminService>

export function adminService({ control, passwords, sealer, auditRetentionDays, pruneEvents }: AdminDeps) {
  return {
    stats: () => countEverything(control),

    async listAudit(filter: AuditFilter, page: Paging) {
      const { rows, total } = await listEntries(control, filter, page)
      return { entries: rows, total, ...page }
    },
    exportAudit: (filter: AuditFilter, format: 'json' | 'csv') => exportAudit(control, filter, format),
    async pruneAudit(days = auditRetentionDays) {
      const projects = await control.rows<{ id: string }>(
        sql`select id from projects where status in ('active', 'suspended')`,
      )
      const ids = projects.map(({ id }) => id)
      const [deleted, events] = await Promise.all([deleteOlderThan(control, days), pruneEvents(ids, days)])
      return { deleted, deleted_auth_events: events, days }
    },

    encryptSettingsSecrets: () => encryptSettingsSecrets(control, sealer),

    async listUsers(page: Paging) {
      const { rows, total } = await users.listUsers(control, page)
      return { users: rows, total, ...page }
    },

    async createUser(wish: { email: string; password: string; role: PlatformRole; name?: string }) {
      const passwordHash = await passwords.hash(wish.password)
      const user = await users.insertUser(control, { ...wish, name: wish.name ?? '', passwordHash })
      return user ?? emailTaken(wish.email)
    },

    async updateUser(id: string, change: UserChange): Promise<PlatformUser> {
      const passwordHash = change.password === undefined ? undefined : await passwords.hash(change.password)
      try {
        return await control.transaction(async session => {
          const admins = await users.lockSuperAdmins(session)
          const user = (await users.lockUser(session, id)) ?? absent()
          const {
            email = user.email,
            name = user.name,
            role = user.role,
            is_active = user.is_active,
          } = change
          if (role !== 'super_admin' || !is_active) keepOne(admins, id)
          return (await users.saveUser(session, { id, email, name, role, is_active }, passwordHash))!
        })
      } catch (error) {
        if ((error as { constraint?: string }).constraint === 'users_email')
          return emailTaken(change.email ?? '')
        throw error
      }
    },

    deleteUser: (id: string): Promise<void> =>
      control.transaction(async session => {
        keepOne(await users.lockSuperAdmins(session), id)
        if (!(await users.lockUser(session, id))) absent()
        await keepOwners(session, id)
        await users.deleteUser(session, id)
      }),
  }
}

/** The first super_admin of a platform that has none; undefined when there is one, or the address is taken. */
export async function bootstrapSuperAdmin(
  session: Session,
  passwords: Passwords,
  user: { email: string; name: string; password: string },
): Promise<PlatformUser | undefined> {
  return users.insertFirstSuperAdmin(session, { ...user, passwordHash: await passwords.hash(user.password) })
}

function keepOne(superAdmins: { id: string }[], leaving: string): void {
  if (superAdmins.length === 1 && superAdmins[0]!.id === leaving)
    throw new Refusal('last_super_admin', 'The last active super_admin must stay; make another one first')
}

function emailTaken(email: string): never {
  throw new Refusal('email_taken', `Another platform user has the address ${email}`)
}

function absent(): never {
  throw new Refusal('user_not_found', 'No platform user has this id')
}

async function countEverything(control: Database) {
  const counts = await control.row<{
    active_projects: number
    suspended_projects: number
    platform_users: number
    active_tokens: number
    audit_entries: number
  }>(sql`
    select (select count(*) from projects where status = 'active')::int as active_projects,
           (select count(*) from projects where status = 'suspended')::int as suspended_projects,
           (select count(*) from users)::int as platform_users,
           (select count(*) from tokens where revoked_at is null and (expires_at is null or expires_at > now()))::int as active_tokens,
           (select count(*) from audit)::int as audit_entries`)
  return { ...counts!, projects: counts!.active_projects + counts!.suspended_projects }
}
