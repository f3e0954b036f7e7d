// A project whose users enrol and verify TOTP factors.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { stepSeconds, totpCode } from '#src/services/auth/mfa/totp.ts'
import { type AuthProject, address, authProject } from './auth-project.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

export interface Member {
  email: string
  id: string
  token: string
  sessionId: string
}

export interface Factor {
  id: string
  secret: string
}

export const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())

export const memberOf = ({ access_token: token, user }: any): Member => ({
  email: user.email,
  id: user.id,
  token,
  sessionId: claimsOf(token).session_id,
})

const currentStep = () => Math.floor(Date.now() / 1000 / stepSeconds)
export const codeOf = ({ secret }: Factor, stepsAhead = 0) => totpCode(secret, currentStep() + stepsAhead)

/** Not valid in any time step near now. */
export function wrongCode({ secret }: Factor): string {
  const near = new Set(Array.from({ length: 11 }, (_, at) => totpCode(secret, currentStep() - 5 + at)))
  for (let guess = 0; ; guess++)
    if (!near.has(String(guess).padStart(6, '0'))) return String(guess).padStart(6, '0')
}

export function refused({ status, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body.code], [expected, code], JSON.stringify(body))
}

export function mfaProject() {
  const stage = {} as { platform: TestPlatform; project: AuthProject; ref: string }
  before(async () => {
    stage.platform = await startPlatform({ settings: { PLATFORM_TRUSTED_PROXIES: '127.0.0.0/8,::1/128' } })
    stage.project = await authProject(stage.platform)
    stage.ref = await stage.platform.refOf(stage.project.id)
  })
  after(() => stage.platform?.stop())

  const look = <T = any>(statement: ReturnType<typeof sql>) =>
    stage.platform.asSuperuser(stage.ref, session => session.rows<T>(statement))

  const signUp = async () => memberOf(await stage.project.signUp(address()))

  const as = ({ token }: Member, method: string, path: string, body?: unknown, options: CallOptions = {}) =>
    stage.project.auth(method, path, body, { token, ...options })

  async function enroll(member: Member, name?: string): Promise<Factor> {
    const { status, body } = await as(member, 'POST', '/factors', {
      factor_type: 'totp',
      friendly_name: name,
    })
    assert.equal(status, 200, JSON.stringify(body))
    return { id: body.id, secret: body.totp.secret }
  }

  async function challenge(member: Member, factor: Factor, options?: CallOptions): Promise<string> {
    const { status, body } = await as(member, 'POST', `/factors/${factor.id}/challenge`, {}, options)
    assert.equal(status, 200, JSON.stringify(body))
    return body.id
  }

  const answer = (member: Member, { id }: Factor, challengeId: string, code: string, options?: CallOptions) =>
    as(member, 'POST', `/factors/${id}/verify`, { challenge_id: challengeId, code }, options)

  async function verify(member: Member, factor: Factor): Promise<any> {
    const { status, body } = await answer(member, factor, await challenge(member, factor), codeOf(factor))
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }

  return {
    stage,
    /** Queries the project's database as superuser. */
    look,
    signUp,
    signIn: async ({ email }: Member) => memberOf((await stage.project.signIn(email)).body),
    /** Calls an auth path with the token of the member. */
    as,
    enroll,
    /** Creates a challenge and returns its id. */
    challenge,
    answer,
    /** Answers a new challenge with the current code and returns the session. */
    verify,
    /** Clears the last used step, for a test that needs another code within the same step. */
    forgetSteps: ({ id }: Factor) =>
      look(sql`update auth.mfa_factors set last_used_step = null where id = ${id}`),
    /** A user at aal2, and the factor. */
    async guarded(): Promise<Member & { factor: Factor }> {
      const member = await signUp()
      const factor = await enroll(member)
      return { ...memberOf(await verify(member, factor)), factor }
    },
  }
}
