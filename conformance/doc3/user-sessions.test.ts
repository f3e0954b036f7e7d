// 3 §4 "Authentication settings and users": bans and sessions of a project's users.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject } from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { address, created, password, usersOf } from '../users.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const { users, signIn, signedIn, refresh, userOf } = usersOf(() => it)

test('3 §4 a ban has a reason and an end, takes effect immediately, and can be removed', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await created(users(project).create({ email, password }))
  const session = await signedIn(project, email)
  const expires_at = new Date(Date.now() + 3_600_000).toISOString()
  const banned = await users(project).ban(id, { reason: 'spam', expires_at })
  assert.equal(banned.status, 200, banned.text)
  const { is_banned, banned_until, ban_reason } = banned.body
  assert.deepEqual([is_banned, banned_until, ban_reason], [true, expires_at, 'spam'])
  assert.deepEqual((await users(project).read(id)).body, banned.body)
  assert.equal((await auditOf(it, 'user.banned', banned)).target, id)

  const refused = await userOf(project, session.access_token)
  assert.deepEqual([refused.status, refused.body.error_code], [403, 'user_banned'])
  assert.equal((await refresh(project, session.refresh_token)).body.error_code, 'user_banned')
  assert.equal((await signIn(project, email)).body.error_code, 'user_banned')

  const lifted = await users(project).unban(id)
  assert.equal(lifted.status, 200)
  assert.deepEqual(
    [lifted.body.is_banned, lifted.body.banned_until, lifted.body.ban_reason],
    [false, null, null],
  )
  await auditOf(it, 'user.unbanned', lifted)
  assert.equal((await userOf(project, session.access_token)).status, 200)
  assert.equal((await users(project).unban(id)).status, 200, 'twice changes nothing')
})

test('3 §4 a ban without an expiry is permanent; a duration sets the expiry; an expired ban has no effect', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await created(users(project).create({ email, password }))
  for (const body of [undefined, {}, { reason: null, expires_at: null }]) {
    const { body: user } = await users(project).ban(id, body)
    assert.deepEqual([user.is_banned, user.ban_reason], [true, null])
    assert.ok(Date.parse(user.banned_until) > Date.now() + 100 * 365 * 86_400_000)
  }
  const before = Date.now()
  const { body: day } = await users(project).ban(id, { duration: '1h30m' })
  const end = Date.parse(day.banned_until) - 5_400_000
  assert.ok(end >= before && end <= Date.now())

  await users(project).ban(id, { reason: 'short', duration: '1500ms' })
  await until('the ban expires', async () => !(await users(project).read(id)).body.is_banned)
  await signedIn(project, email)

  for (const body of [
    { expires_at: new Date(Date.now() - 1000).toISOString() },
    { expires_at: 'tomorrow' },
    { duration: 'none' },
    { duration: '5' },
    { duration: '1h', expires_at: new Date(Date.now() + 3_600_000).toISOString() },
    { reason: 5 },
    { reason: 'x'.repeat(2000) },
    { reason: 'a\0b' },
    { forever: true },
  ])
    assertManagementError(await users(project).ban(id, body), 'invalid_request')
  assert.equal((await users(project).read(id)).body.is_banned, false)
})

test('3 §4 sessions are listed and revoked one by one, or all at once', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await created(users(project).create({ email, password }))
  assert.deepEqual((await users(project).sessions(id)).body, { sessions: [], total: 0, limit: 50, offset: 0 })
  const [first, second, third] = [
    await signedIn(project, email),
    await signedIn(project, email),
    await signedIn(project, email),
  ]
  await refresh(project, first.refresh_token)
  const { body } = await users(project).sessions(id)
  assert.equal(body.total, 3)
  const [newest, , oldest] = body.sessions
  assert.deepEqual(Object.keys(newest).sort(), [
    ...['aal', 'created_at', 'id', 'ip', 'refreshed_at', 'user_agent'],
  ])
  assert.deepEqual([newest.aal, newest.refreshed_at], ['aal1', null])
  assert.notEqual(oldest.refreshed_at, null)
  assert.ok(newest.ip && newest.user_agent)
  assert.ok(newest.created_at >= oldest.created_at)
  const text = JSON.stringify(body)
  for (const { access_token, refresh_token } of [first, second, third])
    assert.ok(!text.includes(access_token) && !text.includes(refresh_token))
  assert.deepEqual((await users(project).sessions(id, '?limit=1&offset=1')).body.sessions, [body.sessions[1]])

  const revoked = await users(project).revoke(id, newest.id)
  assert.equal(revoked.status, 204)
  assert.equal((await auditOf(it, 'user.session_revoked', revoked)).target, newest.id)
  assert.equal((await userOf(project, third.access_token)).body.error_code, 'session_not_found')
  assert.equal((await refresh(project, third.refresh_token)).status, 400)
  assert.equal((await userOf(project, second.access_token)).status, 200, 'the others go on')

  const again = await users(project).revoke(id, newest.id)
  assert.deepEqual([again.status, again.body.error.code], [404, 'session_not_found'])
  assertManagementError(await users(project).revoke(id, 'not-an-id'), 'invalid_request')
  const other = await created(users(project).create({ email: address() }))
  assert.equal((await users(project).revoke(other.id, oldest.id)).status, 404, 'of another user')

  const all = await users(project).revokeAll(id)
  assert.equal(all.status, 204)
  await auditOf(it, 'user.sessions_revoked', all)
  for (const { access_token } of [first, second])
    assert.equal((await userOf(project, access_token)).status, 403)
  assert.equal((await users(project).sessions(id)).body.total, 0)
  assert.equal((await users(project).revokeAll(id)).status, 204, 'none is left to end')
  await signedIn(project, email)
})
