// 3 §2, §3 and §4 "Team": invites, members, roles and the guard of the last owner.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  auditOf,
  createProject,
  createUser,
  listAll,
  mintToken,
  sessionOf,
  someId,
  type User,
  unique,
  uuid,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

interface Person extends User {
  session: string
}

let it: Target
/** Few users, because logins are rate limited; each test has its own project. */
let ann: Person
let bob: Person
before(async () => {
  it = await target()
  ann = await person('project_admin')
  bob = await person('project_admin')
})
after(() => it.stop())

async function person(role: string): Promise<Person> {
  const user = await createUser(it, role)
  return { ...user, session: await sessionOf(it, user) }
}

const as = (token: string) => (method: string, path: string, body?: unknown) =>
  it.call(method, `/api/v1${path}`, { token, body })
const invite = (id: string, body: unknown) => it.manage('POST', `/projects/${id}/invites`, body)
const accept = (token: string, body: unknown) => as(token)('POST', '/invites/accept', body)
const setRole = (id: string, user: string, role: string) =>
  it.manage('PATCH', `/projects/${id}/members/${user}`, { role })
const remove = (id: string, user: string) => it.manage('DELETE', `/projects/${id}/members/${user}`)
const newProject = async () => (await createProject(it)).id

/** Invites the user and accepts on the user's behalf. */
async function join(id: string, who: Person, role: string): Promise<Reply> {
  const made = await invite(id, { email: who.email, role })
  assert.equal(made.status, 201, made.text)
  const reply = await accept(who.session, { token: made.body.invite_token })
  assert.equal(reply.status, 200, reply.text)
  return reply
}

async function rolesOf(id: string): Promise<Record<string, string>> {
  const members = await listAll(it, `/projects/${id}/members?`, 'members')
  return Object.fromEntries(members.map(({ user_id, role }) => [user_id, role]))
}

const inviteFields = ['created_at', 'email', 'expires_at', 'id', 'invited_by', 'role']
const memberFields = ['created_at', 'email', 'is_active', 'name', 'role', 'user_id']

test('3 §4 an invite is created with 201, its token is shown once with its expiry, and it is audited', async () => {
  const id = await newProject()
  const email = `${unique('New.One')}@Example.TEST`
  const reply = await invite(id, { email, role: 'admin' })
  assert.equal(reply.status, 201, reply.text)
  assert.deepEqual(Object.keys(reply.body).sort(), [...inviteFields, 'expires_in', 'invite_token'].sort())
  assert.match(reply.body.id, uuid)
  assert.deepEqual([reply.body.email, reply.body.role], [email.toLowerCase(), 'admin'])
  const sevenDays = 7 * 24 * 3600
  assert.equal(reply.body.expires_in, sevenDays)
  assert.equal(Date.parse(reply.body.expires_at) - Date.parse(reply.body.created_at), sevenDays * 1000)
  assert.ok(reply.body.invite_token.length >= 32)
  const entry = await auditOf(it, 'team.invite_created', reply)
  assert.equal(entry.project_id, id)
  assert.ok(!JSON.stringify(entry).includes(reply.body.invite_token))

  const list = await it.manage('GET', `/projects/${id}/invites`)
  assert.equal(list.status, 200)
  assert.deepEqual(Object.keys(list.body).sort(), ['invites', 'limit', 'offset', 'total'])
  const { expires_in, invite_token, ...shown } = reply.body
  assert.deepEqual(list.body, { invites: [shown], total: 1, limit: 50, offset: 0 })
  assert.ok(!list.text.includes(reply.body.invite_token))
})

test('3 §2 an invite without a role is for an editor', async () => {
  const { body } = await invite(await newProject(), { email: 'someone@example.test' })
  assert.equal(body.role, 'editor')
})

test('3 §4 an invite needs an address and one of four roles', async () => {
  const id = await newProject()
  const email = 'valid@example.test'
  for (const body of [
    {},
    { email: '' },
    { email: 'no address' },
    { email: 'a@b@c' },
    { email: 'x@example.test\r\nbcc: y@example.test' },
    { email: `${'x'.repeat(400)}@example.test` },
    { email: 5 },
    { email: null },
    { email, role: 'super_admin' },
    { email, role: 'Owner' },
    { email, role: null },
    { email, token: 'mine' },
    { email, expires_at: '2099-01-01T00:00:00Z' },
    [],
  ])
    assertManagementError(await invite(id, body), 'invalid_request')
  assert.equal((await it.manage('GET', `/projects/${id}/invites`)).body.total, 0)
})

test('3 §4 pending invites are listed newest first, a page at a time', async () => {
  const id = await newProject()
  const emails = [1, 2, 3].map(n => `page${n}@example.test`)
  for (const email of emails) await invite(id, { email })
  const page = await it.manage('GET', `/projects/${id}/invites?limit=2&offset=1`)
  const { invites, ...rest } = page.body
  assert.deepEqual(
    invites.map((each: { email: string }) => each.email),
    ['page2@example.test', 'page1@example.test'],
  )
  assert.deepEqual(rest, { total: 3, limit: 2, offset: 1 })
  assert.equal((await it.manage('GET', `/projects/${id}/invites?limit=1000`)).body.limit, 100)
})

test('3 §4 revoking an invite is 204, then 404, and its token no longer works', async () => {
  const id = await newProject()
  const { body } = await invite(id, { email: ann.email })
  const elsewhere = await newProject()
  assertManagementError(
    await it.manage('DELETE', `/projects/${elsewhere}/invites/${body.id}`),
    'invite_not_found',
  )
  const reply = await it.manage('DELETE', `/projects/${id}/invites/${body.id}`)
  assert.deepEqual([reply.status, reply.text], [204, ''])
  assert.equal((await auditOf(it, 'team.invite_revoked', reply)).target, body.id)
  assertManagementError(await it.manage('DELETE', `/projects/${id}/invites/${body.id}`), 'invite_not_found')
  assertManagementError(
    await accept(ann.session, { token: body.invite_token }),
    'invite_not_found',
    /revoked/,
  )
  assert.equal((await it.manage('GET', `/projects/${id}/invites`)).body.total, 0)
  assert.deepEqual(await rolesOf(id), {})
})

test('3 §4 inviting an address again invalidates the older token', async () => {
  const id = await newProject()
  const older = (await invite(id, { email: ann.email, role: 'admin' })).body
  const newer = (await invite(id, { email: ann.email.toUpperCase(), role: 'read_only' })).body
  assert.notEqual(newer.id, older.id)
  assert.equal((await it.manage('GET', `/projects/${id}/invites`)).body.total, 1)
  assertManagementError(await accept(ann.session, { token: older.invite_token }), 'invite_not_found')
  const reply = await accept(ann.session, { token: newer.invite_token })
  assert.deepEqual([reply.status, reply.body.role], [200, 'read_only'])
})

test('3 §4 accepting adds the user of the session, once', async () => {
  const id = await newProject()
  const { body: made } = await invite(id, { email: ann.email, role: 'admin' })
  assertNeedsScope(await as(ann.session)('GET', `/projects/${id}`), 'read')
  const reply = await accept(ann.session, { token: made.invite_token })
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(Object.keys(reply.body).sort(), [...memberFields, 'project_id'].sort())
  const { project_id, user_id, email, role } = reply.body
  assert.deepEqual([project_id, user_id, email, role], [id, ann.id, ann.email, 'admin'])
  const entry = await auditOf(it, 'team.invite_accepted', reply)
  assert.deepEqual([entry.actor.id, entry.project_id], [ann.id, id])
  assert.equal((await as(ann.session)('GET', `/projects/${id}`)).status, 200)
  assertManagementError(await accept(ann.session, { token: made.invite_token }), 'invite_not_found')
  assert.equal((await it.manage('GET', `/projects/${id}/invites`)).body.total, 0)
  assertManagementError(await invite(id, { email: ann.email }), 'already_member')
})

test('3 §4 user_id is optional and must match the session', async () => {
  const id = await newProject()
  const { invite_token: token } = (await invite(id, { email: ann.email })).body
  for (const user_id of [bob.id, someId])
    assertManagementError(await accept(ann.session, { token, user_id }), 'invite_mismatch', /user_id/)
  for (const user_id of ['', 'me', null, 5])
    assertManagementError(await accept(ann.session, { token, user_id }), 'invalid_request')
  assert.deepEqual(await rolesOf(id), {})
  const reply = await accept(ann.session, { token, user_id: ann.id.toUpperCase() })
  assert.deepEqual([reply.status, reply.body.user_id], [200, ann.id])
})

test('3 §4 a user with another address cannot accept, and the invite stays valid', async () => {
  const id = await newProject()
  const { invite_token: token } = (await invite(id, { email: ann.email })).body
  const reply = await accept(bob.session, { token })
  assertManagementError(reply, 'invite_mismatch', /another e-mail address/)
  assert.ok(!reply.text.includes(ann.email), 'the answer does not contain the invited address')
  assert.deepEqual(await rolesOf(id), {})
  assert.equal((await accept(ann.session, { token })).status, 200)
})

test('3 §4 accepting needs a user session, not the admin token or a platform token', async () => {
  const id = await newProject()
  const { invite_token: token } = (await invite(id, { email: ann.email })).body
  for (const credential of [it.adminToken, (await mintToken(it, 'admin')).token])
    assertManagementError(await accept(credential, { token }), 'session_required', /log in/)
  assertManagementError(await it.call('POST', '/api/v1/invites/accept', { body: { token } }), 'unauthorized')
  assert.equal((await accept(ann.session, { token })).status, 200)
})

test('3 §4 an unknown token is 404, an invalid body 400', async () => {
  const id = await newProject()
  const { id: inviteId } = (await invite(id, { email: ann.email })).body
  for (const token of ['x', inviteId, `platform_invite_${'x'.repeat(43)}`, ' '])
    assertManagementError(await accept(ann.session, { token }), 'invite_not_found')
  for (const body of [
    {},
    { token: '' },
    { token: 5 },
    { token: 'x'.repeat(5000) },
    { token: 'x', role: 'owner' },
  ])
    assertManagementError(await accept(ann.session, body), 'invalid_request')
})

test('3 §4 members are listed owners first', async () => {
  const id = await newProject()
  await join(id, ann, 'read_only')
  await join(id, bob, 'owner')
  const reply = await it.manage('GET', `/projects/${id}/members`)
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), ['limit', 'members', 'offset', 'total'])
  for (const each of reply.body.members) assert.deepEqual(Object.keys(each).sort(), memberFields)
  assert.deepEqual(
    reply.body.members.map((each: Record<string, unknown>) => [each['email'], each['role']]),
    [
      [bob.email, 'owner'],
      [ann.email, 'read_only'],
    ],
  )
  const page = await it.manage('GET', `/projects/${id}/members?limit=1&offset=1`)
  assert.deepEqual([page.body.members[0].user_id, page.body.total], [ann.id, 2])
})

test('3 §4 a changed role or a removal takes effect at the next request', async () => {
  const id = await newProject()
  await join(id, ann, 'admin')
  const mine = as(ann.session)
  const read = () => mine('GET', `/projects/${id}`)
  const rename = () => mine('PATCH', `/projects/${id}`, { description: 'mine' })
  const members = () => mine('GET', `/projects/${id}/members`)
  for (const each of [read, rename, members]) assert.equal((await each()).status, 200)
  const reply = await setRole(id, ann.id, 'editor')
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), memberFields)
  assert.deepEqual([reply.body.user_id, reply.body.role], [ann.id, 'editor'])
  assert.equal((await auditOf(it, 'team.member_updated', reply)).target, ann.id)
  assert.equal((await read()).status, 200)
  for (const each of [rename, members]) assertNeedsScope(await each(), 'admin')
  await setRole(id, ann.id, 'read_only')
  assert.equal((await read()).status, 200)
  assert.equal((await mine('GET', `/projects/${id}/invites`)).status, 200)
  const gone = await remove(id, ann.id)
  assert.deepEqual([gone.status, gone.text], [204, ''])
  assert.equal((await auditOf(it, 'team.member_removed', gone)).target, ann.id)
  assertNeedsScope(await read(), 'read')
  assert.equal(
    (await mine('GET', '/projects')).body.projects.some((each: any) => each.id === id),
    false,
  )
})

test('3 §4 a user who is not a member is 404', async () => {
  const id = await newProject()
  await join(id, ann, 'owner')
  for (const user of [bob.id, someId]) {
    assertManagementError(await setRole(id, user, 'admin'), 'member_not_found')
    assertManagementError(await remove(id, user), 'member_not_found')
  }
  assert.equal((await remove(id, bob.id)).status, 404)
  for (const body of [{}, { role: 'root' }, { role: null }, { role: 'admin', user_id: bob.id }])
    assertManagementError(
      await it.manage('PATCH', `/projects/${id}/members/${ann.id}`, body),
      'invalid_request',
    )
  for (const reply of [
    await invite(someId, { email: 'x@example.test' }),
    await it.manage('GET', `/projects/${someId}/invites`),
    await it.manage('DELETE', `/projects/${someId}/invites/${someId}`),
    await it.manage('GET', `/projects/${someId}/members`),
    await setRole(someId, ann.id, 'admin'),
    await remove(someId, ann.id),
  ])
    assertManagementError(reply, 'project_not_found')
})

test('3 §3 the last owner can be neither demoted nor removed', async () => {
  const id = await newProject()
  await join(id, ann, 'owner')
  await join(id, bob, 'admin')
  for (const role of ['admin', 'editor', 'read_only'])
    assertManagementError(await setRole(id, ann.id, role), 'last_owner')
  assertManagementError(await remove(id, ann.id), 'last_owner')
  assertManagementError(await as(ann.session)('DELETE', `/projects/${id}/members/${ann.id}`), 'last_owner')
  assert.equal((await setRole(id, ann.id, 'owner')).status, 200, 'staying owner is no demotion')
  assert.deepEqual(await rolesOf(id), { [ann.id]: 'owner', [bob.id]: 'admin' })
  assert.equal((await setRole(id, bob.id, 'owner')).status, 200)
  assert.equal((await setRole(id, ann.id, 'admin')).status, 200)
  assertManagementError(await remove(id, bob.id), 'last_owner')
  assert.equal((await remove(id, ann.id)).status, 204, 'others may go')
})

const ways: Record<string, (id: string, user: string, i: number) => Promise<Reply>> = {
  demotions: (id, user) => setRole(id, user, 'editor'),
  removals: (id, user) => remove(id, user),
  'a demotion and a removal': (id, user, i) => (i === 0 ? setRole(id, user, 'admin') : remove(id, user)),
}
for (const [way, lose] of Object.entries(ways))
  test(`3 §3 of two concurrent ${way} of the owners one is refused`, async () => {
    for (let round = 0; round < 5; round++) {
      const id = await newProject()
      await join(id, ann, 'owner')
      await join(id, bob, 'owner')
      const replies = await Promise.all([ann, bob].map(({ id: user }, i) => lose(id, user, i)))
      const refused = replies.filter(({ status }) => status === 409)
      assert.equal(refused.length, 1, `${replies.map(({ status }) => status)}`)
      assertManagementError(refused[0]!, 'last_owner')
      const owners = Object.values(await rolesOf(id)).filter(role => role === 'owner')
      assert.equal(owners.length, 1)
    }
  })

test('3 §3 a platform user who is the last owner of a project cannot be deleted', async () => {
  const user = await person('project_admin')
  const id = await newProject()
  await join(id, user, 'owner')
  assertManagementError(await it.manage('DELETE', `/admin/users/${user.id}`), 'last_owner')
  assert.equal((await as(user.session)('GET', `/projects/${id}`)).status, 200)
  await join(id, ann, 'owner')
  assert.equal((await it.manage('DELETE', `/admin/users/${user.id}`)).status, 204)
  assert.deepEqual(await rolesOf(id), { [ann.id]: 'owner' })
})

test('3 §5 a session has only the rights of its membership', async () => {
  const id = await newProject()
  const mine = as(ann.session)
  const may: Record<string, [read: number, deploy: number, admin: number]> = {
    owner: [200, 400, 200],
    admin: [200, 400, 200],
    editor: [200, 400, 403],
    read_only: [200, 403, 403],
  }
  await join(id, bob, 'owner')
  await join(id, ann, 'read_only')
  for (const [role, expected] of Object.entries(may)) {
    assert.equal((await setRole(id, ann.id, role)).status, 200)
    const got = [
      (await mine('GET', `/projects/${id}`)).status,
      // The body is invalid, so that nothing is pushed: an admitted request gets a 400.
      (await mine('POST', `/projects/${id}/db/push`, {})).status,
      (await mine('GET', `/projects/${id}/members`)).status,
    ]
    assert.deepEqual(got, expected, role)
  }
})

test('3 §5 an admin of a project cannot become owner, nor demote or remove one', async () => {
  const id = await newProject()
  await join(id, ann, 'owner')
  await join(id, bob, 'admin')
  const mine = as(bob.session)
  for (const reply of [
    await mine('PATCH', `/projects/${id}/members/${bob.id}`, { role: 'owner' }),
    await mine('PATCH', `/projects/${id}/members/${ann.id}`, { role: 'editor' }),
    await mine('DELETE', `/projects/${id}/members/${ann.id}`),
    await mine('POST', `/projects/${id}/invites`, { email: 'friend@example.test', role: 'owner' }),
  ])
    assertManagementError(reply, 'owner_required')
  assert.deepEqual(await rolesOf(id), { [ann.id]: 'owner', [bob.id]: 'admin' })
  assert.equal((await mine('POST', `/projects/${id}/invites`, { email: 'friend@example.test' })).status, 201)
})

test('3 §4 the invites of a deleted project are invalid', async () => {
  const id = await newProject()
  const { invite_token: token } = (await invite(id, { email: ann.email })).body
  assert.equal((await it.manage('DELETE', `/projects/${id}`)).status, 204)
  assertManagementError(await accept(ann.session, { token }), 'invite_not_found')
})
