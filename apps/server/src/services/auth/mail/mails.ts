// The mails of this service: a code and a link that stands for it, written down in the transaction that needs them and
// handed to the post when that has committed.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { AuthParts } from '../parts.ts'
import { settingsOf } from '../settings.ts'
import type { UserRow } from '../users-store.ts'
import { newOneTimeCode } from './one-time-code.ts'
import { insertMailFlow, type Slot, writeOneTime } from './one-time-store.ts'

export type LinkType = 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change' | 'reauthentication'

/** The client will turn the link into a session itself, by showing what it hashed here. */
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
  /** Asked for by whoever reads the mail: an unconfirmed sign-up of somebody else leaves nothing behind. */
  startsOver?: boolean
}

export interface MadeLink {
  code: string
  linkToken: string
  url: string
}

const verifiers = /^[A-Za-z0-9._~-]{43,128}$/

/** Both or neither; none means that the link itself carries the session. */
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
  if (!verifiers.test(challenge))
    throw new Refusal(
      'validation_failed',
      'code_challenge must be 43 to 128 characters of A-Z a-z 0-9 . _ ~ -',
    )
  return { challenge, method }
}

export type Mails = ReturnType<typeof createMails>

export function createMails({ email, hashOneTime, baseUrl, limits, log }: AuthParts) {
  /** Writes the code down; its link is good as long as the settings say. */
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

  /** The mail is handed over by the caller once the transaction has committed. */
  async function prepare(session: Session, tenant: Tenant, user: MailUser, link: Link): Promise<Mail> {
    const { code, url } = await makeLink(session, tenant, user.id, link)
    return {
      to: link.address,
      template: link.template,
      values: {
        user_name: nameOf(user),
        action_url: url,
        expires_in: spell(settingsOf(tenant).otp_expiry_seconds),
        token: code,
        email: user.email ?? '',
        ...(link.type === 'email_change' && { new_email: user.email_change ?? '' }),
      },
    }
  }

  /** To the new address, and to the present one if that is the user's own: both must agree. */
  async function prepareEmailChange(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    redirectTo: string,
    challenge: Challenge | undefined,
  ): Promise<Mail[]> {
    const link = { type: 'email_change', template: 'verify_email', redirectTo, challenge } as const
    const asked: [Slot, string][] = [['email_change_new', user.email_change!]]
    if (user.email && user.email_confirmed_at) asked.push(['email_change_current', user.email])
    const made: Mail[] = []
    for (const [slot, address] of asked)
      made.push(await prepare(session, tenant, user, { ...link, slot, address }))
    return made
  }

  /** What was asked for is done by now; that its mail could not be queued does not undo it. */
  async function send(tenant: Tenant, mail: Mail): Promise<void> {
    await email
      .enqueue(tenant, mail)
      .catch(error => log.error({ err: error, project: tenant.id }, 'a mail could not be queued'))
  }

  /** Nobody asked for it: it is left out when the project has sent enough for now. */
  async function welcome(tenant: Tenant, user: MailUser): Promise<void> {
    if (!user.email || !limits.mayMail(tenant)) return
    await send(tenant, {
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

  return { makeLink, prepare, prepareEmailChange, welcome, send }
}

export type MailUser = Pick<UserRow, 'id' | 'email' | 'raw_user_meta_data'> &
  Partial<Pick<UserRow, 'email_change'>>

/** Mail programs make links of these; whoever signs somebody else up must not choose where they lead. */
const couldBeLink = /[:/\\@]|www\.|\.\p{L}{2,}/iu

function nameOf({ email, raw_user_meta_data: data }: MailUser): string {
  for (const key of ['full_name', 'name', 'user_name']) {
    const name = data[key]
    if (typeof name === 'string' && name !== '' && !couldBeLink.test(name)) return name.slice(0, 100)
  }
  return email ?? ''
}

function spell(seconds: number): string {
  const [count, unit] =
    seconds % 3600 === 0
      ? [seconds / 3600, 'hour']
      : seconds % 60 === 0
        ? [seconds / 60, 'minute']
        : [seconds, 'second']
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
