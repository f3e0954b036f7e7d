// Second factors (TOTP). Each operation is one transaction that locks user and session, so that of two requests with the
// same code only one succeeds.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from '../client-info.ts'
import type { CurrentUser } from '../current-user.ts'
import { expectRow } from '../expected-row.ts'
import type { FlowDeps } from '../flow-deps.ts'
import type { SessionObject } from '../session-issuer.ts'
import { settingsOf } from '../settings.ts'
import { readUserObject, writeEvent } from '../users-store.ts'
import { createEnroll } from './enrolment.ts'
import {
  asFactorOwner,
  enrolmentDisabled,
  factorNotFound,
  isUuid,
  requireOwnFactor,
  requireUser,
  secretContext,
} from './factor-owner.ts'
import {
  acceptAnswer,
  type ChallengeRow,
  countWrongAnswer,
  deleteFactor,
  downgradeSessions,
  type FactorObject,
  type FactorRow,
  findChallenge,
  insertChallenge,
  listFactors,
  secondsLocked,
  upgradeSession,
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
/** Wrong codes after which a challenge is invalid. */
const maxAttemptsPerChallenge = 5
/**
 * Wrong codes per factor over all its challenges. Three of a million codes are valid at any time, and new challenges
 * cost nothing, so the limit per challenge alone would not stop guessing.
 */
const maxAttemptsPerFactor = 10
const attemptWindowSeconds = 900

export function createMfa(deps: FlowDeps) {
  const { databases, limits, sealer, tokens } = deps
  const asOwner = asFactorOwner(databases)

  /** A factor that accepts a code: not expired and not locked. */
  async function usableFactor(
    session: Session,
    tenant: Tenant,
    userId: string,
    id: string,
  ): Promise<FactorRow> {
    const factor = await requireOwnFactor(session, userId, id)
    if (factor.is_expired) throw factorNotFound('The factor was not verified in time; enroll again')
    if (!factor.is_verified && !settingsOf(tenant).mfa_enabled) throw enrolmentDisabled()
    const wait = await secondsLocked(session, id, maxAttemptsPerFactor, attemptWindowSeconds)
    if (wait > 0)
      throw retryLater(
        'over_request_rate_limit',
        `Too many wrong codes for this factor; try again in ${wait} seconds`,
        wait,
      )
    return factor
  }

  /** Rejects a code that was used before, and older codes, so that an intercepted code cannot be replayed. */
  function acceptedStep(tenant: Tenant, factor: FactorRow, code: string): number | undefined {
    // The project can write factor rows itself. Codes of an empty secret would be predictable.
    if (!factor.secret) return
    const secret = sealer.open(factor.secret, secretContext(tenant, factor.id))
    const step = totpStep(secret, code, factor.current_step)
    return step !== undefined && step > (factor.last_used_step ?? -1) ? step : undefined
  }

  async function upgradedSession(
    session: Session,
    tenant: Tenant,
    { user, session: current }: CurrentUser,
    factorId: string,
  ): Promise<SessionObject> {
    const settings = settingsOf(tenant)
    const state = await upgradeSession(session, user.id, current, factorId, settings.session_duration_seconds)
    await writeEvent(session, 'user.updated', user.id, user.email)
    const userObject = expectRow(await readUserObject(session, user.id))
    return { ...(await tokens.issue(tenant, userObject, state, settings)), user: userObject }
  }

  /** Also downgrades sessions that used the factor to aal1. */
  async function remove(
    session: Session,
    userId: string,
    email: string | null,
    id: string,
  ): Promise<FactorObject> {
    await downgradeSessions(session, id)
    const removed = await deleteFactor(session, userId, id)
    if (!removed) throw factorNotFound()
    await writeEvent(session, 'user.updated', userId, email)
    return removed
  }

  return {
    enroll: createEnroll(deps),

    challenge(caller: Caller, factorId: string, client: ClientInfo): Promise<ChallengeReply> {
      limits.count(caller.tenant, 'mfa', client.ip)
      return asOwner(caller, async (session, { user }) => {
        const factor = await usableFactor(session, caller.tenant, user.id, factorId)
        const { id, expires_at } = await insertChallenge(session, factor.id, client.ip, {
          lifetimeSeconds: challengeSeconds,
          keptSeconds: attemptWindowSeconds,
        })
        return { id, type: factor.factor_type, expires_at }
      })
    },

    async verify(
      caller: Caller,
      factorId: string,
      { challenge_id: challengeId, code }: FactorAnswer,
      client: ClientInfo,
    ): Promise<SessionObject> {
      const { tenant } = caller
      limits.count(tenant, 'mfa', client.ip)
      if (!challengeId || !code) throw new Refusal('validation_failed', 'Verify needs challenge_id and code')
      // The transaction must commit the count of a wrong code, so the refusal is thrown after it.
      const issued = await asOwner(caller, async (session, current) => {
        const { user } = current
        const factor = await usableFactor(session, tenant, user.id, factorId)
        const challenge = isUuid(challengeId)
          ? await findChallenge(session, factor.id, challengeId, challengeSeconds)
          : undefined
        checkChallenge(challenge, client)
        const step = acceptedStep(tenant, factor, code)
        if (step === undefined) {
          await countWrongAnswer(session, challengeId)
          return
        }
        await acceptAnswer(session, { userId: user.id, factorId: factor.id, challengeId, step })
        return upgradedSession(session, tenant, current, factor.id)
      })
      if (!issued) throw new Refusal('mfa_verification_failed', 'The code is wrong or was used already')
      return issued
    },

    unenroll(caller: Caller, factorId: string): Promise<{ id: string }> {
      return asOwner(caller, async (session, { user, session: current }) => {
        const factor = await requireOwnFactor(session, user.id, factorId)
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
        await requireUser(session, userId)
        return listFactors(session, userId)
      })
    },

    adminDelete(tenant: Tenant, userId: string, factorId: string): Promise<FactorObject> {
      return databases.auth(tenant).transaction(async session => {
        const user = await requireUser(session, userId)
        const factor = await requireOwnFactor(session, userId, factorId)
        return remove(session, userId, user.email, factor.id)
      })
    },
  }
}

function checkChallenge(
  challenge: ChallengeRow | undefined,
  { ip }: ClientInfo,
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
  if (challenge.attempts >= maxAttemptsPerChallenge)
    throw new Refusal('mfa_challenge_expired', 'Too many wrong codes for this challenge; create a new one')
}
