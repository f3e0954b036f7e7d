import { maxPasswordBytes } from '#src/kernel/crypto/password.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from './client-info.ts'
import type { FlowDeps } from './flow-deps.ts'
import { weaknessOf } from './password-rules.ts'
import { createSessionIssuer, type SessionObject } from './session-issuer.ts'
import { settingsOf } from './settings.ts'
import { bannedAtSignIn, invalidCredentials } from './sign-in-errors.ts'
import { findPasswordHash, findUserByEmail } from './users-store.ts'

export function createPasswordSignIn(deps: FlowDeps) {
  const { databases, passwords, limits } = deps
  const issueSession = createSessionIssuer(deps)

  /**
   * Does one lookup and one hash for every address, also for an unknown one or a user without a password. Otherwise
   * the response time would show which addresses have an account.
   */
  return async (
    tenant: Tenant,
    email: string,
    password: string,
    client: ClientInfo,
  ): Promise<SessionObject> => {
    limits.count(tenant, 'token', client.ip)
    const settings = settingsOf(tenant)
    if (!settings.email_enabled)
      throw new Refusal('email_provider_disabled', 'Email logins are disabled for this project')
    const database = databases.auth(tenant)
    const storedHash = await findPasswordHash(database, email)
    // bcrypt ignores bytes past its limit, so a longer text would match the password it begins with.
    const isTooLong = Buffer.byteLength(password) > maxPasswordBytes
    const matches = await passwords(tenant.id).verify(password, isTooLong ? undefined : storedHash)
    if (!matches) throw invalidCredentials()
    const issued = await database.transaction(async session => {
      const user = await findUserByEmail(session, email)
      // The password may have changed while the hash was computed without a lock.
      if (!user || user.encrypted_password !== storedHash) throw invalidCredentials()
      if (user.is_banned) throw bannedAtSignIn()
      if (!user.email_confirmed_at) throw new Refusal('email_not_confirmed', 'Email not confirmed')
      return issueSession(session, tenant, user.id, 'password', client)
    })
    const weakness = weaknessOf(password, settings)
    return weakness ? { ...issued, weak_password: weakness } : issued
  }
}
