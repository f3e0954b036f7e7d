// The admin API: user management for callers with the service_role key.
import { randomUUID } from 'node:crypto'
import { isAffordableHash } from '#src/kernel/crypto/password.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import {
  banUntil,
  listUsers,
  markInvited,
  obfuscateUser,
  type UserFilter,
  type UserPage,
  writeAdminFields,
} from './admin-store.ts'
import { banEnd } from './ban-duration.ts'
import { expectRow } from './expected-row.ts'
import type { FlowDeps } from './flow-deps.ts'
import { addressFrom } from './mail/address.ts'
import { finishEmailChange } from './mail/email-change-store.ts'
import { createMails } from './mail/mails.ts'
import { phoneNotOffered } from './not-offered.ts'
import { checkNewPassword } from './password-rules.ts'
import { deleteSessions } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import { createOrFindUserForAdmin } from './sign-up.ts'
import {
  confirmEmail,
  deleteUserRow,
  findUser,
  findUserByEmail,
  insertUser,
  mergeMetadata,
  readUserObject,
  resetUnprovenUser,
  type UserObject,
  writeEmailIdentity,
  writeEvent,
  writePassword,
} from './users-store.ts'

export interface AdminUser {
  id?: string | null | undefined
  email?: string | null | undefined
  phone?: string | null | undefined
  password?: string | null | undefined
  password_hash?: string | null | undefined
  email_confirm?: boolean | null | undefined
  user_metadata?: Record<string, unknown> | null | undefined
  app_metadata?: Record<string, unknown> | null | undefined
  role?: string | null | undefined
  aud?: string | null | undefined
  ban_duration?: string | null | undefined
}

const roles = new Set(['anon', 'authenticated', 'service_role'])

export const emailExists = () =>
  new Refusal('email_exists', 'A user with this email address has already been registered')
export const userNotFound = () => new Refusal('user_not_found', 'User not found')

export type Admin = ReturnType<typeof createAdmin>

export function createAdmin(deps: FlowDeps) {
  const { databases, passwords, limits } = deps
  const mails = createMails(deps)

  async function hashOf(tenant: Tenant, body: AdminUser): Promise<string | undefined> {
    if (body.password && body.password_hash)
      throw new Refusal('validation_failed', 'Only a password or a password hash should be provided')
    if (body.password_hash) {
      if (!isAffordableHash(body.password_hash))
        throw new Refusal(
          'validation_failed',
          'password_hash must be a bcrypt hash (cost 4 to 14) or an Argon2 hash (up to 64 MiB and 10 passes)',
        )
      return body.password_hash
    }
    if (!body.password) return
    checkNewPassword(body.password, settingsOf(tenant))
    return passwords(tenant.id).hash(body.password)
  }

  function checkRole({ role, phone }: AdminUser): void {
    if (role && !roles.has(role))
      throw new Refusal('validation_failed', `role must be one of ${[...roles].join(', ')}`)
    if (phone) throw phoneNotOffered()
  }

  return {
    async list(tenant: Tenant, filter: UserFilter): Promise<UserPage> {
      return databases.auth(tenant).transaction(session => listUsers(session, filter))
    },

    async read(tenant: Tenant, id: string): Promise<UserObject> {
      const user = await databases.auth(tenant).transaction(session => readUserObject(session, id))
      if (!user) throw userNotFound()
      return user
    },

    /** Sends no mail. */
    async create(tenant: Tenant, body: AdminUser): Promise<UserObject> {
      checkRole(body)
      if (!body.email)
        throw new Refusal('validation_failed', 'Cannot create a user without either an email or phone')
      const email = addressFrom(body.email)
      const bannedUntil = body.ban_duration ? banEnd(body.ban_duration) : null
      const hash = await hashOf(tenant, body)
      const id = body.id ?? randomUUID()
      return databases.auth(tenant).transaction(async session => {
        if (await findUserByEmail(session, email)) throw emailExists()
        const isConfirmed = body.email_confirm === true
        const insertedId = await insertUser(session, {
          id,
          email,
          passwordHash: hash ?? null,
          isConfirmed,
          isProven: isConfirmed,
          isAnonymous: false,
          userMetadata: { ...body.user_metadata, ...(isConfirmed && { email_verified: true }) },
          appMetadata: { ...body.app_metadata, provider: 'email', providers: ['email'] },
          role: body.role ?? undefined,
          aud: body.aud ?? undefined,
          bannedUntil,
        })
        if (insertedId === undefined)
          throw new Refusal('user_already_exists', 'A user with this id exists already')
        await writeEmailIdentity(session, id, email, isConfirmed)
        await writeEvent(session, 'user.created', id, email)
        return expectRow(await readUserObject(session, id))
      })
    },

    async update(tenant: Tenant, id: string, body: AdminUser): Promise<UserObject> {
      checkRole(body)
      const email = body.email ? addressFrom(body.email) : undefined
      const bannedUntil = body.ban_duration ? banEnd(body.ban_duration) : undefined
      const hash = await hashOf(tenant, body)
      return databases.auth(tenant).transaction(async session => {
        const user = await findUser(session, id)
        if (!user) throw userNotFound()
        if (email && email !== user.email) await changeEmailNow(session, id, email)
        if (body.email_confirm) await confirmEmail(session, id, true)
        if (hash) {
          await writePassword(session, id, hash)
          await deleteSessions(session, id, 'global', null)
        }
        await mergeMetadata(session, id, body.user_metadata ?? {}, body.app_metadata ?? {})
        await writeAdminFields(session, id, body.role ?? null, body.aud ?? null)
        if (bannedUntil !== undefined) await banUntil(session, id, bannedUntil, null)
        await writeEvent(session, 'user.updated', id, email ?? user.email)
        return expectRow(await readUserObject(session, id))
      })
    },

    /** A soft delete keeps the row without personal data, and another user can take the address. */
    async remove(tenant: Tenant, id: string, isSoft: boolean): Promise<void> {
      await databases.auth(tenant).transaction(async session => {
        const user = await findUser(session, id)
        if (!user) throw userNotFound()
        if (isSoft) await obfuscateUser(session, id)
        else await deleteUserRow(session, id)
        await writeEvent(session, 'user.deleted', id, user.email)
      })
    },

    async invite(
      tenant: Tenant,
      body: { email?: string | null | undefined; data?: Record<string, unknown> | null | undefined },
      redirectTo: string,
    ): Promise<UserObject> {
      const email = addressFrom(body.email)
      limits.countMail(tenant, email)
      return databases.auth(tenant).transaction(async session => {
        const id = await findOrCreateInvited(session, email, body.data ?? {})
        const row = expectRow(await findUser(session, id))
        await mails.enqueueLink(session, tenant, row, {
          type: 'invite',
          slot: 'confirmation',
          template: 'invite',
          address: email,
          redirectTo,
        })
        return expectRow(await readUserObject(session, id))
      })
    },
  }
}

/** Changes the address without a confirmation mail. */
async function changeEmailNow(session: Session, id: string, email: string): Promise<void> {
  if (await findUserByEmail(session, email)) throw emailExists()
  await finishEmailChange(session, id, email, true)
}

/** Returns the id of a new user, or of a user who never confirmed the address. */
export async function findOrCreateInvited(
  session: Session,
  email: string,
  data: Record<string, unknown>,
): Promise<string> {
  const existing = await findUserByEmail(session, email)
  if (existing?.email_confirmed_at) throw emailExists()
  if (existing) await resetUnprovenUser(session, existing.id, data)
  const id = existing?.id ?? (await createOrFindUserForAdmin(session, email, null, data))
  await markInvited(session, id)
  return id
}
