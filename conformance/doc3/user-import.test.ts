// 3 §4 "User import": importing users with their ids and password hashes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, listAll, unique, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { address, created, password, usersOf } from '../users.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const { users, signIn, signedIn } = usersOf(() => it)

/** bcrypt hashes of `password`. */
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

test('3 §4 import accepts every bcrypt variant up to a cost of 14', async () => {
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

test('3 §4 each invalid record is reported, and the others are imported', async () => {
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

test('3 §4 import skips an existing or repeated address; an existing id is an error', async () => {
  const project = await createProject(it)
  const email = address()
  const existing = await created(users(project).create({ email, password, user_metadata: { keep: true } }))
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

test('3 §4 a user imported without a password signs in by other methods only', async () => {
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

test('3 §4 missing id, times and metadata get defaults; an unconfirmed record stays unconfirmed', async () => {
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

test('3 §8 a call imports a thousand records; a thousand and one are rejected', async () => {
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

test('3 §4 a deleted user can be imported again with the same id and is admitted', async () => {
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
  await until('the old token is rejected', async () => (await whoami(old.access_token)).status === 401)
  assert.equal((await users(project).import([record])).body.imported, 1)
  const fresh = await signedIn(project, record.email)
  await until('the new token is accepted', async () => (await whoami(fresh.access_token)).status === 200)
  assert.equal((await whoami(old.access_token)).status, 401, 'the old session stays ended')
})
