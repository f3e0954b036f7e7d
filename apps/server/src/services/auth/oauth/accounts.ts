// Finds or creates the user of a provider identity. The provider's subject always maps to the same user. An address maps
// to an existing user only if the provider has verified it. If that user never proved the address, the account is reset
// first: otherwise a stranger could sign up with your address and keep access after your first sign-in.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { expectRow } from '../expected-row.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { createMails } from '../mail/mails.ts'
import { findSession } from '../sessions-store.ts'
import { settingsOf } from '../settings.ts'
import { bannedAtSignIn } from '../sign-in-errors.ts'
import {
  confirmEmail,
  findUser,
  findUserByEmail,
  insertIdentity,
  insertUser,
  type UserRow,
  writeEvent,
} from '../users-store.ts'
import { badCallback, type ProviderIdentity } from './identity.ts'
import {
  findUserIdByIdentity,
  isAddressTaken,
  markPermanent,
  mergeClaims,
  resetUnprovenAccount,
  writeConfirmedEmail,
  writeIdentityData,
  writeProviders,
} from './identity-store.ts'

export interface ResolvedUser {
  userId: string
  /** Gets a welcome mail. */
  isNew: boolean
  /** A confirmation mail is queued, and there is no session until the address is confirmed. */
  mustVerify?: boolean
}

/** The signed-in user who links an identity, and the session. */
export interface Linking {
  userId: string
  sessionId: string
}

/** A concurrent sign-in changed the same rows. A retry finds what it has written. */
class ConcurrentSignIn extends Error {}

export type Accounts = ReturnType<typeof createAccounts>

export function createAccounts(deps: FlowDeps) {
  const { databases, limits } = deps
  const mails = createMails(deps)

  async function findOrCreateUser(
    session: Session,
    tenant: Tenant,
    identity: ProviderIdentity,
    redirectTo: string,
  ): Promise<ResolvedUser> {
    const userId = await findUserIdByIdentity(session, identity.provider, identity.subject)
    if (userId !== undefined) return signInKnown(session, tenant, userId, identity, redirectTo)
    if (identity.email === undefined)
      throw badCallback('The provider sent no email address; allow it to, and try again')
    const existing = await findUserByEmail(session, identity.email)
    if (!existing) return createUser(session, tenant, identity, identity.email, redirectTo)
    if (!identity.isEmailVerified) throw emailNotVerified(tenant)
    return { userId: await linkToUser(session, existing, identity, identity.email), isNew: false }
  }

  async function signInKnown(
    session: Session,
    tenant: Tenant,
    userId: string,
    identity: ProviderIdentity,
    redirectTo: string,
  ): Promise<ResolvedUser> {
    const user = await findUser(session, userId)
    if (!user) throw new ConcurrentSignIn()
    if (user.is_banned) throw bannedAtSignIn()
    await writeIdentityData(session, identity.provider, identity.subject, identity.claims)
    await mergeClaims(session, userId, identity.claims)
    if (user.email_confirmed_at || user.email === null) return { userId, isNew: false }
    if (identity.isEmailVerified && identity.email === user.email) {
      await confirmEmail(session, userId, true)
      return { userId, isNew: true }
    }
    await enqueueConfirmation(session, tenant, user, redirectTo)
    return { userId, isNew: false, mustVerify: true }
  }

  async function createUser(
    session: Session,
    tenant: Tenant,
    identity: ProviderIdentity,
    email: string,
    redirectTo: string,
  ): Promise<ResolvedUser> {
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
    if (userId === undefined) throw new ConcurrentSignIn()
    if (!(await insertIdentity(session, { userId, provider, providerId: subject, data: claims })))
      throw new ConcurrentSignIn()
    await writeEvent(session, 'user.created', userId, email)
    if (isConfirmed) return { userId, isNew: true }
    const user = expectRow(await findUser(session, userId))
    await enqueueConfirmation(session, tenant, user, redirectTo)
    return { userId, isNew: false, mustVerify: true }
  }

  function enqueueConfirmation(
    session: Session,
    tenant: Tenant,
    user: UserRow,
    redirectTo: string,
  ): Promise<void> {
    limits.countMail(tenant, user.email!)
    return mails.enqueueLink(session, tenant, user, {
      type: 'signup',
      slot: 'confirmation',
      template: 'verify_email',
      address: user.email!,
      redirectTo,
    })
  }

  return {
    /** Resolves the user and runs `then` in one transaction. Retries once after a concurrent sign-in. */
    async signIn<T>(
      tenant: Tenant,
      identity: ProviderIdentity,
      options: { linking: Linking | null; redirectTo: string },
      then: (session: Session, userId: string) => Promise<T>,
    ): Promise<T> {
      const attempt = () =>
        databases.auth(tenant).transaction(async session => {
          const { linking, redirectTo } = options
          const resolved =
            linking === null
              ? await findOrCreateUser(session, tenant, identity, redirectTo)
              : await linkToSignedIn(session, linking, identity)
          // Commits the new user, although there is no session yet.
          if (resolved.mustVerify) return
          const result = await then(session, resolved.userId)
          if (resolved.isNew)
            await mails.enqueueWelcome(session, tenant, expectRow(await findUser(session, resolved.userId)))
          return { result }
        })
      const signedIn = await attempt().catch(error => {
        if (error instanceof ConcurrentSignIn) return attempt()
        throw error
      })
      if (!signedIn) throw mustVerify()
      return signedIn.result
    },
  }
}

/** Links an identity with a verified address to the existing user of that address. */
async function linkToUser(
  session: Session,
  user: UserRow,
  { provider, subject, claims }: ProviderIdentity,
  email: string,
): Promise<string> {
  if (user.is_banned) throw bannedAtSignIn()
  // With auto_confirm, a confirmed address does not prove that the user owns it.
  if (!user.email_confirmed_at || user.is_email_unproven) await resetUnprovenAccount(session, user.id)
  const data = { userId: user.id, provider, providerId: subject, data: claims }
  if (!(await insertIdentity(session, data))) throw new ConcurrentSignIn()
  await writeConfirmedEmail(session, user.id, email)
  await mergeClaims(session, user.id, claims)
  await writeProviders(session, user.id)
  await writeEvent(session, 'user.updated', user.id, email)
  return user.id
}

/** Links an identity to the signed-in user who asked for it. */
async function linkToSignedIn(
  session: Session,
  { userId, sessionId }: Linking,
  identity: ProviderIdentity,
): Promise<ResolvedUser> {
  const { provider, subject, claims } = identity
  const user = await findUser(session, userId)
  if (!user) throw new Refusal({ code: 'user_not_found', status: 403 }, 'The user who asked is gone')
  if (user.is_banned) throw new Refusal('user_banned', 'User is banned')
  // The session may have been revoked while the browser was at the provider.
  if (!(await findSession(session, sessionId, userId)))
    throw new Refusal('session_not_found', 'The session that asked has ended')
  if (!(await insertIdentity(session, { userId, provider, providerId: subject, data: claims })))
    throw new Refusal('identity_already_exists', 'Identity is already linked to a user')
  if (user.email === null && identity.email !== undefined)
    await adoptEmail(session, user, identity, identity.email)
  if (user.is_anonymous) await markPermanent(session, userId)
  await mergeClaims(session, userId, claims)
  await writeProviders(session, userId)
  await writeEvent(session, 'user.updated', userId, user.email ?? identity.email ?? null)
  return { userId, isNew: false }
}

async function adoptEmail(session: Session, user: UserRow, identity: ProviderIdentity, email: string) {
  if (await isAddressTaken(session, email, user.id))
    throw new Refusal('email_exists', 'A user with this email address has already been registered')
  // An unverified address stays in the identity data and does not become the user's.
  if (identity.isEmailVerified) await writeConfirmedEmail(session, user.id, email)
}

const mustVerify = () =>
  new Refusal(
    'email_not_confirmed',
    'The provider does not vouch for the email address; verify it by mail first',
  )

/** With auto_confirm a sign-up shows anyway whether an address is taken. Without it, the answer must not show that. */
const emailNotVerified = (tenant: Tenant) =>
  settingsOf(tenant).auto_confirm
    ? new Refusal(
        'user_already_exists',
        'User already registered, and the provider does not vouch for the email address',
      )
    : mustVerify()
