// 3 §2, §3 and §4 "Platform administration": platform users and the guard of the last super_admin.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createUser, login, someId, type User, unique, uuid } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await freshTarget()
})
after(() => it.stop())

const fields = ['created_at', 'email', 'id', 'is_active', 'last_login_at', 'name', 'role', 'updated_at']
const roles = ['super_admin', 'project_admin', 'developer', 'viewer']
const update = (id: string, body: unknown) => it.manage('PATCH', `/admin/users/${id}`, body)
const remove = (id: string) => it.manage('DELETE', `/admin/users/${id}`)

async function listUsers(): Promise<any[]> {
  const { body } = await it.manage('GET', '/admin/users?limit=100')
  return body.users
}
const activeSuperAdmins = async () =>
  (await listUsers()).filter(({ role, is_active }) => role === 'super_admin' && is_active)

/** Makes these the only active super_admins. */
async function onlySuperAdmins(count: number): Promise<User[]> {
  const kept = await Promise.all(Array.from({ length: count }, () => createUser(it)))
  const ids = kept.map(({ id }) => id)
  for (const { id } of await activeSuperAdmins())
    if (!ids.includes(id)) assert.equal((await remove(id)).status, 204)
  assert.equal((await activeSuperAdmins()).length, count)
  return kept
}

for (const role of roles)
  test(`3 §4 a ${role} is created with 201, shown without the password, and audited`, async () => {
    const email = `${unique('new')}@example.test`
    const password = unique('a very secret password')
    const reply = await it.manage('POST', '/admin/users', { email, password, role, name: 'New One' })
    assert.equal(reply.status, 201)
    assert.deepEqual(Object.keys(reply.body).sort(), fields)
    assert.match(reply.body.id, uuid)
    const { name, is_active, last_login_at } = reply.body
    assert.deepEqual(
      { email: reply.body.email, role: reply.body.role, name, is_active, last_login_at },
      { email, role, name: 'New One', is_active: true, last_login_at: null },
    )
    assert.ok(!reply.text.includes(password))
    const entry = await auditOf(it, 'platform.user_created', reply)
    assert.equal(entry.target, reply.body.id)
    assert.ok(!JSON.stringify(entry).includes(password))
  })

test('3 §4 platform users are listed with metadata only', async () => {
  const user = await createUser(it, 'viewer')
  const reply = await it.manage('GET', '/admin/users?limit=1000')
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), ['limit', 'offset', 'total', 'users'])
  assert.equal(reply.body.limit, 100)
  assert.equal(reply.body.total, reply.body.users.length)
  for (const each of reply.body.users) assert.deepEqual(Object.keys(each).sort(), fields)
  assert.ok(!reply.text.includes(user.password))
  assert.doesNotMatch(reply.text, /hash|scrypt|argon|bcrypt|\$2[aby]\$/i)
  const page = await it.manage('GET', '/admin/users?limit=1&offset=1')
  assert.deepEqual([page.body.users.length, page.body.limit, page.body.offset], [1, 1, 1])
})

test('3 §4 a user shows when they last logged in', async () => {
  const user = await createUser(it, 'viewer')
  assert.equal((await login(it, user)).status, 200)
  const shown = (await listUsers()).find(({ id }) => id === user.id)
  assert.ok(Math.abs(Date.parse(shown.last_login_at) - Date.now()) < 60_000)
})

test('3 §4 e-mail addresses of platform users are unique, case-insensitively', async () => {
  const { email } = await createUser(it, 'viewer')
  const password = 'another password'
  for (const same of [email, email.toUpperCase()]) {
    const reply = await it.manage('POST', '/admin/users', { email: same, password, role: 'viewer' })
    assertManagementError(reply, 'email_taken')
  }
  const other = await createUser(it, 'viewer')
  assertManagementError(await update(other.id, { email }), 'email_taken')
})

test('3 §4 of concurrent creations with one address one succeeds', async () => {
  const body = { email: `${unique('race')}@example.test`, password: 'a long password', role: 'viewer' }
  const replies = await Promise.all(Array.from({ length: 4 }, () => it.manage('POST', '/admin/users', body)))
  assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 409, 409, 409])
})

test('3 §4 a platform user needs an e-mail, a password of 12 characters and one of four roles', async () => {
  const good = { email: 'valid@example.test', password: 'long enough password', role: 'viewer' }
  for (const body of [
    {},
    { ...good, email: 'no address' },
    { ...good, email: '' },
    { ...good, email: 5 },
    { ...good, password: 'short' },
    { ...good, password: 123456789012 },
    { ...good, role: 'owner' },
    { ...good, role: 'root' },
    { ...good, role: null },
    { ...good, is_active: false },
    { ...good, id: someId },
    { ...good, name: 5 },
    { ...good, password_hash: 'x' },
    { email: good.email, role: good.role },
    { email: good.email, password: good.password },
  ])
    assertManagementError(await it.manage('POST', '/admin/users', body), 'invalid_request')
  assert.ok(!(await listUsers()).some(({ email }) => email === good.email))
})

test('3 §4 PATCH changes only the given fields', async () => {
  const user = await createUser(it, 'viewer', { name: 'Before' })
  const reply = await update(user.id, { name: 'After', role: 'developer' })
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), fields)
  const { name, role, email, is_active } = reply.body
  const expected = { name: 'After', role: 'developer', email: user.email, is_active: true }
  assert.deepEqual({ name, role, email, is_active }, expected)
  const entry = await auditOf(it, 'platform.user_updated', reply)
  assert.equal(entry.target, user.id)
  assert.equal((await login(it, user)).status, 200, 'the password is still the same')
})

test('3 §4 PATCH of a password is audited without it', async () => {
  const user = await createUser(it, 'viewer')
  const password = unique('a fresh secret')
  const reply = await update(user.id, { password })
  assert.equal(reply.status, 200)
  assert.ok(!reply.text.includes(password))
  const entry = await auditOf(it, 'platform.user_updated', reply)
  assert.ok(!JSON.stringify(entry).includes(password))
})

test('3 §4 PATCH refuses an empty body, unknown fields and wrong types', async () => {
  const user = await createUser(it, 'viewer')
  for (const body of [
    {},
    { id: someId },
    { is_active: 'false' },
    { is_active: 0 },
    { role: 'god' },
    { password: 'short' },
    { email: 'nope' },
    { created_at: new Date().toISOString() },
  ])
    assertManagementError(await update(user.id, body), 'invalid_request')
  const shown = (await listUsers()).find(({ id }) => id === user.id)
  assert.deepEqual([shown.role, shown.is_active, shown.email], ['viewer', true, user.email])
})

test('3 §4 deleting a platform user is 204, then 404, and the e-mail can be used again', async () => {
  const user = await createUser(it, 'viewer')
  const reply = await remove(user.id)
  assert.equal(reply.status, 204)
  assert.equal(reply.text, '')
  assert.equal((await auditOf(it, 'platform.user_deleted', reply)).target, user.id)
  assertManagementError(await remove(user.id), 'user_not_found')
  assertManagementError(await update(user.id, { name: 'x' }), 'user_not_found')
  assertManagementError(await login(it, user), 'invalid_login')
  assert.ok(!(await listUsers()).some(({ id }) => id === user.id))
  const again = { email: user.email, password: 'a new password', role: 'viewer' }
  assert.equal((await it.manage('POST', '/admin/users', again)).status, 201)
})

test('3 §7 an unknown platform user is 404', async () => {
  assertManagementError(await update(someId, { name: 'x' }), 'user_not_found')
  assertManagementError(await remove(someId), 'user_not_found')
})

test('3 §3 the last active super_admin can be neither deleted, demoted nor deactivated', async () => {
  const [last] = await onlySuperAdmins(1)
  assertManagementError(await remove(last!.id), 'last_super_admin')
  assertManagementError(await update(last!.id, { role: 'project_admin' }), 'last_super_admin')
  assertManagementError(await update(last!.id, { is_active: false }), 'last_super_admin')
  assertManagementError(await update(last!.id, { is_active: false, role: 'viewer' }), 'last_super_admin')
  assert.deepEqual(
    (await activeSuperAdmins()).map(({ id }) => id),
    [last!.id],
  )
  assert.equal((await update(last!.id, { name: 'Still here', role: 'super_admin' })).status, 200)
  assert.equal((await login(it, last!)).status, 200)
})

test('3 §3 an inactive super_admin does not count as one', async () => {
  const [last, asleep] = await onlySuperAdmins(2)
  assert.equal((await update(asleep!.id, { is_active: false })).status, 200)
  assertManagementError(await remove(last!.id), 'last_super_admin')
  assert.equal((await remove(asleep!.id)).status, 204, 'the inactive one can go')
  assertManagementError(await remove(last!.id), 'last_super_admin')
})

const ways: Record<string, (user: User, i: number) => Promise<{ status: number }>> = {
  deletions: user => remove(user.id),
  demotions: user => update(user.id, { role: 'viewer' }),
  deactivations: user => update(user.id, { is_active: false }),
  'a mixture of all three': (user, i) =>
    i === 0 ? remove(user.id) : update(user.id, i === 1 ? { role: 'viewer' } : { is_active: false }),
}
for (const [way, lose] of Object.entries(ways))
  test(`3 §3 of concurrent ${way} of all super_admins one is refused`, async () => {
    for (const count of [2, 3]) {
      const all = await onlySuperAdmins(count)
      const replies = await Promise.all(all.map(lose))
      const refused = replies.filter(({ status }) => status === 409)
      assert.equal(refused.length, 1, `${replies.map(({ status }) => status)}`)
      assert.ok(replies.every(({ status }) => [200, 204, 409].includes(status)))
      assert.equal((await activeSuperAdmins()).length, 1)
    }
  })
