// Second factors: an authenticator app that shows a code. Each act is one transaction under the locks of user and
// session, so that of two that come with the same code one is too late.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { CurrentUser } from '../current-user.ts'
import type { AuthParts, ClientFacts } from '../parts.ts'
import { settingsOf } from '../settings.ts'
import type { SessionObject } from '../sign-in.ts'
import { readUserObject, writeEvent } from '../users-store.ts'
import { written } from '../written.ts'
import { createEnroll } from './enrolment.ts'
import {
  asOwnerOfFactors,
  enrolmentDisabled,
  factorNotFound,
  isUuid,
  knownUser,
  ownFactor,
  secretContext,
} from './factor-owner.ts'
import {
  acceptAnswer,
  type ChallengeRow,
  countWrongAnswer,
  deleteFactor,
  type FactorObject,
  type FactorRow,
  findChallenge,
  insertChallenge,
  listFactors,
  lowerSessions,
  raiseSession,
  secondsLocked,
} from './factors-store.ts'
import { totpStep } from './totp.ts'

export interface ChallengeReply {
  id: string
  type: string
  expires_at: number
}

export interface FactorAnswer {
  challenge_id?: string | null | undefined
  code?: string | null | undefined
}

const challengeSeconds = 300
/** Wrong codes after which a challenge is void. */
const mayTryPerChallenge = 5
/**
 * Wrong codes at one factor, over all its challenges and whoever asks: of a million codes three are right at any time,
 * and challenges are free.
 */
const mayTryPerFactor = 10
const tryWindowSeconds = 900

export function createMfa(parts: AuthParts) {
  const { databases, limits, sealer, tokens } = parts
  const asOwner = asOwnerOfFactors(databases)

  /** A factor that can be asked for a code. */
  async function usableFactor(
    session: Session,
    tenant: Tenant,
    userId: string,
    id: string,
  ): Promise<FactorRow> {
    const factor = await ownFactor(session, userId, id)
    if (factor.is_expired) throw factorNotFound('The factor was not verified in time; enroll again')
    if (!factor.is_verified && !settingsOf(tenant).mfa_enabled) throw enrolmentDisabled()
    const wait = await secondsLocked(session, id, mayTryPerFactor, tryWindowSeconds)
    if (wait > 0)
      throw retryLater(
        'over_request_rate_limit',
        `Too many wrong codes for this factor; try again in ${wait} seconds`,
        wait,
      )
    return factor
  }

  /** No code counts twice, nor one before it. */
  function acceptedStep(tenant: Tenant, factor: FactorRow, code: string): number | undefined {
    // Rows may have been written by the project itself; anybody could work out the codes of an empty secret.
    if (!factor.secret) return
    const secret = sealer.open(factor.secret, secretContext(tenant, factor.id))
    const step = totpStep(secret, code, factor.current_step)
    return step !== undefined && step > (factor.last_used_step ?? -1) ? step : undefined
  }

  async function passed(
    session: Session,
    tenant: Tenant,
    { user, session: current }: CurrentUser,
    factorId: string,
  ): Promise<SessionObject> {
    const settings = settingsOf(tenant)
    const state = await raiseSession(session, user.id, current, factorId, settings.session_duration_seconds)
    await writeEvent(session, 'user.updated', user.id, user.email)
    const userObject = written(await readUserObject(session, user.id))
    return { ...tokens.issue(tenant, userObject, state, settings), user: userObject }
  }

  /** Whoever rested on the factor is back at aal1. */
  async function remove(
    session: Session,
    userId: string,
    email: string | null,
    id: string,
  ): Promise<FactorObject> {
    await lowerSessions(session, id)
    const removed = await deleteFactor(session, userId, id)
    if (!removed) throw factorNotFound()
    await writeEvent(session, 'user.updated', userId, email)
    return removed
  }

  return {
    enroll: createEnroll(parts),

    challenge(caller: Caller, factorId: string, client: ClientFacts): Promise<ChallengeReply> {
      limits.count(caller.tenant, 'mfa', client.ip)
      return asOwner(caller, async (session, { user }) => {
        const factor = await usableFactor(session, caller.tenant, user.id, factorId)
        const { id, expires_at } = await insertChallenge(session, factor.id, client.ip, {
          lifetimeSeconds: challengeSeconds,
          keptSeconds: tryWindowSeconds,
        })
        return { id, type: factor.factor_type, expires_at }
      })
    },

    async verify(
      caller: Caller,
      factorId: string,
      { challenge_id: challengeId, code }: FactorAnswer,
      client: ClientFacts,
    ): Promise<SessionObject> {
      const { tenant } = caller
      limits.count(tenant, 'mfa', client.ip)
      if (!challengeId || !code) throw new Refusal('validation_failed', 'Verify needs challenge_id and code')
      // A wrong code is counted, and that must not be undone: the refusal comes after the transaction.
      const made = await asOwner(caller, async (session, current) => {
        const { user } = current
        const factor = await usableFactor(session, tenant, user.id, factorId)
        const challenge = isUuid(challengeId)
          ? await findChallenge(session, factor.id, challengeId, challengeSeconds)
          : undefined
        refuseUnlessOpen(challenge, client)
        const step = acceptedStep(tenant, factor, code)
        if (step === undefined) {
          await countWrongAnswer(session, challengeId)
          return
        }
        await acceptAnswer(session, { userId: user.id, factorId: factor.id, challengeId, step })
        return passed(session, tenant, current, factor.id)
      })
      if (!made) throw new Refusal('mfa_verification_failed', 'The code is wrong or was used already')
      return made
    },

    unenroll(caller: Caller, factorId: string): Promise<{ id: string }> {
      return asOwner(caller, async (session, { user, session: current }) => {
        const factor = await ownFactor(session, user.id, factorId)
        if (factor.is_verified && current.aal === 'aal1')
          throw new Refusal(
            { code: 'insufficient_aal', status: 422 },
            'A verified factor can be removed by a session at aal2 only; verify a code first',
          )
        const { id } = await remove(session, user.id, user.email, factor.id)
        return { id }
      })
    },

    adminList(tenant: Tenant, userId: string): Promise<FactorObject[]> {
      return databases.auth(tenant).transaction(async session => {
        await knownUser(session, userId)
        return listFactors(session, userId)
      })
    },

    adminDelete(tenant: Tenant, userId: string, factorId: string): Promise<FactorObject> {
      return databases.auth(tenant).transaction(async session => {
        const user = await knownUser(session, userId)
        const factor = await ownFactor(session, userId, factorId)
        return remove(session, userId, user.email, factor.id)
      })
    },
  }
}

function refuseUnlessOpen(
  challenge: ChallengeRow | undefined,
  { ip }: ClientFacts,
): asserts challenge is ChallengeRow {
  if (!challenge)
    throw new Refusal({ code: 'mfa_factor_not_found', status: 422 }, 'The factor has no challenge of this id')
  if (challenge.ip_address !== ip)
    throw new Refusal(
      'mfa_ip_address_mismatch',
      'The challenge was asked for from another IP address; create a new one',
    )
  if (challenge.is_expired)
    throw new Refusal('mfa_challenge_expired', 'The challenge has expired; create a new one')
  if (challenge.is_answered)
    throw new Refusal('mfa_challenge_expired', 'This challenge has been answered; create a new one')
  if (challenge.attempts >= mayTryPerChallenge)
    throw new Refusal('mfa_challenge_expired', 'Too many wrong codes for this challenge; create a new one')
}
