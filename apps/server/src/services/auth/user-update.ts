// What users change about themselves: data, password, address.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type CurrentUser, currentUser } from './current-user.ts'
import { addressFrom } from './mail/address.ts'
import { beginEmailChange, finishEmailChange } from './mail/email-change-store.ts'
import { type Challenge, challengeFrom, createMails } from './mail/mails.ts'
import { linkTokensOf } from './mail/one-time-code.ts'
import { takeByCode } from './mail/one-time-store.ts'
import { needSecondFactor } from './mfa/second-factor.ts'
import type { AuthParts, ClientFacts } from './parts.ts'
import { checkNewPassword } from './password-rules.ts'
import { deleteSessions } from './sessions-store.ts'
import { settingsOf } from './settings.ts'
import {
  findUserByEmail,
  mergeMetadata,
  readUserObject,
  type UserObject,
  type UserRow,
  writeEvent,
  writePassword,
} from './users-store.ts'
import { written } from './written.ts'

export interface UserUpdate {
  email?: string | null | undefined
  phone?: string | null | undefined
  password?: string | null | undefined
  current_password?: string | null | undefined
  nonce?: string | null | undefined
  data?: Record<string, unknown> | null | undefined
  app_metadata?: unknown
  code_challenge?: string | null | undefined
  code_challenge_method?: string | null | undefined
}

/** What is worked out before the transaction, so that no lock is held while a hash is computed. */
interface NewPassword {
  hash: string
  /** The hash it was compared with. */
  against: string | null
}

export function createUserUpdate(parts: AuthParts) {
  const { databases, passwords, limits, hashOneTime } = parts
  const mails = createMails(parts)

  async function newPassword(caller: Caller, body: UserUpdate): Promise<NewPassword | undefined> {
    if (!body.password) return
    const { tenant } = caller
    checkNewPassword(body.password, settingsOf(tenant))
    const { user } = await databases.auth(tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      // Before any comparison: whoever lacks the factor does not learn whether a password is the right one.
      await needSecondFactor(session, current, 401)
      return current
    })
    if (user.is_anonymous && !body.email)
      throw new Refusal(
        { code: 'validation_failed', status: 422 },
        'Updating password of an anonymous user without an email or phone is not allowed',
      )
    const verifier = passwords(tenant.id)
    const stored = user.encrypted_password || undefined
    if (body.current_password && !(await verifier.verify(body.current_password, stored)))
      throw new Refusal('current_password_invalid', 'The current password is not right')
    if (stored && (await verifier.verify(body.password, stored)))
      throw new Refusal('same_password', 'New password should be different from the old password.')
    return { hash: await verifier.hash(body.password), against: user.encrypted_password }
  }

  /** Every other session ends: whoever knew the old password may hold one. */
  async function changePassword(session: Session, current: CurrentUser, made: NewPassword): Promise<void> {
    const { user } = current
    if (user.encrypted_password !== made.against)
      throw new Refusal('conflict', 'The password was changed by another request; try again')
    await writePassword(session, user.id, made.hash)
    await deleteSessions(session, user.id, 'others', current.session.id)
  }

  /** False for a code that is wrong; the count of tries stays. */
  async function takeNonce(session: Session, tenant: Tenant, user: UserRow, nonce: string): Promise<boolean> {
    const address = user.email ?? ''
    const hashes = linkTokensOf(address, nonce).map(token => hashOneTime(tenant.id, token))
    const found = await takeByCode(session, address, hashes, ['reauthentication'])
    return found?.user_id === user.id
  }

  async function changeEmail(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    address: string,
    redirectTo: string,
    challenge: Challenge | undefined,
  ): Promise<Mail[]> {
    if (await findUserByEmail(session, address))
      throw new Refusal('email_exists', 'A user with this email address has already been registered')
    if (settingsOf(tenant).auto_confirm && user.is_anonymous) {
      await finishEmailChange(session, user.id, address, false)
      return []
    }
    await beginEmailChange(session, user.id, address)
    return mails.prepareEmailChange(
      session,
      tenant,
      { ...user, email_change: address },
      redirectTo,
      challenge,
    )
  }

  return {
    async update(
      caller: Caller,
      body: UserUpdate,
      redirectTo: string,
      client: ClientFacts,
    ): Promise<UserObject> {
      const { tenant } = caller
      limits.count(tenant, 'email', client.ip)
      if (body.app_metadata !== undefined)
        throw new Refusal('not_admin', 'Updating app_metadata requires the service_role key')
      if (body.phone) throw new Refusal('phone_provider_disabled', 'Phone numbers are not supported')
      const address = body.email ? addressFrom(body.email) : undefined
      const challenge = challengeFrom(body)
      const password = await newPassword(caller, body)
      const outcome = await databases.auth(tenant).transaction(async session => {
        const current = await currentUser(session, caller)
        const { user } = current
        if (password || (address && address !== user.email)) await needSecondFactor(session, current, 401)
        if (body.nonce && !(await takeNonce(session, tenant, user, body.nonce))) return
        if (password) await changePassword(session, current, password)
        if (body.data) await mergeMetadata(session, user.id, body.data, {})
        let sent: Mail[] = []
        if (address && address !== user.email) {
          limits.countMail(tenant, address)
          sent = await changeEmail(session, tenant, user, address, redirectTo, challenge)
        }
        await writeEvent(session, 'user.updated', user.id, user.email)
        return { user: written(await readUserObject(session, user.id)), sent }
      })
      if (!outcome) throw new Refusal('reauthentication_not_valid', 'Nonce has expired or is invalid')
      for (const mail of outcome.sent) await mails.send(tenant, mail)
      return outcome.user
    },

    /** A code to the user's own address, for changes that should not rest on an open session alone. */
    async reauthenticate(caller: Caller, client: ClientFacts): Promise<Record<string, never>> {
      const { tenant } = caller
      limits.count(tenant, 'email', client.ip)
      const mail = await databases.auth(tenant).transaction(async session => {
        const { user } = await currentUser(session, caller)
        if (!user.email)
          throw new Refusal('validation_failed', 'Reauthentication requires the user to have an email')
        limits.countMail(tenant, user.email)
        return mails.prepare(session, tenant, user, {
          type: 'reauthentication',
          slot: 'reauthentication',
          template: 'verify_email',
          address: user.email,
          redirectTo: settingsOf(tenant).site_url,
        })
      })
      await mails.send(tenant, {
        ...mail,
        values: { ...mail.values, action_url: settingsOf(tenant).site_url },
      })
      return {}
    },
  }
}
