// From an identity to a user of the project. The provider's name for somebody always leads to the same user. An address
// leads to one only if the provider vouches for it; and whoever has put that address into an account without ever
// proving it loses the account to the one who has: signing up under somebody's address must not be a way to wait there.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Mail } from '#src/services/email/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { createMails } from '../mail/mails.ts'
import type { AuthParts } from '../parts.ts'
import { findSession } from '../sessions-store.ts'
import { settingsOf } from '../settings.ts'
import { bannedAtSignIn } from '../sign-in.ts'
import {
  confirmEmail,
  findUser,
  findUserByEmail,
  insertIdentity,
  insertUser,
  type UserRow,
  writeEvent,
} from '../users-store.ts'
import { written } from '../written.ts'
import { badCallback, type ProviderIdentity } from './identity.ts'
import {
  findUserIdByIdentity,
  forgetUnprovenOwner,
  isAddressTaken,
  mergeClaims,
  writeConfirmedEmail,
  writeIdentityData,
  writePermanent,
  writeProviders,
} from './identity-store.ts'

/** What is to be told once the transaction has committed. */
export interface Arrival {
  userId: string
  /** Sent a welcome. */
  isNew: boolean
  /** No session before the address is verified: this mail goes out instead. */
  mail?: Mail
}

/** A signed-in user who adds an identity, and in which session. */
export interface Linking {
  userId: string
  sessionId: string
}

/** Two arrivals at once; the second finds what the first has made when it tries again. */
class Overtaken extends Error {}

export type Accounts = ReturnType<typeof createAccounts>

export function createAccounts(parts: AuthParts) {
  const { databases, limits } = parts
  const mails = createMails(parts)

  /** The user this identity belongs to, made or linked if need be. */
  async function arrive(
    session: Session,
    tenant: Tenant,
    identity: ProviderIdentity,
    redirectTo: string,
  ): Promise<Arrival> {
    const userId = await findUserIdByIdentity(session, identity.provider, identity.subject)
    if (userId !== undefined) return again(session, tenant, userId, identity, redirectTo)
    if (identity.email === undefined)
      throw badCallback('The provider told no email address; allow it to, and try again')
    const existing = await findUserByEmail(session, identity.email)
    if (!existing) return first(session, tenant, identity, identity.email, redirectTo)
    if (!identity.isEmailVerified) throw notVouchedFor(tenant)
    return { userId: await joinTo(session, existing, identity, identity.email), isNew: false }
  }

  async function again(
    session: Session,
    tenant: Tenant,
    userId: string,
    identity: ProviderIdentity,
    redirectTo: string,
  ): Promise<Arrival> {
    const user = await findUser(session, userId)
    if (!user) throw new Overtaken()
    if (user.is_banned) throw bannedAtSignIn()
    await writeIdentityData(session, identity.provider, identity.subject, identity.claims)
    await mergeClaims(session, userId, identity.claims)
    if (user.email_confirmed_at || user.email === null) return { userId, isNew: false }
    if (identity.isEmailVerified && identity.email === user.email) {
      await confirmEmail(session, userId, true)
      return { userId, isNew: true }
    }
    return { userId, isNew: false, mail: await confirmationMail(session, tenant, user, redirectTo) }
  }

  async function first(
    session: Session,
    tenant: Tenant,
    identity: ProviderIdentity,
    email: string,
    redirectTo: string,
  ): Promise<Arrival> {
    const { signup_enabled, auto_confirm } = settingsOf(tenant)
    if (!signup_enabled) throw new Refusal('signup_disabled', 'Signups not allowed for this instance')
    const isConfirmed = identity.isEmailVerified || auto_confirm
    const { provider, subject, claims } = identity
    const userId = await insertUser(session, {
      email,
      passwordHash: null,
      isConfirmed,
      isProven: identity.isEmailVerified,
      isAnonymous: false,
      userMetadata: claims,
      appMetadata: { provider, providers: [provider] },
    })
    if (userId === undefined) throw new Overtaken()
    if (!(await insertIdentity(session, { userId, provider, providerId: subject, data: claims })))
      throw new Overtaken()
    await writeEvent(session, 'user.created', userId, email)
    if (isConfirmed) return { userId, isNew: true }
    const user = written(await findUser(session, userId))
    return { userId, isNew: false, mail: await confirmationMail(session, tenant, user, redirectTo) }
  }

  function confirmationMail(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    redirectTo: string,
  ): Promise<Mail> {
    limits.countMail(tenant, user.email!)
    return mails.prepare(session, tenant, user, {
      type: 'signup',
      slot: 'confirmation',
      template: 'verify_email',
      address: user.email!,
      redirectTo,
    })
  }

  return {
    /** Runs in one transaction with what follows, and once more when somebody else was quicker. */
    async signIn<T>(
      tenant: Tenant,
      identity: ProviderIdentity,
      options: { linking: Linking | null; redirectTo: string },
      then: (session: Session, userId: string) => Promise<T>,
    ): Promise<T> {
      const attempt = () =>
        databases.auth(tenant).transaction(async session => {
          const { linking, redirectTo } = options
          const arrival =
            linking === null
              ? await arrive(session, tenant, identity, redirectTo)
              : await add(session, linking, identity)
          // What was made stays, although nobody is signed in yet.
          if (arrival.mail) return { arrival, result: undefined }
          return { arrival, result: await then(session, arrival.userId) }
        })
      const { arrival, result } = await attempt().catch(error => {
        if (error instanceof Overtaken) return attempt()
        throw error
      })
      if (arrival.mail) await mails.send(tenant, arrival.mail)
      if (result === undefined) throw mustVerify()
      if (arrival.isNew) await mails.welcome(tenant, await welcomed(tenant, arrival.userId))
      return result
    },
  }

  async function welcomed(tenant: Tenant, userId: string): Promise<UserRow> {
    return written(await databases.auth(tenant).transaction(session => findUser(session, userId)))
  }
}

/** The provider vouches for the address of an account that is there. */
async function joinTo(
  session: Session,
  user: UserRow,
  { provider, subject, claims }: ProviderIdentity,
  email: string,
): Promise<string> {
  if (user.is_banned) throw bannedAtSignIn()
  // Where sign-ups are confirmed by themselves, that an address is confirmed proves nothing.
  if (!user.email_confirmed_at || user.is_email_unproven) await forgetUnprovenOwner(session, user.id)
  const data = { userId: user.id, provider, providerId: subject, data: claims }
  if (!(await insertIdentity(session, data))) throw new Overtaken()
  await writeConfirmedEmail(session, user.id, email)
  await mergeClaims(session, user.id, claims)
  await writeProviders(session, user.id)
  await writeEvent(session, 'user.updated', user.id, email)
  return user.id
}

/** A signed-in user adds a way to sign in. */
async function add(
  session: Session,
  { userId, sessionId }: Linking,
  identity: ProviderIdentity,
): Promise<Arrival> {
  const { provider, subject, claims } = identity
  const user = await findUser(session, userId)
  if (!user) throw new Refusal({ code: 'user_not_found', status: 403 }, 'The user who asked is gone')
  if (user.is_banned) throw new Refusal('user_banned', 'User is banned')
  // Whoever asked may have been shown out while they were at the provider's.
  if (!(await findSession(session, sessionId, userId)))
    throw new Refusal('session_not_found', 'The session that asked has ended')
  if (!(await insertIdentity(session, { userId, provider, providerId: subject, data: claims })))
    throw new Refusal('identity_already_exists', 'Identity is already linked to a user')
  if (user.email === null && identity.email !== undefined)
    await takeAddress(session, user, identity, identity.email)
  if (user.is_anonymous) await writePermanent(session, userId)
  await mergeClaims(session, userId, claims)
  await writeProviders(session, userId)
  await writeEvent(session, 'user.updated', userId, user.email ?? identity.email ?? null)
  return { userId, isNew: false }
}

async function takeAddress(session: Session, user: UserRow, identity: ProviderIdentity, email: string) {
  if (await isAddressTaken(session, email, user.id))
    throw new Refusal('email_exists', 'A user with this email address has already been registered')
  // An address nobody vouches for stays with the identity.
  if (identity.isEmailVerified) await writeConfirmedEmail(session, user.id, email)
}

const mustVerify = () =>
  new Refusal(
    'email_not_confirmed',
    'The provider does not vouch for the email address; verify it by mail first',
  )

/** Without a second step, whoever signs up learns that an address is taken anyway; with one, they do not. */
const notVouchedFor = (tenant: Tenant) =>
  settingsOf(tenant).auto_confirm
    ? new Refusal(
        'user_already_exists',
        'User already registered, and the provider does not vouch for the email address',
      )
    : mustVerify()
