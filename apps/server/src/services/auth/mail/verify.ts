// A code or link from a mail comes back. It is taken away by whoever shows it first; what it stands for happens in the
// same transaction.

import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { AuthParts, ClientFacts } from '../parts.ts'
import { createIssue, type SessionObject } from '../sign-in.ts'
import {
  confirmEmail,
  findUser,
  findUserByEmail,
  forgetUnproven,
  type UserRow,
  writeEvent,
} from '../users-store.ts'
import { addressFrom } from './address.ts'
import { finishEmailChange, noteHalfOfEmailChange } from './email-change-store.ts'
import { createMails } from './mails.ts'
import { isPkceToken, linkTokensOf } from './one-time-code.ts'
import { type FoundOneTime, giveFlowCode, type Slot, takeByCode, takeByLinkToken } from './one-time-store.ts'

export interface Verification {
  type?: string | null | undefined
  email?: string | null | undefined
  phone?: string | null | undefined
  token?: string | null | undefined
  token_hash?: string | null | undefined
  redirect_to?: string | null | undefined
}

/** What came of it: a session, a code for the client that asked, or the wait for the other address. */
export type Verified = { session: SessionObject } | { authCode: string } | { message: string }

const slotsByType: Readonly<Record<string, readonly Slot[]>> = {
  signup: ['confirmation'],
  invite: ['confirmation'],
  magiclink: ['recovery'],
  recovery: ['recovery'],
  email: ['confirmation', 'recovery'],
  email_change: ['email_change_current', 'email_change_new'],
}

export const halfChanged =
  'Confirmation link accepted. Please proceed to confirm link sent to the other email'

export function createVerify(parts: AuthParts) {
  const { databases, limits, hashOneTime } = parts
  const issue = createIssue(parts)
  const mails = createMails(parts)

  async function verify(
    tenant: Tenant,
    type: string | null | undefined,
    client: ClientFacts,
    find: (session: Session, slots: readonly Slot[]) => Promise<FoundOneTime | undefined>,
    givesCode: boolean,
  ): Promise<Verified> {
    limits.count(tenant, 'verify', client.ip)
    const slots = type && Object.hasOwn(slotsByType, type) ? slotsByType[type] : undefined
    if (!slots) throw new Refusal('validation_failed', `Verify requires a verification type: ${listOfTypes}`)
    // A wrong code is counted, and that must not be undone: the refusal comes after the transaction.
    const outcome = await databases.auth(tenant).transaction(async session => {
      const found = await find(session, slots)
      const user = found && (await findUser(session, found.user_id))
      return user && act(session, tenant, user, found, client, givesCode)
    })
    if (!outcome) throw expired()
    if (outcome.isNewlyConfirmed && type !== 'invite') await mails.welcome(tenant, outcome.user)
    return outcome.verified
  }

  async function act(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    found: FoundOneTime,
    client: ClientFacts,
    givesCode: boolean,
  ): Promise<{ verified: Verified; user: UserRow; isNewlyConfirmed: boolean }> {
    if (user.is_banned) throw new Refusal('user_banned', 'User is banned')
    const isChange = found.token_type.startsWith('email_change')
    // It proves that somebody reads the address it was sent to, and nothing about any other.
    const address = found.token_type === 'email_change_new' ? user.email_change : user.email
    if (found.relates_to !== address) throw expired()
    if (isChange && !(await changeEmail(session, user, found)))
      return { verified: { message: halfChanged }, user, isNewlyConfirmed: false }
    const isNewlyConfirmed = !isChange && !user.email_confirmed_at
    if (isNewlyConfirmed && found.starts_over) await forgetUnproven(session, user.id)
    if (!isChange) await confirmEmail(session, user.id, true)
    const verified =
      givesCode && found.flow_id
        ? { authCode: await codeFor(session, tenant, found.flow_id) }
        : { session: await issue(session, tenant, user.id, 'otp', client) }
    return { verified, user, isNewlyConfirmed }
  }

  async function codeFor(session: Session, tenant: Tenant, flowId: string): Promise<string> {
    const code = randomUUID()
    if (!(await giveFlowCode(session, flowId, hashOneTime(tenant.id, code)))) throw expired()
    return code
  }

  /** False while the other of the two addresses has not agreed. */
  async function changeEmail(session: Session, user: UserRow, found: FoundOneTime): Promise<boolean> {
    if (user.email_change === null) throw expired()
    const needsBoth = user.email_confirmed_at !== null && user.email !== null
    // Which of the two has agreed matters: one address that agrees twice is still one.
    const agreed = user.email_change_confirm_status | (found.token_type === 'email_change_new' ? 1 : 2)
    if (needsBoth && agreed !== 3) {
      await noteHalfOfEmailChange(session, user.id, agreed)
      return false
    }
    const isTaken = await findUserByEmail(session, user.email_change)
    if (isTaken)
      throw new Refusal('email_exists', 'A user with this email address has already been registered')
    await finishEmailChange(session, user.id, user.email_change, true, found.flow_id)
    await writeEvent(session, 'user.updated', found.user_id, user.email_change)
    return true
  }

  const byLinkToken = (tenant: Tenant, linkToken: string) => (session: Session, slots: readonly Slot[]) =>
    takeByLinkToken(session, hashOneTime(tenant.id, linkToken), slots)

  const byCode =
    (tenant: Tenant, email: string, code: string) => (session: Session, slots: readonly Slot[]) => {
      const hashes = linkTokensOf(email, code).map(token => hashOneTime(tenant.id, token))
      return takeByCode(session, email, hashes, slots)
    }

  return {
    post(tenant: Tenant, body: Verification, client: ClientFacts): Promise<Verified> {
      const { type, token, token_hash: tokenHash } = body
      if (token && tokenHash)
        throw new Refusal('validation_failed', 'Verify requires either a token or a token hash, not both')
      if (tokenHash) {
        if (body.email || body.phone || body.redirect_to)
          throw new Refusal('validation_failed', 'Only the token_hash and type should be provided')
        return verify(tenant, type, client, byLinkToken(tenant, tokenHash), false)
      }
      if (!token) throw new Refusal('validation_failed', 'Verify requires a token or a token hash')
      if (body.phone) throw new Refusal('phone_provider_disabled', 'Nothing is sent to phones here')
      const email = addressFrom(body.email)
      return verify(tenant, type, client, byCode(tenant, email, token), false)
    },

    link(tenant: Tenant, linkToken: string, type: string, client: ClientFacts): Promise<Verified> {
      return verify(tenant, type, client, byLinkToken(tenant, linkToken), isPkceToken(linkToken))
    },
  }
}

const listOfTypes = Object.keys(slotsByType).join(', ')

const expired = () => new Refusal('otp_expired', 'Token has expired or is invalid')
