// Everything that answers "look into your mail": one-time codes, magic links, recovery, resending. Known and unknown
// addresses get the same answer, after the same time.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { AuthParts, ClientFacts } from '../parts.ts'
import { settingsOf } from '../settings.ts'
import { createEmailUser } from '../sign-up.ts'
import { findUserByEmail, findUserByEmailChange, type UserRow } from '../users-store.ts'
import { addressFrom } from './address.ts'
import { type Challenge, challengeFrom, createMails, type Link } from './mails.ts'

export interface MailRequest {
  email?: string | null | undefined
  phone?: string | null | undefined
  create_user?: boolean | null | undefined
  type?: string | null | undefined
  code_challenge?: string | null | undefined
  code_challenge_method?: string | null | undefined
}

/** Long enough for all that is done for an address that is known. */
const answerAfterMs = 40

export function createByMail(parts: AuthParts) {
  const { databases, limits } = parts
  const mails = createMails(parts)

  /** Counts, looks, writes, posts; then waits until whoever asked cannot tell what of it was done. */
  async function ask(
    tenant: Tenant,
    body: MailRequest,
    client: ClientFacts,
    prepare: (
      session: Session,
      email: string,
      challenge: Challenge | undefined,
    ) => Promise<Mail | Mail[] | undefined>,
  ): Promise<Record<string, never>> {
    const startedAt = performance.now()
    if (body.phone && !body.email)
      throw new Refusal('phone_provider_disabled', 'Nothing is sent to phones here; use an email address')
    const email = addressFrom(body.email)
    const challenge = challengeFrom(body)
    limits.count(tenant, 'email', client.ip)
    limits.countMail(tenant, email)
    const mail = await databases.auth(tenant).transaction(session => prepare(session, email, challenge))
    for (const each of [mail ?? []].flat()) await mails.send(tenant, each)
    const left = answerAfterMs - (performance.now() - startedAt)
    if (left > 0) await new Promise(resolve => setTimeout(resolve, left))
    return {}
  }

  const send = (
    session: Session,
    tenant: Tenant,
    user: UserRow,
    link: Pick<Link, 'type' | 'slot' | 'template' | 'startsOver'>,
    redirectTo: string,
    challenge: Challenge | undefined,
  ) => mails.prepare(session, tenant, user, { ...link, address: user.email!, redirectTo, challenge })

  return {
    /** Whoever is new is signed up on the way; what they sent along is not kept, since nobody has verified it. */
    async signIn(tenant: Tenant, body: MailRequest, redirectTo: string, client: ClientFacts) {
      const settings = settingsOf(tenant)
      if (!settings.magic_link_enabled)
        throw new Refusal('otp_disabled', 'Sign-in by mail is disabled for this project')
      const mayCreate = (body.create_user ?? true) && settings.signup_enabled
      return ask(tenant, body, client, async (session, email, challenge) => {
        const existing = await findUserByEmail(session, email)
        if (!existing && mayCreate) await createEmailUser(session, email, null, {})
        const user = existing ?? (mayCreate ? await findUserByEmail(session, email) : undefined)
        if (!user || user.is_banned) return
        return send(
          session,
          tenant,
          user,
          user.email_confirmed_at ? magicLink : firstSignIn,
          redirectTo,
          challenge,
        )
      })
    },

    recover: (tenant: Tenant, body: MailRequest, redirectTo: string, client: ClientFacts) =>
      ask(tenant, body, client, async (session, email, challenge) => {
        const user = await findUserByEmail(session, email)
        if (user && !user.is_banned) return send(session, tenant, user, recovery, redirectTo, challenge)
      }),

    resend(tenant: Tenant, body: MailRequest, redirectTo: string, client: ClientFacts) {
      const { type } = body
      if (type === 'sms' || type === 'phone_change')
        throw new Refusal('phone_provider_disabled', 'Nothing is sent to phones here; use an email address')
      if (type !== 'signup' && type !== 'email_change')
        throw new Refusal('validation_failed', 'Resend needs the type signup or email_change')
      return ask(tenant, body, client, async (session, email, challenge) => {
        if (type === 'signup') {
          const user = await findUserByEmail(session, email)
          if (user && !user.email_confirmed_at && !user.is_banned)
            return send(session, tenant, user, confirmation, redirectTo, challenge)
          return
        }
        const user = await findUserByEmailChange(session, email)
        if (!user || user.is_banned) return
        return mails.prepareEmailChange(session, tenant, user, redirectTo, challenge)
      })
    },
  }
}

const magicLink = { type: 'magiclink', slot: 'recovery', template: 'magic_link', startsOver: true } as const
const confirmation = { type: 'signup', slot: 'confirmation', template: 'verify_email' } as const
/** It confirms the address as well, so it is the link of a sign-up; to its reader it is a way to sign in. */
const firstSignIn = { ...confirmation, template: 'magic_link', startsOver: true } as const
const recovery = { type: 'recovery', slot: 'recovery', template: 'reset_password', startsOver: true } as const
