// Platform administration: users, counts, the audit log.
import type { PlatformUser } from '@plinth/contract/admin.ts'
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { Passwords } from '#src/kernel/crypto/password.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { checkProjectsKeepOwner } from '#src/services/team/service.ts'
import { exportAudit } from './audit-export.ts'
import { type AuditFilter, deleteOlderThan, listEntries } from './audit-store.ts'
import { encryptSettingsSecrets } from './secrets-sweep.ts'
import { listServedProjects, readStats } from './store.ts'
import * as users from './users-store.ts'

export interface AdminDeps {
  control: Database
  passwords: Passwords
  sealer: Sealer
  auditRetentionDays: number
  /** Deletes auth events of the projects older than the given days and returns their number. */
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
    stats: () => readStats(control),

    async listAudit(filter: AuditFilter, page: Paging) {
      const { rows, total } = await listEntries(control, filter, page)
      return { entries: rows, total, ...page }
    },
    exportAudit: (filter: AuditFilter, format: 'json' | 'csv') => exportAudit(control, filter, format),
    async pruneAudit(days = auditRetentionDays) {
      const ids = await listServedProjects(control)
      const [deleted, events] = await Promise.all([deleteOlderThan(control, days), pruneEvents(ids, days)])
      return { deleted, deleted_auth_events: events, days }
    },

    encryptSettingsSecrets: () => encryptSettingsSecrets(control, sealer),

    async listUsers(page: Paging) {
      const { rows, total } = await users.listUsers(control, page)
      return { users: rows, total, ...page }
    },

    async createUser(request: { email: string; password: string; role: PlatformRole; name?: string }) {
      const passwordHash = await passwords.hash(request.password)
      const user = await users.insertUser(control, { ...request, name: request.name ?? '', passwordHash })
      return user ?? throwEmailTaken(request.email)
    },

    async updateUser(id: string, change: UserChange): Promise<PlatformUser> {
      const passwordHash = change.password === undefined ? undefined : await passwords.hash(change.password)
      try {
        return await control.transaction(async session => {
          const admins = await users.lockSuperAdmins(session)
          const user = (await users.lockUser(session, id)) ?? throwNotFound()
          const {
            email = user.email,
            name = user.name,
            role = user.role,
            is_active = user.is_active,
          } = change
          if (role !== 'super_admin' || !is_active) checkNotLastSuperAdmin(admins, id)
          return (await users.saveUser(session, { id, email, name, role, is_active }, passwordHash))!
        })
      } catch (error) {
        if ((error as { constraint?: string }).constraint === 'users_email')
          return throwEmailTaken(change.email ?? '')
        throw error
      }
    },

    deleteUser: (id: string): Promise<void> =>
      control.transaction(async session => {
        checkNotLastSuperAdmin(await users.lockSuperAdmins(session), id)
        if (!(await users.lockUser(session, id))) throwNotFound()
        await checkProjectsKeepOwner(session, id)
        await users.deleteUser(session, id)
      }),
  }
}

/** Creates the first super_admin. Undefined when there already is one, or the address is taken. */
export async function bootstrapSuperAdmin(
  session: Session,
  passwords: Passwords,
  user: { email: string; name: string; password: string },
): Promise<PlatformUser | undefined> {
  return users.insertFirstSuperAdmin(session, { ...user, passwordHash: await passwords.hash(user.password) })
}

function checkNotLastSuperAdmin(superAdmins: { id: string }[], removedId: string): void {
  if (superAdmins.length === 1 && superAdmins[0]!.id === removedId)
    throw new Refusal('last_super_admin', 'The last active super_admin must stay; make another one first')
}

function throwEmailTaken(email: string): never {
  throw new Refusal('email_taken', `Another platform user has the address ${email}`)
}

function throwNotFound(): never {
  throw new Refusal('user_not_found', 'No platform user has this id')
}
