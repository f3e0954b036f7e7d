// Sign-up with address and password, and anonymous sign-up.
import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from './client-info.ts'
import { expectRow } from './expected-row.ts'
import type { FlowDeps } from './flow-deps.ts'
import { addressFrom } from './mail/address.ts'
import { type Challenge, challengeFrom, createMails } from './mail/mails.ts'
import { phoneNotOffered } from './not-offered.ts'
import { checkNewPassword } from './password-rules.ts'
import { createSessionIssuer, type SessionObject } from './session-issuer.ts'
import { settingsOf } from './settings.ts'
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

export interface SignUp {
  email?: string | null | undefined
  phone?: string | null | undefined
  password?: string | null | undefined
  data?: Record<string, unknown> | null | undefined
  code_challenge?: string | null | undefined
  code_challenge_method?: string | null | undefined
}

export function createSignUp(deps: FlowDeps) {
  const { databases, passwords, limits } = deps
  const issueSession = createSessionIssuer(deps)
  const mails = createMails(deps)

  async function signUpAnonymously(tenant: Tenant, data: object, client: ClientInfo): Promise<SessionObject> {
    limits.count(tenant, 'anonymous', client.ip)
    if (!settingsOf(tenant).anonymous_enabled)
      throw new Refusal('anonymous_provider_disabled', 'Anonymous sign-ins are disabled')
    return databases.auth(tenant).transaction(async session => {
      const inserted = await insertUser(session, {
        email: null,
        passwordHash: null,
        isConfirmed: false,
        isAnonymous: true,
        userMetadata: data,
        appMetadata: {},
      })
      const id = expectRow(inserted)
      await writeEvent(session, 'user.created', id, null)
      return issueSession(session, tenant, id, 'anonymous', client)
    })
  }

  /** Returns a session with auto_confirm. Otherwise returns the user and sends a confirmation mail. */
  async function signUpWithPassword(
    tenant: Tenant,
    { email, password, data, challenge }: PasswordSignUp,
    redirectTo: string,
    client: ClientInfo,
  ): Promise<SessionObject | UserObject> {
    const hash = await passwords(tenant.id).hash(password)
    const isSame = await hasPassword(tenant, email, password)
    return databases.auth(tenant).transaction(async (session): Promise<SessionObject | UserObject> => {
      const request = { email, password, data, challenge }
      const existing = await findUserByEmail(session, email)
      if (existing) return signUpAgain(session, tenant, existing, request, isSame, redirectTo)
      const id = await createEmailUser(session, email, hash, data)
      if (id === undefined) {
        const concurrent = await findUserByEmail(session, email)
        if (!concurrent) throw concurrentSignUp()
        return signUpAgain(session, tenant, concurrent, request, false, redirectTo)
      }
      if (!settingsOf(tenant).auto_confirm) {
        const user = expectRow(await findUserByEmail(session, email))
        await enqueueConfirmation(session, tenant, user, redirectTo, challenge)
        return expectRow(await readUserObject(session, id))
      }
      await confirmEmail(session, id, false)
      const issued = await issueSession(session, tenant, id, 'password', client)
      await mails.enqueueWelcome(session, tenant, expectRow(await findUserByEmail(session, email)))
      return issued
    })
  }

  /**
   * A sign-up with an address that has an account gets the answer of a new sign-up and changes nothing. Otherwise the
   * answer would show which addresses have an account.
   */
  async function signUpAgain(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    request: PasswordSignUp,
    isSame: boolean,
    redirectTo: string,
  ): Promise<UserObject> {
    if (settingsOf(tenant).auto_confirm) throw new Refusal('user_already_exists', 'User already registered')
    if (user.email_confirmed_at) return decoyUser(request)
    await enqueueConfirmation(session, tenant, user, redirectTo, request.challenge, !isSame)
    return expectRow(await readUserObject(session, user.id))
  }

  /**
   * Two sign-ups with one address and different passwords: it is unknown who owns the address, so its confirmation
   * deletes both passwords. A new address costs the same work, so that the response time does not differ.
   */
  const hasPassword = async (tenant: Tenant, email: string, password: string): Promise<boolean> =>
    settingsOf(tenant).auto_confirm ||
    passwords(tenant.id).verify(password, await findPasswordHash(databases.auth(tenant), email))

  const enqueueConfirmation = (
    session: Session,
    tenant: Tenant,
    user: UserRow,
    redirectTo: string,
    challenge: Challenge | undefined,
    startsOver = false,
  ) =>
    mails.enqueueLink(session, tenant, user, {
      type: 'signup',
      slot: 'confirmation',
      template: 'verify_email',
      address: user.email!,
      redirectTo,
      challenge,
      startsOver,
    })

  return async (tenant: Tenant, body: SignUp, redirectTo: string, client: ClientInfo) => {
    const settings = settingsOf(tenant)
    if (!settings.signup_enabled)
      throw new Refusal('signup_disabled', 'Signups not allowed for this instance')
    if (body.phone)
      throw body.email
        ? new Refusal(
            'validation_failed',
            'Only an email address or phone number should be provided on signup.',
          )
        : phoneNotOffered()
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

/** A user who signs up. Its metadata is a copy of the identity. Undefined when a concurrent request took the address. */
export function createEmailUser(
  session: Session,
  email: string,
  passwordHash: string | null,
  data: Record<string, unknown>,
): Promise<string | undefined> {
  const id = randomUUID()
  const userMetadata = { ...data, sub: id, email, email_verified: false, phone_verified: false }
  return insertEmailUser(session, { id, email, passwordHash, data, userMetadata })
}

/** Inserts an unconfirmed user with its identity. */
async function insertEmailUser(
  session: Session,
  { id, email, passwordHash, data, userMetadata }: NewEmailUser,
): Promise<string | undefined> {
  const inserted = await insertUser(session, {
    id,
    email,
    passwordHash,
    isConfirmed: false,
    isAnonymous: false,
    userMetadata,
    appMetadata: { provider: 'email', providers: ['email'] },
  })
  if (inserted === undefined) return
  await writeEmailIdentity(session, id, email, false, data)
  await writeEvent(session, 'user.created', id, email)
  return id
}

interface NewEmailUser {
  id: string
  email: string
  passwordHash: string | null
  data: Record<string, unknown>
  userMetadata: Record<string, unknown>
}

/**
 * A user whom the admin API creates. Its metadata is the given data. Returns the user of a concurrent request, because
 * the admin API may change an unconfirmed user.
 */
export async function createOrFindUserForAdmin(
  session: Session,
  email: string,
  passwordHash: string | null,
  data: Record<string, unknown>,
): Promise<string> {
  const user = { id: randomUUID(), email, passwordHash, data, userMetadata: data }
  const id = (await insertEmailUser(session, user)) ?? (await findUserByEmail(session, email))?.id
  if (id === undefined) throw concurrentSignUp()
  return id
}

const concurrentSignUp = () =>
  new Refusal('conflict', 'Another sign-up with this address is under way; try again')

/** Looks like a new user. Clients can detect it by the empty identities, as with GoTrue. */
function decoyUser({ email, data }: PasswordSignUp): UserObject {
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
