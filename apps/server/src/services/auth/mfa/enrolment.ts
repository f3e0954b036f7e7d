// Enrolls a second factor: creates the secret for an authenticator app. The first valid code verifies the factor.
import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { settingsOf } from '../settings.ts'
import { asFactorOwner, enrolmentDisabled, enrolmentSeconds, secretContext } from './factor-owner.ts'
import { countFactors, deleteExpiredFactors, hasVerifiedFactor, insertTotpFactor } from './factors-store.ts'
import { fitsLink, newTotpSecret, qrCodeSvg, totpUri } from './totp.ts'

export interface Enrolment {
  friendly_name?: string | null | undefined
  factor_type?: string | null | undefined
  issuer?: string | null | undefined
  phone?: string | null | undefined
}

export interface Enrolled {
  id: string
  type: 'totp'
  friendly_name: string
  totp: { qr_code: string; secret: string; uri: string }
}

const maxFactors = 10
const maxTextLength = 255

export function createEnroll({ databases, sealer }: FlowDeps) {
  const asOwner = asFactorOwner(databases)

  return async (caller: Caller, body: Enrolment): Promise<Enrolled> => {
    const { tenant } = caller
    const settings = settingsOf(tenant)
    checkFactorType(body.factor_type)
    if (!settings.mfa_enabled) throw enrolmentDisabled()
    const name = textFrom('friendly_name', body.friendly_name)
    const given = textFrom('issuer', body.issuer)
    if (given !== null && !fitsLink(given))
      throw new Refusal('validation_failed', 'issuer is too long for a QR code; give a shorter one')
    const issuer = given ?? new URL(settings.site_url).hostname
    const id = randomUUID()
    const secret = newTotpSecret()
    const account = await asOwner(caller, async (session, { user, session: current }) => {
      if (current.aal === 'aal1' && (await hasVerifiedFactor(session, user.id)))
        throw new Refusal(
          'insufficient_aal',
          'Another factor can be enrolled by a session at aal2 only; verify a code first',
        )
      await deleteExpiredFactors(session, user.id, enrolmentSeconds)
      if ((await countFactors(session, user.id)) >= maxFactors)
        throw new Refusal(
          'too_many_enrolled_mfa_factors',
          `A user may have ${maxFactors} factors; unenroll one to continue`,
        )
      const isNew = await insertTotpFactor(session, {
        id,
        userId: user.id,
        name,
        sealedSecret: sealer.seal(secret, secretContext(tenant, id)),
      })
      if (!isNew)
        throw new Refusal(
          'mfa_factor_name_conflict',
          `Another factor of the user is named "${name}"; choose another friendly_name`,
        )
      return user.email ?? user.id
    })
    const uri = totpUri(secret, issuer, account)
    return { id, type: 'totp', friendly_name: name ?? '', totp: { qr_code: qrCodeSvg(uri), secret, uri } }
  }
}

function checkFactorType(type: string | null | undefined): void {
  if (type === 'phone')
    throw new Refusal('mfa_phone_enroll_not_enabled', 'Second factors by phone are not offered; use totp')
  if (type === 'webauthn')
    throw new Refusal('mfa_webauthn_enroll_not_enabled', 'Security keys are not offered; use totp')
  if (type !== 'totp') throw new Refusal('validation_failed', 'factor_type must be totp')
}

/** Null for a missing or blank text. */
function textFrom(field: string, given: string | null | undefined): string | null {
  if (!given?.trim()) return null
  if (given.length > maxTextLength)
    throw new Refusal('validation_failed', `${field} must be at most ${maxTextLength} characters`)
  return given
}
