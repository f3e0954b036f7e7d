// 3 §4 "Authentication settings and users" and "User import": a project's users as whoever runs it sees them.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  auditOf,
  type CreatedProject,
  createProject,
  listAll,
  mintToken,
  sleep,
  someId,
  unique,
  uuid,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const users = (project: CreatedProject) => {
  const at = (path: string) => `/projects/${project.id}/users${path}`
  return {
    list: (query = '') => it.manage('GET', at(query)),
    create: (body: unknown) => it.manage('POST', at(''), body),
    read: (id: string) => it.manage('GET', at(`/${id}`)),
    remove: (id: string) => it.manage('DELETE', at(`/${id}`)),
    ban: (id: string, body?: unknown) => it.manage('POST', at(`/${id}/ban`), body),
    unban: (id: string) => it.manage('POST', at(`/${id}/unban`)),
    sessions: (id: string, query = '') => it.manage('GET', at(`/${id}/sessions${query}`)),
    revokeAll: (id: string) => it.manage('DELETE', at(`/${id}/sessions`)),
    revoke: (id: string, session: string) => it.manage('DELETE', at(`/${id}/sessions/${session}`)),
    import: (records: unknown[]) => it.manage('POST', at('/import'), { users: records }),
  }
}

const password = 'an old password'
const address = () => `${unique('user')}@example.test`
const data = (
  { id, anon_key: apikey }: CreatedProject,
  method: string,
  path: string,
  body?: unknown,
  token?: string,
) => it.call(method, `/v1/auth/${id}${path}`, { apikey, body, token })
const signIn = (project: CreatedProject, email: string, given = password) =>
  data(project, 'POST', '/sign-in', { email, password: given })
const refresh = (project: CreatedProject, refresh_token: string) =>
  data(project, 'POST', '/token?grant_type=refresh_token', { refresh_token })
const userOf = (project: CreatedProject, token: string) => data(project, 'GET', '/user', undefined, token)

async function made(reply: Promise<Reply>): Promise<any> {
  const { status, body, text } = await reply
  assert.equal(status, 201, text)
  return body
}

async function signedIn(project: CreatedProject, email: string): Promise<any> {
  const { status, body, text } = await signIn(project, email)
  assert.equal(status, 200, text)
  return body
}

const fields = [
  ...['app_metadata', 'ban_reason', 'banned_until', 'created_at', 'email', 'email_confirmed_at', 'id'],
  ...['invited_at', 'is_anonymous', 'is_banned', 'last_sign_in_at', 'providers', 'role', 'updated_at'],
  'user_metadata',
]

test('3 §4 a user is created with 201, can be read, and signs in with the password', async () => {
  const project = await createProject(it)
  const email = `${unique('New.User')}@Example.TEST`
  const reply = await users(project).create({
    email,
    password,
    user_metadata: { name: 'Ann' },
    app_metadata: { plan: 'gold' },
  })
  const { body } = reply
  assert.equal(reply.status, 201, reply.text)
  assert.deepEqual(Object.keys(body).sort(), fields)
  assert.match(body.id, uuid)
  assert.equal(body.email, email.toLowerCase())
  assert.deepEqual(body.providers, ['email'])
  assert.equal(body.user_metadata.name, 'Ann')
  assert.deepEqual(body.app_metadata, { plan: 'gold', provider: 'email', providers: ['email'] })
  assert.deepEqual([body.is_banned, body.banned_until, body.ban_reason], [false, null, null])
  assert.ok(!reply.text.includes(password))
  assert.equal((await auditOf(it, 'user.created', reply)).project_id, project.id)
  assert.deepEqual((await users(project).read(body.id)).body, body)

  const session = await signedIn(project, email)
  assert.equal(session.user.id, body.id)
  assert.deepEqual((await users(project).read(body.id)).body.last_sign_in_at !== null, true)
})

test('3 §4 without a password nobody signs in with one; the address counts as verified as auto_confirm says', async () => {
  const project = await createProject(it)
  const [first, second, third] = [address(), address(), address()]
  const none = await made(users(project).create({ email: first }))
  assert.equal((await signIn(project, first, '')).status, 400)
  assert.equal((await signIn(project, first, 'anything')).status, 400)
  assert.notEqual(none.email_confirmed_at, null)

  const unverified = await made(users(project).create({ email: second, password, email_confirm: false }))
  assert.equal(unverified.email_confirmed_at, null)
  const refused = await signIn(project, second)
  assert.deepEqual([refused.status, refused.body.error_code], [400, 'email_not_confirmed'])

  await it.manage('PATCH', `/projects/${project.id}/auth`, { auto_confirm: false })
  assert.equal((await made(users(project).create({ email: third, password }))).email_confirmed_at, null)
  const verified = await made(users(project).create({ email: address(), password, email_confirm: true }))
  assert.notEqual(verified.email_confirmed_at, null)
})

test('3 §4 an address has one user; what cannot be a user is refused', async () => {
  const project = await createProject(it)
  const email = address()
  await made(users(project).create({ email, password }))
  assertManagementError(await users(project).create({ email: email.toUpperCase() }), 'already_exists')
  for (const body of [
    {},
    { email: 'nobody' },
    { email: 'a b@example.test' },
    { email: 5 },
    { email: `${'x'.repeat(300)}@example.test` },
    { email: address(), password: 'x'.repeat(100) },
    { email: address(), password: 5 },
    { email: address(), user_metadata: [] },
    { email: address(), app_metadata: 'x' },
    { email: address(), role: 'service_role' },
    { email: address(), id: someId },
  ])
    assertManagementError(await users(project).create(body), 'invalid_request')
  assertManagementError(await users(project).create({ email: address(), password: 'short' }), 'weak_password')
  for (const name of ['a\0b', 'x'.repeat(9000)])
    assertManagementError(
      await users(project).create({ email: address(), user_metadata: { name } }),
      'invalid_request',
    )
  assert.equal((await users(project).list()).body.total, 1)
})

test('3 §4 users are listed newest first, a page at a time, and found by part of their address', async () => {
  const project = await createProject(it)
  const names = ['ann', 'Bob', 'a_b%c', 'annabel']
  for (const name of names)
    await made(
      users(project).create({ email: `${name}@mail.example.test`, user_metadata: { full_name: 'Zed' } }),
    )
  await data(project, 'POST', '/signup', { data: {} })
  const all = await users(project).list()
  assert.deepEqual(Object.keys(all.body).sort(), ['limit', 'offset', 'total', 'users'])
  assert.deepEqual([all.body.total, all.body.limit, all.body.offset], [5, 50, 0])
  assert.deepEqual(
    all.body.users.map(({ email }: any) => email),
    [null, ...names.map(name => `${name.toLowerCase()}@mail.example.test`).reverse()],
  )
  assert.deepEqual([all.body.users[0].is_anonymous, all.body.users[0].providers], [true, []])

  const second = await users(project).list('?limit=2&offset=1')
  assert.deepEqual(second.body.users, all.body.users.slice(1, 3))
  assert.deepEqual([second.body.total, second.body.limit, second.body.offset], [5, 2, 1])
  assert.equal((await users(project).list('?limit=1000')).body.limit, 100)

  const found = async (search: string) => {
    const { body } = await users(project).list(`?search=${encodeURIComponent(search)}`)
    assert.equal(body.total, body.users.length)
    return body.users.map(({ email }: any) => email.split('@')[0]).sort()
  }
  assert.deepEqual(await found('ANN'), ['ann', 'annabel'])
  assert.deepEqual(await found('bob@'), ['bob'])
  assert.deepEqual(await found('_b%'), ['a_b%c'])
  assert.deepEqual(await found('%'), ['a_b%c'])
  assert.deepEqual(await found('zed'), [], 'only addresses are searched')
  assert.deepEqual(await found("' or true --"), [])
  assert.equal((await users(project).list('?search=')).body.total, 5)
  assert.equal((await users(project).list('?search=%00')).status, 400)
})

test('3 §4 a deleted user is gone, with every session; the address is free again', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await made(users(project).create({ email, password }))
  const session = await signedIn(project, email)
  const removed = await users(project).remove(id)
  assert.equal(removed.status, 204)
  assert.equal((await auditOf(it, 'user.deleted', removed)).target, id)
  assertManagementError(await users(project).read(id), 'user_not_found')
  assertManagementError(await users(project).remove(id), 'user_not_found')
  assert.equal((await users(project).list()).body.total, 0)
  assert.equal((await userOf(project, session.access_token)).status, 403)
  assert.equal((await refresh(project, session.refresh_token)).status, 400)
  assert.equal((await signIn(project, email)).status, 400)
  await made(users(project).create({ email, password }))
  await signedIn(project, email)
})

test('3 §4 a ban has a reason and an end, holds at once, and is lifted', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await made(users(project).create({ email, password }))
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

test('3 §4 a ban without an end is for good; one can be given a duration; one that has ended is none', async () => {
  const project = await createProject(it)
  const email = address()
  const { id } = await made(users(project).create({ email, password }))
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
  await until(async () => !(await users(project).read(id)).body.is_banned)
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
  const { id } = await made(users(project).create({ email, password }))
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
  const other = await made(users(project).create({ email: address() }))
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

test('3 §4 users and projects that are not there are 404, and no id reaches another project', async () => {
  const project = await createProject(it)
  const elsewhere = await createProject(it)
  const { id } = await made(users(elsewhere).create({ email: address() }))
  const own = users(project)
  for (const user of [someId, id])
    for (const reply of [
      await own.read(user),
      await own.remove(user),
      await own.ban(user, {}),
      await own.unban(user),
      await own.sessions(user),
      await own.revokeAll(user),
      await own.revoke(user, someId),
    ])
      assertManagementError(reply, 'user_not_found')
  assertManagementError(await own.read('..%2f..'), 'invalid_request')
  const nobody = users({ ...project, id: someId })
  for (const reply of [
    await nobody.list(),
    await nobody.create({ email: address() }),
    await nobody.read(id),
    await nobody.remove(id),
    await nobody.ban(id, {}),
    await nobody.sessions(id),
    await nobody.import([]),
  ])
    assertManagementError(reply, 'project_not_found')
  assert.equal((await users(elsewhere).read(id)).status, 200)
})

test('3 §5 reading users needs read scope, everything else admin', async () => {
  const project = await createProject(it)
  const { id } = await made(users(project).create({ email: address() }))
  const [reader, deployer] = [await mintToken(it, 'read'), await mintToken(it, 'deploy')]
  const as = (token: string, method: string, path: string, body?: unknown) =>
    it.call(method, `/api/v1/projects/${project.id}/users${path}`, { token, body })
  for (const path of ['', `/${id}`, `/${id}/sessions`])
    assert.equal((await as(reader.token, 'GET', path)).status, 200)
  for (const { token } of [reader, deployer])
    for (const [method, path, body] of [
      ['POST', '', { email: address() }],
      ['POST', '/import', { users: [] }],
      ['DELETE', `/${id}`],
      ['POST', `/${id}/ban`, {}],
      ['POST', `/${id}/unban`],
      ['DELETE', `/${id}/sessions`],
      ['DELETE', `/${id}/sessions/${someId}`],
    ] as const)
      assertNeedsScope(await as(token, method, path, body), 'admin')
  for (const key of [project.anon_key, project.service_role_key])
    assertManagementError(await as(key, 'GET', ''), 'unauthorized')
})

test('3 §3 the users of a suspended project are still administered', async () => {
  const project = await createProject(it)
  const { id } = await made(users(project).create({ email: address(), password }))
  await it.manage('POST', `/projects/${project.id}/suspend`)
  assert.equal((await users(project).list()).body.total, 1)
  assert.equal((await users(project).ban(id, { reason: 'x' })).body.is_banned, true)
  await made(users(project).create({ email: address() }))
  assert.equal((await users(project).import([{ email: address() }])).body.imported, 1)
  assert.equal((await users(project).remove(id)).status, 204)
})

// User import. The hashes are of the password above.
const hashes = {
  '2a': '$2a$04$rR2NKTKc.Tff9dW.XMMmJeRfffROrDj5tCWJVcFttWroVdH87xwbS',
  '2b': '$2b$10$z9DePReB23mYdLONiwhji.hcfZE4YvgBsEPBYeqja18K77AICoq3e',
  '2y': '$2y$04$rR2NKTKc.Tff9dW.XMMmJeRfffROrDj5tCWJVcFttWroVdH87xwbS',
}
const at14 = '$2b$14$jZpGRUms4V516sMMETICceg.B6uWrTosHych62ARh8cQukc7gbiH6'

test('3 §4 import keeps id, times, metadata and hash: users sign in with their old password', async () => {
  const project = await createProject(it)
  const record = {
    id: crypto.randomUUID(),
    email: `${unique('Old.User')}@Example.test`,
    password_hash: hashes['2b'],
    email_confirmed_at: '2021-03-04T05:06:07.123456+00:00',
    created_at: '2020-01-02T03:04:05Z',
    raw_user_meta_data: { name: 'Zoë', nested: { deep: [1, null, 'two'] }, email_verified: 'as it was' },
  }
  const reply = await users(project).import([record])
  assert.equal(reply.status, 200, reply.text)
  const email = record.email.toLowerCase()
  assert.deepEqual(reply.body, {
    imported: 1,
    skipped: 0,
    failed: 0,
    results: [{ email, id: record.id, status: 'created' }],
  })
  assert.equal((await auditOf(it, 'user.imported', reply)).project_id, project.id)
  const { body } = await users(project).read(record.id)
  assert.deepEqual([body.id, body.email, body.providers], [record.id, email, ['email']])
  assert.equal(body.created_at, '2020-01-02T03:04:05.000Z')
  assert.equal(body.email_confirmed_at, '2021-03-04T05:06:07.123Z')
  assert.deepEqual(body.user_metadata, record.raw_user_meta_data)
  assert.deepEqual(body.app_metadata, { provider: 'email', providers: ['email'] })

  const session = await signedIn(project, record.email)
  assert.equal(session.user.id, record.id)
  assert.deepEqual(session.user.user_metadata, record.raw_user_meta_data)
  assert.equal(session.user.identities[0].identity_data.email, email)
  assert.equal((await signIn(project, email, 'another password')).status, 400)
})

test('3 §4 bcrypt of every kind is taken up to a cost of 14', async () => {
  const project = await createProject(it)
  const email_confirmed_at = '2021-01-01T00:00:00Z'
  const records = [...Object.values(hashes), at14].map(password_hash => ({
    email: address(),
    password_hash,
    email_confirmed_at,
  }))
  assert.equal((await users(project).import(records)).body.imported, 4)
  for (const { email } of records) await signedIn(project, email)
})

test('3 §4 each bad record is an error of its own and the others are imported', async () => {
  const project = await createProject(it)
  const good = () => ({ id: crypto.randomUUID(), email: address(), password_hash: hashes['2b'] })
  const bad: [unknown, RegExp][] = [
    [{ ...good(), id: 'not-a-uuid' }, /^id /],
    [{ ...good(), id: 17 }, /^id /],
    [{ ...good(), id: '' }, /^id /],
    [{ ...good(), password_hash: at14.replace('$14$', '$15$') }, /cost above 14/],
    [{ ...good(), password_hash: at14.replace('$14$', '$31$') }, /cost above 14/],
    [{ ...good(), password_hash: 'plain text' }, /bcrypt/],
    [{ ...good(), password_hash: hashes['2b'].slice(0, -1) }, /bcrypt/],
    [{ ...good(), password_hash: '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g' }, /bcrypt/],
    [{ ...good(), password_hash: 5 }, /bcrypt/],
    [{ ...good(), password_hash: null, password: 'in the clear' }, /^password .*password_hash/],
    [{ ...good(), encrypted_password: hashes['2b'] }, /^encrypted_password .*password_hash/],
    [{ ...good(), email: 'nobody' }, /email/],
    [{ ...good(), email: undefined }, /email/],
    [{ ...good(), email: ['a@example.test'] }, /email/],
    [{ ...good(), created_at: 'yesterday' }, /created_at/],
    [{ ...good(), created_at: '2020-02-30T00:00:00Z' }, /out of range/],
    [{ ...good(), email_confirmed_at: 1_600_000_000 }, /email_confirmed_at/],
    [{ ...good(), raw_user_meta_data: 'text' }, /raw_user_meta_data/],
    [{ ...good(), raw_user_meta_data: { name: 'a\0b' } }, /raw_user_meta_data/],
    [{ ...good(), raw_user_meta_data: { about: 'x'.repeat(9000) } }, /raw_user_meta_data/],
    [null, /not an object/],
    ['text', /not an object/],
    [[], /not an object/],
  ]
  const records = bad.flatMap(([record]) => [good(), record])
  const { status, body, text } = await users(project).import(records)
  assert.equal(status, 200, text)
  assert.deepEqual([body.imported, body.skipped, body.failed], [bad.length, 0, bad.length])
  assert.equal(body.results.length, records.length)
  for (const [index, result] of body.results.entries()) {
    if (index % 2 === 0) {
      const { id, email } = records[index] as { id: string; email: string }
      assert.deepEqual(result, { email, id, status: 'created' })
    } else {
      assert.equal(result.status, 'error', JSON.stringify(records[index]))
      assert.match(result.reason, bad[(index - 1) / 2]![1])
    }
  }
  assert.equal((await users(project).list()).body.total, bad.length)
})

test('3 §4 an address that exists is skipped, also twice in one call; an id that exists is an error', async () => {
  const project = await createProject(it)
  const email = address()
  const existing = await made(users(project).create({ email, password, user_metadata: { keep: true } }))
  const [id, twice] = [crypto.randomUUID(), address()]
  const { body } = await users(project).import([
    { id: crypto.randomUUID(), email: email.toUpperCase(), password_hash: hashes['2b'] },
    { id, email: twice },
    { id: crypto.randomUUID(), email: twice.toUpperCase() },
    { id, email: address() },
    { id: existing.id, email: address() },
    { id: existing.id.toUpperCase(), email },
  ])
  assert.deepEqual(
    body.results.map(({ status }: any) => status),
    ['skipped', 'created', 'skipped', 'error', 'error', 'skipped'],
  )
  assert.deepEqual([body.imported, body.skipped, body.failed], [1, 3, 2])
  assert.match(body.results[0].reason, new RegExp(existing.id))
  for (const result of body.results) assert.equal('reason' in result, result.status !== 'created')
  assert.deepEqual((await users(project).read(existing.id)).body, existing, 'untouched')
  await signedIn(project, email)
  const again = await users(project).import([{ id, email: twice }])
  assert.deepEqual([again.body.imported, again.body.skipped], [0, 1])
})

test('3 §4 a user without a password is imported, and signs in by other ways only', async () => {
  const project = await createProject(it)
  const email_confirmed_at = '2021-01-01T00:00:00Z'
  const records = [{ password_hash: '' }, { password_hash: null }, {}].map(each => ({
    id: crypto.randomUUID(),
    email: address(),
    email_confirmed_at,
    ...each,
  }))
  assert.equal((await users(project).import(records)).body.imported, 3)
  for (const { email } of records)
    for (const given of ['', password]) assert.equal((await signIn(project, email, given)).status, 400)
})

test('3 §4 without id, times and metadata a record gets new ones; unconfirmed stays unconfirmed', async () => {
  const project = await createProject(it)
  const before = Date.now()
  const email = address()
  const { body } = await users(project).import([{ email, password_hash: hashes['2b'], aud: 'ignored' }])
  assert.match(body.results[0].id, uuid)
  const { body: user } = await users(project).read(body.results[0].id)
  assert.ok(Date.parse(user.created_at) >= before - 60_000)
  assert.deepEqual([user.email_confirmed_at, user.user_metadata], [null, {}])
  assert.equal((await signIn(project, email)).body.error_code, 'email_not_confirmed')
})

test('3 §8 a thousand records are imported in one call, a thousand and one are refused whole', async () => {
  const project = await createProject(it)
  const records = Array.from({ length: 1000 }, () => ({
    id: crypto.randomUUID(),
    email: address(),
    password_hash: hashes['2b'],
    raw_user_meta_data: { about: 'x'.repeat(1500) },
  }))
  assertManagementError(
    await users(project).import([...records, { email: address() }]),
    'invalid_request',
    /users/,
  )
  assert.equal((await users(project).list('?limit=1')).body.total, 0)
  const { status, body, text } = await users(project).import(records)
  assert.equal(status, 200, text.slice(0, 500))
  assert.deepEqual([body.imported, body.failed], [1000, 0])
  const listed = await listAll(it, `/projects/${project.id}/users?`, 'users')
  assert.deepEqual(listed.map(({ id }) => id).sort(), records.map(({ id }) => id).sort())
  assert.deepEqual((await users(project).import([])).body, {
    imported: 0,
    skipped: 0,
    failed: 0,
    results: [],
  })
  for (const bad of [{}, { users: {} }, { users: [], more: 1 }, []])
    assertManagementError(
      await it.manage('POST', `/projects/${project.id}/users/import`, bad),
      'invalid_request',
    )
})

test('3 §4 a user who was deleted can be imported again with the same id, and is admitted everywhere', async () => {
  const project = await createProject(it)
  const record = {
    id: crypto.randomUUID(),
    email: address(),
    password_hash: hashes['2b'],
    email_confirmed_at: '2021-01-01T00:00:00Z',
  }
  await users(project).import([record])
  const old = await signedIn(project, record.email)
  const whoami = (token: string) =>
    it.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, token })
  assert.equal((await whoami(old.access_token)).status, 200)
  await users(project).remove(record.id)
  await until(async () => (await whoami(old.access_token)).status === 401)
  assert.equal((await users(project).import([record])).body.imported, 1)
  const fresh = await signedIn(project, record.email)
  await until(async () => (await whoami(fresh.access_token)).status === 200)
  assert.equal((await whoami(old.access_token)).status, 401, 'the sessions of before stay ended')
})

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await isSo()); await sleep(50))
    assert.ok(Date.now() < deadline, 'it did not come to that')
}
