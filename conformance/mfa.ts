// Second factors of a project's users: enrolment, challenges and the codes of an authenticator app.
import { createHmac } from 'node:crypto'
import { type AuthApi, type SignedIn, succeeded } from './auth.ts'
import { nowSeconds } from './people.ts'
import type { Reply } from './wire.ts'

export type TokenOwner = Pick<SignedIn, 'token'>
export interface Factor {
  id: string
  secret: string
}

export interface MfaApi {
  requestEnrolment(user: TokenOwner, fields?: Record<string, unknown>): Promise<Reply>
  enroll(user: TokenOwner, name?: string): Promise<Factor>
  requestChallenge(user: TokenOwner, factorId: string): Promise<Reply>
  /** The id of a new challenge. */
  challenge(user: TokenOwner, factor: Pick<Factor, 'id'>): Promise<string>
  verify(user: TokenOwner, factorId: string, challengeId: string, code: string): Promise<Reply>
  /** The session after verifying a code, and its token. */
  stepUp(user: TokenOwner, factor: Factor, stepsAhead?: number): Promise<TokenOwner & { session: any }>
  unenroll(user: TokenOwner, factorId: string): Promise<Reply>
  factorsOf(user: TokenOwner): Promise<any[]>
  /** A user at aal2. The code of the current time step is used, the next one is not. */
  signUpAtAal2(): Promise<SignedIn & { factor: Factor }>
}

/** Takes a function because test files create their project after these functions. */
export function mfaOf(auth: () => AuthApi): MfaApi {
  const requestEnrolment: MfaApi['requestEnrolment'] = ({ token }, fields = {}) =>
    auth().post('/factors', { factor_type: 'totp', ...fields }, { token })
  const requestChallenge: MfaApi['requestChallenge'] = ({ token }, factorId) =>
    auth().post(`/factors/${factorId}/challenge`, { factorId }, { token })
  const challenge: MfaApi['challenge'] = async (user, { id }) =>
    succeeded(await requestChallenge(user, id)).id
  const verify: MfaApi['verify'] = ({ token }, factorId, challengeId, code) =>
    auth().post(`/factors/${factorId}/verify`, { challenge_id: challengeId, code }, { token })

  const enroll: MfaApi['enroll'] = async (user, name) => {
    const { id, totp } = succeeded(await requestEnrolment(user, { friendly_name: name }))
    return { id, secret: totp.secret }
  }
  const stepUp: MfaApi['stepUp'] = async (user, factor, stepsAhead = 0) => {
    const session = succeeded(
      await verify(user, factor.id, await challenge(user, factor), codeOf(factor, stepsAhead)),
    )
    return { token: session.access_token, session }
  }

  return {
    requestEnrolment,
    enroll,
    requestChallenge,
    challenge,
    verify,
    stepUp,
    unenroll: ({ token }, factorId) => auth().delete(`/factors/${factorId}`, { token }),
    factorsOf: async ({ token }) => succeeded(await auth().get('/user', { token })).factors ?? [],
    async signUpAtAal2() {
      const user = await auth().signUp()
      const factor = await enroll(user)
      const { session } = await stepUp(user, factor)
      return { ...user, session, token: session.access_token, refreshToken: session.refresh_token, factor }
    },
  }
}

/** RFC 6238: SHA-1, six digits, steps of 30 seconds. */
export function codeOf({ secret }: Factor, stepsAhead = 0): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(nowSeconds() / 30) + stepsAhead))
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const value = digest.readUInt32BE((digest.at(-1) ?? 0) & 15) & 0x7fffffff
  return String(value % 1_000_000).padStart(6, '0')
}

function fromBase32(text: string): Buffer {
  const bits = Array.from(text, letter =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'),
  ).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)))
}

/** Not valid in any time step near now. */
export function wrongCode(factor: Factor): string {
  const near = new Set(Array.from({ length: 11 }, (_, at) => codeOf(factor, at - 5)))
  let guess = 0
  while (near.has(String(guess).padStart(6, '0'))) guess++
  return String(guess).padStart(6, '0')
}
