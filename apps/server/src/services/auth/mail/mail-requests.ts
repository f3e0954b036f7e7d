// Routes that send a mail: one-time codes, magic links, recovery and resending. Known and unknown addresses get the same
// answer after the same time, so that it does not show which addresses have an account.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from '../client-info.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { phoneNotOffered } from '../not-offered.ts'
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

/** Longer than the work for a known address takes. */
const minAnswerMs = 40

export function createMailRequests(deps: FlowDeps) {
  const { databases, limits } = deps
  const mails = createMails(deps)

  /** Checks the limits, runs the work, and pads the response time to its minimum. */
  async function handle(
    tenant: Tenant,
    body: MailRequest,
    client: ClientInfo,
    work: (session: Session, email: string, challenge: Challenge | undefined) => Promise<void>,
  ): Promise<Record<string, never>> {
    const startedAt = performance.now()
    if (body.phone && !body.email) throw phoneNotOffered()
    const email = addressFrom(body.email)
    const challenge = challengeFrom(body)
    limits.count(tenant, 'email', client.ip)
    limits.countMail(tenant, email)
    await databases.auth(tenant).transaction(session => work(session, email, challenge))
    const left = minAnswerMs - (performance.now() - startedAt)
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
  ) => mails.enqueueLink(session, tenant, user, { ...link, address: user.email!, redirectTo, challenge })

  return {
    /** Creates the user if needed. Ignores metadata of the request, because the sender has not proven the address. */
    async signIn(tenant: Tenant, body: MailRequest, redirectTo: string, client: ClientInfo) {
      const settings = settingsOf(tenant)
      if (!settings.magic_link_enabled)
        throw new Refusal('otp_disabled', 'Sign-in by mail is disabled for this project')
      const mayCreate = (body.create_user ?? true) && settings.signup_enabled
      return handle(tenant, body, client, async (session, email, challenge) => {
        const existing = await findUserByEmail(session, email)
        if (!existing && mayCreate) await createEmailUser(session, email, null, {})
        const user = existing ?? (mayCreate ? await findUserByEmail(session, email) : undefined)
        if (!user || user.is_banned) return
        await send(
          session,
          tenant,
          user,
          user.email_confirmed_at ? magicLink : firstSignIn,
          redirectTo,
          challenge,
        )
      })
    },

    recover: (tenant: Tenant, body: MailRequest, redirectTo: string, client: ClientInfo) =>
      handle(tenant, body, client, async (session, email, challenge) => {
        const user = await findUserByEmail(session, email)
        if (user && !user.is_banned) await send(session, tenant, user, recovery, redirectTo, challenge)
      }),

    resend(tenant: Tenant, body: MailRequest, redirectTo: string, client: ClientInfo) {
      const { type } = body
      if (type === 'sms' || type === 'phone_change') throw phoneNotOffered()
      if (type !== 'signup' && type !== 'email_change')
        throw new Refusal('validation_failed', 'Resend needs the type signup or email_change')
      return handle(tenant, body, client, async (session, email, challenge) => {
        if (type === 'signup') {
          const user = await findUserByEmail(session, email)
          if (user && !user.email_confirmed_at && !user.is_banned)
            await send(session, tenant, user, confirmation, redirectTo, challenge)
          return
        }
        const user = await findUserByEmailChange(session, email)
        if (!user || user.is_banned) return
        await mails.enqueueEmailChange(session, tenant, user, redirectTo, challenge)
      })
    },
  }
}

const magicLink = { type: 'magiclink', slot: 'recovery', template: 'magic_link', startsOver: true } as const
const confirmation = { type: 'signup', slot: 'confirmation', template: 'verify_email' } as const
/** A sign-up link, because it also confirms the address. The mail reads like a magic link. */
const firstSignIn = { ...confirmation, template: 'magic_link', startsOver: true } as const
const recovery = { type: 'recovery', slot: 'recovery', template: 'reset_password', startsOver: true } as const
