// Limits of second factors: expiry of enrolments and challenges, wrong codes, and the rate limit.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { authProject, address as someone } from './auth-project.ts'
import type { TestPlatform } from './harness.ts'
import { codeOf, type Factor, mfaProject, refused, wrongCode } from './mfa-project.ts'

const { stage, look, signUp, signIn, as, enroll, challenge, answer, verify, forgetSteps, guarded } =
  mfaProject()
let platform: TestPlatform
before(() => {
  ;({ platform } = stage)
})

const from = (ip: string) => ({ headers: { 'x-forwarded-for': ip } })

const age = ({ id }: Factor, table: 'mfa_factors' | 'mfa_challenges', seconds: number) =>
  look(sql`
    update ${raw(`auth.${table}`)} set created_at = created_at - make_interval(secs => ${seconds})
     where ${raw(table === 'mfa_factors' ? 'id' : 'factor_id')} = ${id}`)

test('MFA: an unverified enrolment expires and no longer counts against the maximum', async () => {
  const member = await signUp()
  const factor = await enroll(member, 'Phone')
  await age(factor, 'mfa_factors', 290)
  const challengeId = await challenge(member, factor)
  await age(factor, 'mfa_factors', 11)
  refused(await as(member, 'POST', `/factors/${factor.id}/challenge`, {}), 404, 'mfa_factor_not_found')
  refused(await answer(member, factor, challengeId, codeOf(factor)), 404, 'mfa_factor_not_found')
  const { id } = await enroll(member, 'Phone')
  assert.deepEqual(await look(sql`select id from auth.mfa_factors where user_id = ${member.id}`), [{ id }])
})

test('MFA: a verified factor does not expire', async () => {
  const member = await guarded()
  await age(member.factor, 'mfa_factors', 1_000_000)
  await enroll(member, 'Tablet')
  await challenge(member, member.factor)
})

test('MFA: a challenge expires after five minutes', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const challengeId = await challenge(member, factor)
  await age(factor, 'mfa_challenges', 301)
  refused(await answer(member, factor, challengeId, codeOf(factor)), 422, 'mfa_challenge_expired')
  await verify(member, factor)
})

test('MFA: a challenge must be verified from the IP address that created it', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const challengeId = await challenge(member, factor, from('203.0.113.1'))
  const code = codeOf(factor)
  refused(
    await answer(member, factor, challengeId, code, from('203.0.113.2')),
    422,
    'mfa_ip_address_mismatch',
  )
  assert.equal((await answer(member, factor, challengeId, code, from('203.0.113.1'))).status, 200)
})

test('MFA: five wrong codes end a challenge, ten lock the factor for all clients', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const guess = async (times: number) => {
    const challengeId = await challenge(member, factor)
    for (let time = 0; time < times; time++)
      refused(await answer(member, factor, challengeId, wrongCode(factor)), 422, 'mfa_verification_failed')
    return challengeId
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

test('MFA: concurrent wrong codes are all counted', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const challengeId = await challenge(member, factor)
  const wrong = wrongCode(factor)
  const replies = await Promise.all(
    Array.from({ length: 12 }, () => answer(member, factor, challengeId, wrong)),
  )
  const codes = replies.map(({ body }) => body.code)
  assert.equal(codes.filter(code => code === 'mfa_verification_failed').length, 5, codes.join())
  assert.equal(codes.filter(code => code === 'mfa_challenge_expired').length, 7, codes.join())
})

test('MFA: a valid code resets the count of wrong codes and deletes open challenges', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const left = await challenge(member, factor)
  for (let round = 0; round < 2; round++) {
    const challengeId = await challenge(member, factor)
    for (let time = 0; time < 4; time++) await answer(member, factor, challengeId, wrongCode(factor))
  }
  await verify(member, factor)
  await forgetSteps(factor)
  refused(await answer(member, factor, left, codeOf(factor)), 422, 'mfa_factor_not_found')
  const challengeId = await challenge(member, factor)
  for (let time = 0; time < 4; time++)
    refused(await answer(member, factor, challengeId, wrongCode(factor)), 422, 'mfa_verification_failed')
  assert.equal((await answer(member, factor, challengeId, codeOf(factor))).status, 200)
})

test('MFA: the mfa rate limit applies to challenges and verifications per client address', async () => {
  const limited = await authProject(platform, { rate_limits: { mfa: 2 } })
  const { access_token: token } = await limited.signUp(someone())
  const options = { token, ...from('198.51.100.7') }
  const { body } = await limited.auth('POST', '/factors', { factor_type: 'totp' }, options)
  const ask = () => limited.auth('POST', `/factors/${body.id}/challenge`, {}, options)
  const challenged = await ask()
  assert.equal(challenged.status, 200)
  const reply = await limited.auth(
    'POST',
    `/factors/${body.id}/verify`,
    { challenge_id: challenged.body.id, code: '000000' },
    options,
  )
  assert.ok([200, 422].includes(reply.status))
  refused(await ask(), 429, 'over_request_rate_limit')
  const elsewhere = { token, ...from('198.51.100.8') }
  assert.equal((await limited.auth('POST', `/factors/${body.id}/challenge`, {}, elsewhere)).status, 200)
})
