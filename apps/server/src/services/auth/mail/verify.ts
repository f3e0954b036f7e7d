// Verifies a code or link from a mail. It is deleted and its effect applied in one transaction, so it works once.
import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from '../client-info.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { phoneNotOffered } from '../not-offered.ts'
import { createSessionIssuer, type SessionObject } from '../session-issuer.ts'
import {
  confirmEmail,
  findUser,
  findUserByEmail,
  resetUnprovenUser,
  type UserRow,
  writeEvent,
} from '../users-store.ts'
import { addressFrom } from './address.ts'
import { finishEmailChange, saveEmailChangeStatus } from './email-change-store.ts'
import { createMails } from './mails.ts'
import { isPkceToken, linkTokensOf } from './one-time-code.ts'
import {
  consumeByCode,
  consumeByLinkToken,
  type FoundOneTime,
  type Slot,
  saveFlowCode,
} from './one-time-store.ts'

export interface Verification {
  type?: string | null | undefined
  email?: string | null | undefined
  phone?: string | null | undefined
  token?: string | null | undefined
  token_hash?: string | null | undefined
  redirect_to?: string | null | undefined
}

/** A session, an auth code for a PKCE client, or a message that the other address must confirm, too. */
export type Verified = { session: SessionObject } | { authCode: string } | { message: string }

const slotsByType: Readonly<Record<string, readonly Slot[]>> = {
  signup: ['confirmation'],
  invite: ['confirmation'],
  magiclink: ['recovery'],
  recovery: ['recovery'],
  email: ['confirmation', 'recovery'],
  email_change: ['email_change_current', 'email_change_new'],
}

export const otherAddressPending =
  'Confirmation link accepted. Please proceed to confirm link sent to the other email'

export function createVerify(deps: FlowDeps) {
  const { databases, limits, hashOneTime } = deps
  const issueSession = createSessionIssuer(deps)
  const mails = createMails(deps)

  async function verify(
    tenant: Tenant,
    type: string | null | undefined,
    client: ClientInfo,
    find: (session: Session, slots: readonly Slot[]) => Promise<FoundOneTime | undefined>,
    isPkce: boolean,
  ): Promise<Verified> {
    limits.count(tenant, 'verify', client.ip)
    const slots = type && Object.hasOwn(slotsByType, type) ? slotsByType[type] : undefined
    if (!slots) throw new Refusal('validation_failed', `Verify requires a verification type: ${knownTypes}`)
    // The transaction must commit the count of a wrong code, so the refusal is thrown after it.
    const outcome = await databases.auth(tenant).transaction(async session => {
      const found = await find(session, slots)
      const user = found && (await findUser(session, found.user_id))
      if (!user) return
      const { verified, isNewlyConfirmed } = await apply(session, tenant, user, found, client, isPkce)
      if (isNewlyConfirmed && type !== 'invite') await mails.enqueueWelcome(session, tenant, user)
      return verified
    })
    if (!outcome) throw expired()
    return outcome
  }

  async function apply(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    found: FoundOneTime,
    client: ClientInfo,
    isPkce: boolean,
  ): Promise<{ verified: Verified; isNewlyConfirmed: boolean }> {
    if (user.is_banned) throw new Refusal('user_banned', 'User is banned')
    const isChange = found.token_type.startsWith('email_change')
    // The token proves access only to the address it was sent to, so that address must still be the user's.
    const address = found.token_type === 'email_change_new' ? user.email_change : user.email
    if (found.relates_to !== address) throw expired()
    if (isChange && !(await changeEmail(session, user, found)))
      return { verified: { message: otherAddressPending }, isNewlyConfirmed: false }
    const isNewlyConfirmed = !isChange && !user.email_confirmed_at
    if (isNewlyConfirmed && found.starts_over) await resetUnprovenUser(session, user.id)
    if (!isChange) await confirmEmail(session, user.id, true)
    const verified =
      isPkce && found.flow_id
        ? { authCode: await newAuthCode(session, tenant, found.flow_id) }
        : { session: await issueSession(session, tenant, user.id, 'otp', client) }
    return { verified, isNewlyConfirmed }
  }

  async function newAuthCode(session: Session, tenant: Tenant, flowId: string): Promise<string> {
    const code = randomUUID()
    if (!(await saveFlowCode(session, flowId, hashOneTime(tenant.id, code)))) throw expired()
    return code
  }

  /** False while the other address has not confirmed. */
  async function changeEmail(session: Session, user: UserRow, found: FoundOneTime): Promise<boolean> {
    if (user.email_change === null) throw expired()
    const needsBoth = user.email_confirmed_at !== null && user.email !== null
    // A bit mask instead of a count: one address that confirms twice must not count as two.
    const confirmed = user.email_change_confirm_status | (found.token_type === 'email_change_new' ? 1 : 2)
    if (needsBoth && confirmed !== 3) {
      await saveEmailChangeStatus(session, user.id, confirmed)
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
    consumeByLinkToken(session, hashOneTime(tenant.id, linkToken), slots)

  const byCode =
    (tenant: Tenant, email: string, code: string) => (session: Session, slots: readonly Slot[]) => {
      const hashes = linkTokensOf(email, code).map(token => hashOneTime(tenant.id, token))
      return consumeByCode(session, email, hashes, slots)
    }

  return {
    fromBody(tenant: Tenant, body: Verification, client: ClientInfo): Promise<Verified> {
      const { type, token, token_hash: tokenHash } = body
      if (token && tokenHash)
        throw new Refusal('validation_failed', 'Verify requires either a token or a token hash, not both')
      if (tokenHash) {
        if (body.email || body.phone || body.redirect_to)
          throw new Refusal('validation_failed', 'Only the token_hash and type should be provided')
        return verify(tenant, type, client, byLinkToken(tenant, tokenHash), false)
      }
      if (!token) throw new Refusal('validation_failed', 'Verify requires a token or a token hash')
      if (body.phone) throw phoneNotOffered()
      const email = addressFrom(body.email)
      return verify(tenant, type, client, byCode(tenant, email, token), false)
    },

    fromLink(tenant: Tenant, linkToken: string, type: string, client: ClientInfo): Promise<Verified> {
      return verify(tenant, type, client, byLinkToken(tenant, linkToken), isPkceToken(linkToken))
    },
  }
}

const knownTypes = Object.keys(slotsByType).join(', ')

const expired = () => new Refusal('otp_expired', 'Token has expired or is invalid')
