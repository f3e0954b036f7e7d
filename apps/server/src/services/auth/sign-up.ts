// New users: with address and password, or with nothing at all.
import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { addressFrom } from './mail/address.ts'
import { type Challenge, challengeFrom, createMails } from './mail/mails.ts'
import type { AuthParts, ClientFacts } from './parts.ts'
import { checkNewPassword } from './password-rules.ts'
import { settingsOf } from './settings.ts'
import { createIssue, type SessionObject } from './sign-in.ts'
import {
  confirmEmail,
  findPasswordHash,
  findUserByEmail,
  insertUser,
  readUserObject,
  type UserObject,
  type UserRow,
  writeEmailIdentity,
  writeEvent,
} from './users-store.ts'
import { written } from './written.ts'

export interface SignUp {
  email?: string | null | undefined
  phone?: string | null | undefined
  password?: string | null | undefined
  data?: Record<string, unknown> | null | undefined
  code_challenge?: string | null | undefined
  code_challenge_method?: string | null | undefined
}

type Outcome = { reply: SessionObject | UserObject; mail?: Mail; welcomes?: UserRow }

export function createSignUp(parts: AuthParts) {
  const { databases, passwords, limits } = parts
  const issue = createIssue(parts)
  const mails = createMails(parts)

  async function signUpAnonymously(
    tenant: Tenant,
    data: object,
    client: ClientFacts,
  ): Promise<SessionObject> {
    limits.count(tenant, 'anonymous', client.ip)
    if (!settingsOf(tenant).anonymous_enabled)
      throw new Refusal('anonymous_provider_disabled', 'Anonymous sign-ins are disabled')
    return databases.auth(tenant).transaction(async session => {
      const made = await insertUser(session, {
        email: null,
        passwordHash: null,
        isConfirmed: false,
        isAnonymous: true,
        userMetadata: data,
        appMetadata: {},
      })
      const id = written(made)
      await writeEvent(session, 'user.created', id, null)
      return issue(session, tenant, id, 'anonymous', client)
    })
  }

  /** A session when sign-ups are confirmed by themselves, otherwise the user, who has mail. */
  async function signUpWithPassword(
    tenant: Tenant,
    { email, password, data, challenge }: PasswordSignUp,
    redirectTo: string,
    client: ClientFacts,
  ): Promise<SessionObject | UserObject> {
    const hash = await passwords(tenant.id).hash(password)
    const isSame = await hasPassword(tenant, email, password)
    const { reply, mail, welcomes } = await databases
      .auth(tenant)
      .transaction(async (session): Promise<Outcome> => {
        const asked = { email, password, data, challenge }
        const existing = await findUserByEmail(session, email)
        if (existing) return known(session, tenant, existing, asked, isSame, redirectTo)
        const id = await createEmailUser(session, email, hash, data)
        if (id === undefined) {
          const quicker = await findUserByEmail(session, email)
          if (!quicker) throw takenMeanwhile()
          return known(session, tenant, quicker, asked, false, redirectTo)
        }
        if (!settingsOf(tenant).auto_confirm) {
          const user = written(await findUserByEmail(session, email))
          const mail = await confirmationMail(session, tenant, user, redirectTo, challenge)
          return { reply: written(await readUserObject(session, id)), mail }
        }
        await confirmEmail(session, id, false)
        const made = await issue(session, tenant, id, 'password', client)
        return { reply: made, welcomes: written(await findUserByEmail(session, email)) }
      })
    if (mail) await mails.send(tenant, mail)
    if (welcomes) await mails.welcome(tenant, welcomes)
    return reply
  }

  /** Whoever signs up again learns nothing: the answer is that of a sign-up, and nothing of the user changes. */
  async function known(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    asked: PasswordSignUp,
    isSame: boolean,
    redirectTo: string,
  ): Promise<Outcome> {
    if (settingsOf(tenant).auto_confirm) throw new Refusal('user_already_exists', 'User already registered')
    if (user.email_confirmed_at) return { reply: fabricated(asked) }
    const mail = await confirmationMail(session, tenant, user, redirectTo, asked.challenge, !isSame)
    return { reply: written(await readUserObject(session, user.id)), mail }
  }

  /**
   * Two who sign up with one address and different passwords: nobody knows whose the address is, so neither password
   * outlives its confirmation. The same work is done for an address that is new.
   */
  const hasPassword = async (tenant: Tenant, email: string, password: string): Promise<boolean> =>
    settingsOf(tenant).auto_confirm ||
    passwords(tenant.id).verify(password, await findPasswordHash(databases.auth(tenant), email))

  const confirmationMail = (
    session: Session,
    tenant: Tenant,
    user: UserRow,
    redirectTo: string,
    challenge: Challenge | undefined,
    startsOver = false,
  ) =>
    mails.prepare(session, tenant, user, {
      type: 'signup',
      slot: 'confirmation',
      template: 'verify_email',
      address: user.email!,
      redirectTo,
      challenge,
      startsOver,
    })

  return async (tenant: Tenant, body: SignUp, redirectTo: string, client: ClientFacts) => {
    const settings = settingsOf(tenant)
    if (!settings.signup_enabled)
      throw new Refusal('signup_disabled', 'Signups not allowed for this instance')
    if (body.phone)
      throw body.email
        ? new Refusal(
            'validation_failed',
            'Only an email address or phone number should be provided on signup.',
          )
        : new Refusal('phone_provider_disabled', 'Phone signups are disabled')
    const data = body.data ?? {}
    if (!body.email && !body.password) return signUpAnonymously(tenant, data, client)
    limits.count(tenant, 'email', client.ip)
    if (!settings.email_enabled)
      throw new Refusal({ code: 'email_provider_disabled', status: 400 }, 'Email signups are disabled')
    if (!body.password) throw new Refusal('validation_failed', 'Signup requires a valid password')
    const email = addressFrom(body.email)
    checkNewPassword(body.password, settings)
    const challenge = challengeFrom(body)
    if (!settings.auto_confirm) limits.countMail(tenant, email)
    return signUpWithPassword(tenant, { email, password: body.password, data, challenge }, redirectTo, client)
  }
}

interface PasswordSignUp {
  email: string
  password: string
  data: Record<string, unknown>
  challenge: Challenge | undefined
}

/** Unconfirmed, with its identity; undefined when somebody was quicker. */
export async function createEmailUser(
  session: Session,
  email: string,
  passwordHash: string | null,
  data: Record<string, unknown>,
): Promise<string | undefined> {
  const id = randomUUID()
  const made = await insertUser(session, {
    id,
    email,
    passwordHash,
    isConfirmed: false,
    isAnonymous: false,
    userMetadata: { ...data, sub: id, email, email_verified: false, phone_verified: false },
    appMetadata: { provider: 'email', providers: ['email'] },
  })
  if (made === undefined) return
  await writeEmailIdentity(session, id, email, false, data)
  await writeEvent(session, 'user.created', id, email)
  return id
}

/** The same; or the user of whoever was quicker, for callers who may do as they like with an unconfirmed one. */
export async function createOrFindEmailUser(
  session: Session,
  email: string,
  passwordHash: string | null,
  data: Record<string, unknown>,
): Promise<string> {
  const id =
    (await createEmailUser(session, email, passwordHash, data)) ?? (await findUserByEmail(session, email))?.id
  if (id === undefined) throw takenMeanwhile()
  return id
}

const takenMeanwhile = () =>
  new Refusal('conflict', 'Another sign-up with this address is under way; try again')

/** Looks like somebody new; clients that want to can tell by the empty identities. */
function fabricated({ email, data }: PasswordSignUp): UserObject {
  const now = new Date().toISOString()
  return {
    id: randomUUID(),
    aud: 'authenticated',
    role: '',
    email,
    phone: '',
    confirmation_sent_at: now,
    app_metadata: { provider: 'email', providers: ['email'] },
    user_metadata: data,
    identities: [],
    created_at: now,
    updated_at: now,
    is_anonymous: false,
  }
}
