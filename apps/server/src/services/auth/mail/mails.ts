// The mails of auth. Code, link and mail are written in the transaction of the flow, so that they are committed together.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { settingsOf } from '../settings.ts'
import type { UserRow } from '../users-store.ts'
import { newOneTimeCode } from './one-time-code.ts'
import { insertMailFlow, type Slot, writeOneTime } from './one-time-store.ts'

export type LinkType = 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change' | 'reauthentication'

/** PKCE challenge (RFC 7636). The client exchanges the code from the link for a session with the matching verifier. */
export interface Challenge {
  challenge: string
  method: 's256' | 'plain'
}

export interface Link {
  type: LinkType
  slot: Slot
  template: Mail['template']
  address: string
  redirectTo: string
  challenge?: Challenge | undefined
  /** Following the link resets an unconfirmed account first, because someone else may have signed up with the address. */
  startsOver?: boolean
  /** Replaces the verification URL in the mail. */
  url?: string
}

export interface MadeLink {
  code: string
  linkToken: string
  url: string
}

const challengeSyntax = /^[A-Za-z0-9._~-]{43,128}$/

/** Undefined without PKCE: then following the link returns the session itself. */
export function challengeFrom(body: {
  code_challenge?: string | null | undefined
  code_challenge_method?: string | null | undefined
}): Challenge | undefined {
  const { code_challenge: challenge, code_challenge_method: given } = body
  if (!challenge && !given) return
  if (!challenge || !given)
    throw new Refusal('validation_failed', 'PKCE needs both code_challenge and code_challenge_method')
  const method = given.toLowerCase()
  if (method !== 's256' && method !== 'plain')
    throw new Refusal('validation_failed', 'code_challenge_method must be s256 or plain')
  if (!challengeSyntax.test(challenge))
    throw new Refusal(
      'validation_failed',
      'code_challenge must be 43 to 128 characters of A-Z a-z 0-9 . _ ~ -',
    )
  return { challenge, method }
}

export type Mails = ReturnType<typeof createMails>

export function createMails({ email, hashOneTime, baseUrl, limits, log }: FlowDeps) {
  /** An invalid recipient is logged and does not fail the request. */
  async function enqueue(session: Session, tenant: Tenant, mail: Mail): Promise<void> {
    await email.enqueue(session, tenant, mail).catch(error => {
      if (!(error instanceof Refusal)) throw error
      log.error({ err: error, project: tenant.id }, 'mail has an invalid recipient and is not sent')
    })
  }

  /** Stores a new one-time code, valid for otp_expiry_seconds. */
  async function makeLink(
    session: Session,
    tenant: Tenant,
    userId: string,
    { type, slot, address, redirectTo, challenge, startsOver = false }: Omit<Link, 'template'>,
  ): Promise<MadeLink> {
    const { otp_expiry_seconds: expirySeconds } = settingsOf(tenant)
    const { code, linkToken } = newOneTimeCode(address, challenge !== undefined)
    const flowId = challenge
      ? await insertMailFlow(session, {
          userId,
          method: type === 'signup' ? 'email/signup' : type,
          challenge: challenge.challenge,
          challengeMethod: challenge.method,
          redirectTo,
          expirySeconds,
        })
      : null
    await writeOneTime(session, {
      userId,
      slot,
      hash: hashOneTime(tenant.id, linkToken),
      address,
      flowId,
      startsOver,
      expirySeconds,
    })
    const query = new URLSearchParams({ token: linkToken, type, redirect_to: redirectTo })
    return { code, linkToken, url: `${baseUrl()}/v1/${tenant.id}/auth/v1/verify?${query}` }
  }

  async function enqueueLink(session: Session, tenant: Tenant, user: MailUser, link: Link): Promise<void> {
    const { code, url } = await makeLink(session, tenant, user.id, link)
    await enqueue(session, tenant, {
      to: link.address,
      template: link.template,
      values: {
        user_name: nameOf(user),
        action_url: link.url ?? url,
        expires_in: formatDuration(settingsOf(tenant).otp_expiry_seconds),
        token: code,
        email: user.email ?? '',
        ...(link.type === 'email_change' && { new_email: user.email_change ?? '' }),
      },
    })
  }

  /** Mails the new address, and also the current one if it is confirmed, because then both must confirm. */
  async function enqueueEmailChange(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    redirectTo: string,
    challenge: Challenge | undefined,
  ): Promise<void> {
    const link = { type: 'email_change', template: 'verify_email', redirectTo, challenge } as const
    const recipients: [Slot, string][] = [['email_change_new', user.email_change!]]
    if (user.email && user.email_confirmed_at) recipients.push(['email_change_current', user.email])
    for (const [slot, address] of recipients)
      await enqueueLink(session, tenant, user, { ...link, slot, address })
  }

  /** Skipped when the project is over its mail limit. */
  async function enqueueWelcome(session: Session, tenant: Tenant, user: MailUser): Promise<void> {
    if (!user.email || !limits.mayMail(tenant)) return
    await enqueue(session, tenant, {
      to: user.email,
      template: 'welcome',
      values: {
        user_name: nameOf(user),
        action_url: settingsOf(tenant).site_url,
        expires_in: '',
        email: user.email,
      },
    })
  }

  return { makeLink, enqueueLink, enqueueEmailChange, enqueueWelcome }
}

export type MailUser = Pick<UserRow, 'id' | 'email' | 'raw_user_meta_data'> &
  Partial<Pick<UserRow, 'email_change'>>

/** Mail clients turn such names into links. A stranger who signs up with your address could put a phishing link there. */
const couldBeLink = /[:/\\@]|www\.|\.\p{L}{2,}/iu

function nameOf({ email, raw_user_meta_data: data }: MailUser): string {
  for (const key of ['full_name', 'name', 'user_name']) {
    const name = data[key]
    if (typeof name === 'string' && name !== '' && !couldBeLink.test(name)) return name.slice(0, 100)
  }
  return email ?? ''
}

function formatDuration(seconds: number): string {
  const [count, unit] =
    seconds % 3600 === 0
      ? [seconds / 3600, 'hour']
      : seconds % 60 === 0
        ? [seconds / 60, 'minute']
        : [seconds, 'second']
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
