// A session for a user who has shown who they are: made here for every way of showing it.
import { maxPasswordBytes } from '#src/kernel/crypto/password.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { AuthParts, ClientFacts } from './parts.ts'
import { weaknessOf } from './password-rules.ts'
import { insertSession } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import type { IssuedTokens } from './tokens.ts'
import { findPasswordHash, findUserByEmail, type UserObject } from './users-store.ts'

export type SessionObject = IssuedTokens & { user: UserObject } & Record<string, unknown>

export type Issue = (
  session: Session,
  tenant: Tenant,
  userId: string,
  method: string,
  client: ClientFacts,
) => Promise<SessionObject>

/** In the transaction of whatever led here; the session object is as clients expect it. */
export const createIssue =
  ({ tokens }: Pick<AuthParts, 'tokens'>): Issue =>
  async (session, tenant, userId, method, { ip, userAgent }) => {
    const settings = settingsOf(tenant)
    const lifetimeSeconds = settings.session_duration_seconds
    const { user, state } = await insertSession(session, {
      userId,
      method,
      lifetimeSeconds,
      idleSeconds: settings.refresh_token_duration_seconds,
      ip,
      userAgent,
    })
    return { ...tokens.issue(tenant, user, state, settings), user }
  }

export const invalidCredentials = () => new Refusal('invalid_credentials', 'Invalid login credentials')

/** At sign-in and refresh this is the answer to what was sent; elsewhere it is a matter of permission. */
export const bannedAtSignIn = () => new Refusal({ code: 'user_banned', status: 400 }, 'User is banned')

export function createPasswordSignIn(parts: AuthParts) {
  const { databases, passwords, limits } = parts
  const issue = createIssue(parts)

  /** Known or not, with a password or without one: one look, one hash. */
  return async (
    tenant: Tenant,
    email: string,
    password: string,
    client: ClientFacts,
  ): Promise<SessionObject> => {
    limits.count(tenant, 'token', client.ip)
    const settings = settingsOf(tenant)
    if (!settings.email_enabled)
      throw new Refusal('email_provider_disabled', 'Email logins are disabled for this project')
    const database = databases.auth(tenant)
    const stored = await findPasswordHash(database, email)
    // bcrypt reads no further: what is longer cannot be anybody's password.
    const isTooLong = Buffer.byteLength(password) > maxPasswordBytes
    const matches = await passwords(tenant.id).verify(password, isTooLong ? undefined : stored)
    if (!matches) throw invalidCredentials()
    const made = await database.transaction(async session => {
      const user = await findUserByEmail(session, email)
      // Changed while the hash was computed.
      if (!user || user.encrypted_password !== stored) throw invalidCredentials()
      if (user.is_banned) throw bannedAtSignIn()
      if (!user.email_confirmed_at) throw new Refusal('email_not_confirmed', 'Email not confirmed')
      return issue(session, tenant, user.id, 'password', client)
    })
    const weakness = weaknessOf(password, settings)
    return weakness ? { ...made, weak_password: weakness } : made
  }
}
