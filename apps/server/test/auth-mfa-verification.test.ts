// Second factors below the API: stored secrets, use of codes, assurance levels of sessions, and removal.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type AuthProject, authProject, address as someone } from './auth-project.ts'
import type { Reply, TestPlatform } from './harness.ts'
import { claimsOf, codeOf, type Member, memberOf, mfaProject, refused, wrongCode } from './mfa-project.ts'

const { stage, look, signUp, signIn, as, enroll, challenge, answer, verify, forgetSteps, guarded } =
  mfaProject()
let platform: TestPlatform
let project: AuthProject
before(() => {
  ;({ platform, project } = stage)
})

const eventsOf = async ({ id }: Member): Promise<string[]> =>
  (await look(sql`select type from auth.events where user_id = ${id} order by created_at`)).map(
    ({ type }) => type,
  )

test('MFA: the secret is stored sealed and shown only at enrolment', async () => {
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

test('MFA: of two concurrent requests with the same code one succeeds', async () => {
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

test('MFA: a code works for one challenge and one session only', async () => {
  const first = await guarded()
  const { factor } = first
  const second = await signIn(first)
  await forgetSteps(factor)
  const challenges: [Member, string][] = [
    [first, await challenge(first, factor)],
    [first, await challenge(first, factor)],
    [second, await challenge(second, factor)],
  ]
  const code = codeOf(factor)
  const replies = await Promise.all(challenges.map(([member, id]) => answer(member, factor, id, code)))
  assert.equal(replies.filter(({ status }) => status === 200).length, 1, JSON.stringify(replies))
})

test('MFA: a code older than the last used one is rejected', async () => {
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

test('MFA: verifying keeps the session id at aal2 and ends the user’s sessions at aal1', async () => {
  const member = await signUp()
  const otherSession = await signIn(member)
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
  refused(await as(otherSession, 'GET', '/user'), 403, 'session_not_found')
  assert.equal((await as(other, 'GET', '/user')).status, 200)
})

test('MFA: verifying again keeps one totp entry in amr and does not end sessions at aal2', async () => {
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

test('MFA: verifying and removing emit an event in the same transaction, failures emit none', async () => {
  const member = await signUp()
  const factor = await enroll(member)
  const before = await eventsOf(member)
  refused(
    await answer(member, factor, await challenge(member, factor), wrongCode(factor)),
    422,
    'mfa_verification_failed',
  )
  assert.deepEqual(await eventsOf(member), before)
  const raised = memberOf(await verify(member, factor))
  assert.deepEqual(await eventsOf(member), [...before, 'user.updated'])
  assert.equal((await as(raised, 'DELETE', `/factors/${factor.id}`)).status, 200)
  assert.deepEqual(await eventsOf(member), [...before, 'user.updated', 'user.updated'])
})

test('MFA: removing a factor downgrades only the sessions that used it', async () => {
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

test('MFA: with mfa_enabled false, existing factors work and enrolment is refused', async () => {
  const here = await authProject(platform)
  const { access_token: token } = await here.signUp(someone())
  const post = (path: string, body: object, by = token) => here.asUser(by, 'POST', path, body)
  const verified: Reply = await post('/factors', { factor_type: 'totp', friendly_name: 'a' })
  const factor = { id: verified.body.id, secret: verified.body.totp.secret }
  const challenged = await post(`/factors/${factor.id}/challenge`, {})
  const raised = await post(`/factors/${factor.id}/verify`, {
    challenge_id: challenged.body.id,
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

test('MFA: a factor without a secret, written by SQL of the project, accepts no code', async () => {
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

test('MFA: deleting a user deletes factors and challenges', async () => {
  const member = await guarded()
  await challenge(member, member.factor)
  assert.equal((await project.asAdmin('DELETE', `/admin/users/${member.id}`, {})).status, 200)
  assert.deepEqual(await look(sql`select id from auth.mfa_factors where user_id = ${member.id}`), [])
  assert.deepEqual(
    await look(sql`select id from auth.mfa_challenges where factor_id = ${member.factor.id}`),
    [],
  )
})
