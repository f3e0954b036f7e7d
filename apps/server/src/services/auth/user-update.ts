// PUT /user: users change their own metadata, password and email address.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from './client-info.ts'
import { type CurrentUser, currentUser } from './current-user.ts'
import { expectRow } from './expected-row.ts'
import type { FlowDeps } from './flow-deps.ts'
import { addressFrom } from './mail/address.ts'
import { beginEmailChange, finishEmailChange } from './mail/email-change-store.ts'
import { type Challenge, challengeFrom, createMails } from './mail/mails.ts'
import { linkTokensOf } from './mail/one-time-code.ts'
import { consumeByCode } from './mail/one-time-store.ts'
import { requireSecondFactor } from './mfa/second-factor.ts'
import { phoneNotOffered } from './not-offered.ts'
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

/** Computed before the transaction, so that it holds no lock while hashing. */
interface NewPassword {
  hash: string
  /** The stored hash at that time. The transaction checks that it is unchanged. */
  previousHash: string | null
}

export function createUserUpdate(deps: FlowDeps) {
  const { databases, passwords, limits, hashOneTime } = deps
  const mails = createMails(deps)

  async function newPassword(caller: Caller, body: UserUpdate): Promise<NewPassword | undefined> {
    if (!body.password) return
    const { tenant } = caller
    checkNewPassword(body.password, settingsOf(tenant))
    const { user } = await databases.auth(tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      // Checked before the password comparison. Otherwise a session without the second factor could test passwords.
      await requireSecondFactor(session, current, 401)
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
    return { hash: await verifier.hash(body.password), previousHash: user.encrypted_password }
  }

  /** Ends all other sessions, because they may belong to someone who knew the old password. */
  async function changePassword(
    session: Session,
    current: CurrentUser,
    password: NewPassword,
  ): Promise<void> {
    const { user } = current
    if (user.encrypted_password !== password.previousHash)
      throw new Refusal('conflict', 'The password was changed by another request; try again')
    await writePassword(session, user.id, password.hash)
    await deleteSessions(session, user.id, 'others', current.session.id)
  }

  /** False for a wrong code. The caller must commit, so that the failed attempt is counted. */
  async function consumeNonce(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    nonce: string,
  ): Promise<boolean> {
    const address = user.email ?? ''
    const hashes = linkTokensOf(address, nonce).map(token => hashOneTime(tenant.id, token))
    const found = await consumeByCode(session, address, hashes, ['reauthentication'])
    return found?.user_id === user.id
  }

  async function changeEmail(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    address: string,
    redirectTo: string,
    challenge: Challenge | undefined,
  ): Promise<void> {
    if (await findUserByEmail(session, address))
      throw new Refusal('email_exists', 'A user with this email address has already been registered')
    if (settingsOf(tenant).auto_confirm && user.is_anonymous) {
      await finishEmailChange(session, user.id, address, false)
      return
    }
    await beginEmailChange(session, user.id, address)
    await mails.enqueueEmailChange(session, tenant, { ...user, email_change: address }, redirectTo, challenge)
  }

  return {
    async update(
      caller: Caller,
      body: UserUpdate,
      redirectTo: string,
      client: ClientInfo,
    ): Promise<UserObject> {
      const { tenant } = caller
      limits.count(tenant, 'email', client.ip)
      if (body.app_metadata !== undefined)
        throw new Refusal('not_admin', 'Updating app_metadata requires the service_role key')
      if (body.phone) throw phoneNotOffered()
      const address = body.email ? addressFrom(body.email) : undefined
      const challenge = challengeFrom(body)
      const password = await newPassword(caller, body)
      const updated = await databases.auth(tenant).transaction(async session => {
        const current = await currentUser(session, caller)
        const { user } = current
        if (password || (address && address !== user.email)) await requireSecondFactor(session, current, 401)
        if (body.nonce && !(await consumeNonce(session, tenant, user, body.nonce))) return
        if (password) await changePassword(session, current, password)
        if (body.data) await mergeMetadata(session, user.id, body.data, {})
        if (address && address !== user.email) {
          limits.countMail(tenant, address)
          await changeEmail(session, tenant, user, address, redirectTo, challenge)
        }
        await writeEvent(session, 'user.updated', user.id, user.email)
        return expectRow(await readUserObject(session, user.id))
      })
      if (!updated) throw new Refusal('reauthentication_not_valid', 'Nonce has expired or is invalid')
      return updated
    },

    /** Mails a code that confirms the user's identity before a sensitive change. */
    async reauthenticate(caller: Caller, client: ClientInfo): Promise<Record<string, never>> {
      const { tenant } = caller
      limits.count(tenant, 'email', client.ip)
      await databases.auth(tenant).transaction(async session => {
        const { user } = await currentUser(session, caller)
        if (!user.email)
          throw new Refusal('validation_failed', 'Reauthentication requires the user to have an email')
        limits.countMail(tenant, user.email)
        await mails.enqueueLink(session, tenant, user, {
          type: 'reauthentication',
          slot: 'reauthentication',
          template: 'verify_email',
          address: user.email,
          redirectTo: settingsOf(tenant).site_url,
          url: settingsOf(tenant).site_url,
        })
      })
      return {}
    },
  }
}
