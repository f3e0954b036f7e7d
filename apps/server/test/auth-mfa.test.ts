// Second factors from behind: what is stored, what happens at the same time, what time does to enrolments and
// challenges, and how often somebody may guess.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { stepSeconds, totpCode } from '#src/services/auth/mfa/totp.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { type AuthProject, authProject } from './signed-up.ts'

let platform: TestPlatform
let project: AuthProject
let ref: string
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_TRUSTED_PROXIES: '127.0.0.0/8,::1/128' } })
  project = await authProject(platform)
  ref = await platform.refOf(project.id)
})
after(() => platform.stop())

const look = <T = any>(statement: ReturnType<typeof sql>) =>
  platform.asSuperuser(ref, session => session.rows<T>(statement))
const someone = () => `${randomBytes(6).toString('hex')}@example.test`

interface Member {
  email: string
  id: string
  token: string
  sessionId: string
}

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())

const memberOf = ({ access_token: token, user }: any): Member => ({
  email: user.email,
  id: user.id,
  token,
  sessionId: claimsOf(token).session_id,
})
const signUp = async () => memberOf(await project.signUp(someone()))
const signIn = async ({ email }: Member) => memberOf((await project.signIn(email)).body)

const as = ({ token }: Member, method: string, path: string, body?: unknown, options: CallOptions = {}) =>
  project.auth(method, path, body, { token, ...options })
const from = (ip: string) => ({ headers: { 'x-forwarded-for': ip } })

interface Factor {
  id: string
  secret: string
}

async function enroll(member: Member, name?: string): Promise<Factor> {
  const { status, body } = await as(member, 'POST', '/factors', { factor_type: 'totp', friendly_name: name })
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

const currentStep = () => Math.floor(Date.now() / 1000 / stepSeconds)
const codeOf = ({ secret }: Factor, stepsAhead = 0) => totpCode(secret, currentStep() + stepsAhead)

/** Right at no time near now. */
function wrongCode({ secret }: Factor): string {
  const near = new Set(Array.from({ length: 11 }, (_, at) => totpCode(secret, currentStep() - 5 + at)))
  for (let guess = 0; ; guess++)
    if (!near.has(String(guess).padStart(6, '0'))) return String(guess).padStart(6, '0')
}

/** As if the last code had not been used, for a test that needs another within the half minute. */
const forgetSteps = ({ id }: Factor) =>
  look(sql`update auth.mfa_factors set last_used_step = null where id = ${id}`)

async function verify(member: Member, factor: Factor): Promise<any> {
  const { status, body } = await answer(member, factor, await challenge(member, factor), codeOf(factor))
  assert.equal(status, 200, JSON.stringify(body))
  return body
}

/** Somebody at aal2, and their factor. */
async function guarded(): Promise<Member & { factor: Factor }> {
  const member = await signUp()
  const factor = await enroll(member)
  return { ...memberOf(await verify(member, factor)), factor }
}

function refused({ status, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body.code], [expected, code], JSON.stringify(body))
}

const age = ({ id }: Factor, table: 'mfa_factors' | 'mfa_challenges', seconds: number) =>
  look(sql`
    update ${raw(`auth.${table}`)} set created_at = created_at - make_interval(secs => ${seconds})
     where ${raw(table === 'mfa_factors' ? 'id' : 'factor_id')} = ${id}`)

const eventsOf = async ({ id }: Member): Promise<string[]> =>
  (await look(sql`select type from auth.events where user_id = ${id} order by created_at`)).map(
    ({ type }) => type,
  )

test('the secret is stored sealed, and shown at enrolment only', async () => {
  const member = await signUp()
  const { id, secret } = await enroll(member)
  const [row] = await look(
    sql`select f.secret, to_jsonb(f)::text as whole from auth.mfa_factors f where id = ${id}`,
  )
  assert.match(row.secret, /^sealed:v1:/)
  assert.ok(!row.whole.includes(secret))
  const user = await as(member, 'GET', '/user')
  const listed = await project.asAdmin('GET', `/admin/users/${member.id}/factors`)
  for (const { status, body } of [user, listed]) {
    assert.equal(status, 200)
    assert.doesNotMatch(JSON.stringify(body), /secret|sealed/)
  }
  assert.ok(!platform.logged.some(line => line.includes(secret)))
})

test('of two answers with one code at the same time one is right', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const one = await challenge(member, factor)
  const code = codeOf(factor)
  const replies = await Promise.all(Array.from({ length: 6 }, () => answer(member, factor, one, code)))
  assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 422, 422, 422, 422, 422])
  const [row] = await look(
    sql`select refresh_token_counter::int as counter from auth.sessions where id = ${member.sessionId}`,
  )
  assert.equal(row.counter, 2)
})

test('nor does a code count for two challenges, or for two sessions', async () => {
  const first = await guarded()
  const { factor } = first
  const second = await signIn(first)
  await forgetSteps(factor)
  const asked: [Member, string][] = [
    [first, await challenge(first, factor)],
    [first, await challenge(first, factor)],
    [second, await challenge(second, factor)],
  ]
  const code = codeOf(factor)
  const replies = await Promise.all(asked.map(([member, id]) => answer(member, factor, id, code)))
  assert.equal(replies.filter(({ status }) => status === 200).length, 1, JSON.stringify(replies))
})

test('a code that is older than one that was used is as good as used', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const early = codeOf(factor)
  const { status } = await answer(member, factor, await challenge(member, factor), codeOf(factor, 1))
  assert.equal(status, 200)
  refused(
    await answer(member, factor, await challenge(member, factor), early),
    422,
    'mfa_verification_failed',
  )
})

test('the session goes on under its id at aal2, and those of the user that have not passed end', async () => {
  const member = await signUp()
  const stranger = await signIn(member)
  const other = await signUp()
  const factor = await enroll(member)
  const before = await look(sql`select amr from auth.sessions where id = ${member.sessionId}`)
  const session = await verify(member, factor)
  const { aal, amr, session_id } = claimsOf(session.access_token)
  assert.deepEqual([aal, session_id], ['aal2', member.sessionId])
  assert.deepEqual(
    amr.map(({ method }: { method: string }) => method),
    ['totp', 'password'],
  )
  assert.deepEqual(amr.slice(1), before[0].amr)
  assert.ok(Number.isInteger(amr[0].timestamp) && amr[0].timestamp >= amr[1].timestamp)
  assert.deepEqual(
    await look(sql`
      select id, aal, factor_id, refresh_token_counter::int as counter, array_length(rotated_at, 1) as rotations
        from auth.sessions where user_id = ${member.id}`),
    [{ id: member.sessionId, aal: 'aal2', factor_id: factor.id, counter: 2, rotations: 1 }],
  )
  refused(await as(stranger, 'GET', '/user'), 403, 'session_not_found')
  assert.equal((await as(other, 'GET', '/user')).status, 200)
})

test('passing again keeps one entry for it, and sessions that have passed stay', async () => {
  const first = await guarded()
  const { factor } = first
  const second = await signIn(first)
  await forgetSteps(factor)
  await verify(second, factor)
  await forgetSteps(factor)
  const again = await verify(second, factor)
  const methods = claimsOf(again.access_token).amr.map(({ method }: { method: string }) => method)
  assert.deepEqual(methods, ['totp', 'password'])
  assert.equal((await as(first, 'GET', '/user')).status, 200)
})

test('verifying and removing are told with the act, and nothing is told of what failed', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const told = await eventsOf(member)
  refused(
    await answer(member, factor, await challenge(member, factor), wrongCode(factor)),
    422,
    'mfa_verification_failed',
  )
  assert.deepEqual(await eventsOf(member), told)
  const raised = memberOf(await verify(member, factor))
  assert.deepEqual(await eventsOf(member), [...told, 'user.updated'])
  assert.equal((await as(raised, 'DELETE', `/factors/${factor.id}`)).status, 200)
  assert.deepEqual(await eventsOf(member), [...told, 'user.updated', 'user.updated'])
})

test('an enrolment that nobody finishes expires, and makes room for the next', async () => {
  const member = await signUp()
  const factor = await enroll(member, 'Phone')
  await age(factor, 'mfa_factors', 290)
  const asked = await challenge(member, factor)
  await age(factor, 'mfa_factors', 11)
  refused(await as(member, 'POST', `/factors/${factor.id}/challenge`, {}), 404, 'mfa_factor_not_found')
  refused(await answer(member, factor, asked, codeOf(factor)), 404, 'mfa_factor_not_found')
  const { id } = await enroll(member, 'Phone')
  assert.deepEqual(await look(sql`select id from auth.mfa_factors where user_id = ${member.id}`), [{ id }])
})

test('a verified factor does not expire', async () => {
  const member = await guarded()
  await age(member.factor, 'mfa_factors', 1_000_000)
  await enroll(member, 'Tablet')
  await challenge(member, member.factor)
})

test('a challenge expires after five minutes', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const asked = await challenge(member, factor)
  await age(factor, 'mfa_challenges', 301)
  refused(await answer(member, factor, asked, codeOf(factor)), 422, 'mfa_challenge_expired')
  await verify(member, factor)
})

test('a challenge is answered from where it was asked for', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const asked = await challenge(member, factor, from('203.0.113.1'))
  const code = codeOf(factor)
  refused(await answer(member, factor, asked, code, from('203.0.113.2')), 422, 'mfa_ip_address_mismatch')
  assert.equal((await answer(member, factor, asked, code, from('203.0.113.1'))).status, 200)
})

test('five wrong codes end a challenge, ten lock the factor for a while, from everywhere', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const guess = async (times: number) => {
    const asked = await challenge(member, factor)
    for (let time = 0; time < times; time++)
      refused(await answer(member, factor, asked, wrongCode(factor)), 422, 'mfa_verification_failed')
    return asked
  }
  const first = await guess(5)
  refused(await answer(member, factor, first, codeOf(factor)), 422, 'mfa_challenge_expired')
  const open = await challenge(member, factor, from('203.0.113.9'))
  await guess(5)
  const locked = [
    await answer(member, factor, open, codeOf(factor), from('203.0.113.9')),
    await as(member, 'POST', `/factors/${factor.id}/challenge`, {}, from('203.0.113.10')),
    await as(await signIn(member), 'POST', `/factors/${factor.id}/challenge`, {}),
  ]
  for (const reply of locked) {
    refused(reply, 429, 'over_request_rate_limit')
    const wait = Number(reply.headers.get('retry-after'))
    assert.ok(wait > 0 && wait <= 900, `${wait}`)
  }
  await age(factor, 'mfa_challenges', 900)
  await verify(member, factor)
})

test('guesses at the same time are counted one by one', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const asked = await challenge(member, factor)
  const wrong = wrongCode(factor)
  const replies = await Promise.all(Array.from({ length: 12 }, () => answer(member, factor, asked, wrong)))
  const codes = replies.map(({ body }) => body.code)
  assert.equal(codes.filter(code => code === 'mfa_verification_failed').length, 5, codes.join())
  assert.equal(codes.filter(code => code === 'mfa_challenge_expired').length, 7, codes.join())
})

test('a right code forgets the wrong ones before it, and the challenges that were open', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const left = await challenge(member, factor)
  for (let round = 0; round < 2; round++) {
    const asked = await challenge(member, factor)
    for (let time = 0; time < 4; time++) await answer(member, factor, asked, wrongCode(factor))
  }
  await verify(member, factor)
  await forgetSteps(factor)
  refused(await answer(member, factor, left, codeOf(factor)), 422, 'mfa_factor_not_found')
  const asked = await challenge(member, factor)
  for (let time = 0; time < 4; time++)
    refused(await answer(member, factor, asked, wrongCode(factor)), 422, 'mfa_verification_failed')
  assert.equal((await answer(member, factor, asked, codeOf(factor))).status, 200)
})

test('an address may ask and answer as often as the settings say', async () => {
  const limited = await authProject(platform, { rate_limits: { mfa: 2 } })
  const { access_token: token } = await limited.signUp(someone())
  const options = { token, ...from('198.51.100.7') }
  const { body } = await limited.auth('POST', '/factors', { factor_type: 'totp' }, options)
  const ask = () => limited.auth('POST', `/factors/${body.id}/challenge`, {}, options)
  const asked = await ask()
  assert.equal(asked.status, 200)
  const reply = await limited.auth(
    'POST',
    `/factors/${body.id}/verify`,
    { challenge_id: asked.body.id, code: '000000' },
    options,
  )
  assert.ok([200, 422].includes(reply.status))
  refused(await ask(), 429, 'over_request_rate_limit')
  const elsewhere = { token, ...from('198.51.100.8') }
  assert.equal((await limited.auth('POST', `/factors/${body.id}/challenge`, {}, elsewhere)).status, 200)
})

test('removing a factor takes the sessions that rested on it back to aal1, no others', async () => {
  const first = await guarded()
  const tablet = await enroll(first, 'Tablet')
  await verify(first, tablet)
  const second = await signIn(first)
  await forgetSteps(first.factor)
  await verify(second, first.factor)
  const levels = async () =>
    Object.fromEntries(
      (await look(sql`select id, aal, factor_id from auth.sessions where user_id = ${first.id}`)).map(
        ({ id, aal, factor_id }) => [id, [aal, factor_id]],
      ),
    )
  assert.deepEqual(await levels(), {
    [first.sessionId]: ['aal2', tablet.id],
    [second.sessionId]: ['aal2', first.factor.id],
  })
  assert.deepEqual((await as(first, 'DELETE', `/factors/${first.factor.id}`)).body, { id: first.factor.id })
  assert.deepEqual(await levels(), {
    [first.sessionId]: ['aal2', tablet.id],
    [second.sessionId]: ['aal1', null],
  })
  const [{ amr }] = await look(sql`select amr from auth.sessions where id = ${second.sessionId}`)
  assert.deepEqual(
    amr.map(({ method }: { method: string }) => method),
    ['password'],
  )
  assert.deepEqual(
    (await project.asAdmin('DELETE', `/admin/users/${first.id}/factors/${tablet.id}`)).status,
    200,
  )
  assert.deepEqual((await levels())[first.sessionId], ['aal1', null])
})

test('with second factors switched off, those that exist still work, and no other begins', async () => {
  const here = await authProject(platform)
  const { access_token: token } = await here.signUp(someone())
  const post = (path: string, body: object, by = token) => here.asUser(by, 'POST', path, body)
  const verified: Reply = await post('/factors', { factor_type: 'totp', friendly_name: 'a' })
  const factor = { id: verified.body.id, secret: verified.body.totp.secret }
  const asked = await post(`/factors/${factor.id}/challenge`, {})
  const raised = await post(`/factors/${factor.id}/verify`, {
    challenge_id: asked.body.id,
    code: codeOf(factor),
  })
  assert.equal(raised.status, 200)
  const begun = await post('/factors', { factor_type: 'totp', friendly_name: 'b' })
  assert.equal(begun.status, 200)
  await platform.projects.update({
    params: { id: here.id },
    body: { settings: { auth: { mfa_enabled: false, rate_limits: { mfa: 0 } } } },
  })
  refused(await post('/factors', { factor_type: 'totp' }), 422, 'mfa_totp_enroll_not_enabled')
  refused(await post(`/factors/${begun.body.id}/challenge`, {}), 422, 'mfa_totp_enroll_not_enabled')
  assert.equal((await post(`/factors/${factor.id}/challenge`, {})).status, 200)
})

test('a factor without a secret, which the project’s own SQL may have left, has no right code', async () => {
  const member = await signUp()
  for (const secret of [null, '']) {
    const [row] = await look(sql`
      insert into auth.mfa_factors (user_id, factor_type, secret) values (${member.id}, 'totp', ${secret})
      returning id`)
    const factor = { id: row.id, secret: '' }
    const reply = await answer(member, factor, await challenge(member, factor), codeOf(factor))
    refused(reply, 422, 'mfa_verification_failed')
  }
})

test('a user who goes takes factors and challenges along', async () => {
  const member = await guarded()
  await challenge(member, member.factor)
  assert.equal((await project.asAdmin('DELETE', `/admin/users/${member.id}`, {})).status, 200)
  assert.deepEqual(await look(sql`select id from auth.mfa_factors where user_id = ${member.id}`), [])
  assert.deepEqual(
    await look(sql`select id from auth.mfa_challenges where factor_id = ${member.factor.id}`),
    [],
  )
})
