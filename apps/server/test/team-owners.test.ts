// Owners of a project: who may add and remove them, and concurrent changes that must leave one.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Reply, TestPlatform } from './harness.ts'
import { type Person, statusAndCode, statuses, teamNodes } from './team-nodes.ts'

const { nodes, person, newProject, seat, seats, api, invite, setRole, remove } = teamNodes()
let platform: TestPlatform
let beside: TestPlatform
before(() => {
  ;({ platform, beside } = nodes)
})

/** A user who never logs in. */
async function bystander(isActive = true): Promise<string> {
  const id = crypto.randomUUID()
  await platform.app.control.run(sql`
    insert into users (id, email, role, password_hash, is_active)
    values (${id}, ${`${id}@example.test`}, 'project_admin', 'none', ${isActive})`)
  return id
}

const ownersOf = async (project: string) =>
  Object.entries(await seats(project))
    .filter(([, role]) => role === 'owner')
    .map(([id]) => id)

/** Ways to lose an owner. */
const losses: Record<string, (project: string, user: string, i: number) => Promise<Reply>> = {
  demotions: (project, user, i) => setRole(project, user, 'admin', undefined, i % 2 ? beside : platform),
  removals: (project, user, i) => remove(project, user, undefined, i % 2 ? beside : platform),
  'demotions and removals': (project, user, i) =>
    i % 2 ? remove(project, user, undefined, beside) : setRole(project, user, 'read_only'),
  'demotions and deletions of the user': (project, user, i) =>
    i % 2
      ? api('DELETE', `/admin/users/${user}`, undefined, undefined, beside)
      : setRole(project, user, 'editor'),
  'deletions of the user': (_, user, i) =>
    api('DELETE', `/admin/users/${user}`, undefined, undefined, i % 2 ? beside : platform),
}
for (const [way, lose] of Object.entries(losses))
  test(`team: of concurrent ${way} of all owners exactly one is refused, and one owner stays`, async () => {
    const project = await newProject()
    for (let round = 0; round < 25; round++) {
      const owners = await Promise.all(Array.from({ length: 2 + (round % 3) }, () => bystander()))
      await platform.app.control.run(sql`delete from members where project_id = ${project}`)
      for (const owner of owners) await seat(project, owner, 'owner')
      const replies = await Promise.all(owners.map((owner, i) => lose(project, owner, i)))
      const refused = replies.filter(reply => reply.status === 409)
      assert.deepEqual(
        refused.map(statusAndCode),
        [[409, 'last_owner']],
        `round ${round}: ${statuses(replies)}`,
      )
      assert.ok(
        replies.every(({ status }) => [200, 204, 409].includes(status)),
        `${statuses(replies)}`,
      )
      assert.deepEqual(await ownersOf(project), [owners[replies.indexOf(refused[0]!)]], `round ${round}`)
    }
  })

test('team: two owners who demote each other concurrently leave one owner', async () => {
  const [ann, bob] = [await person(), await person()]
  for (let round = 0; round < 25; round++) {
    const project = await newProjectFor(ann, bob)
    const replies = await Promise.all([
      setRole(project, bob.id, 'editor', ann.session),
      round % 2
        ? remove(project, ann.id, bob.session, beside)
        : setRole(project, ann.id, 'admin', bob.session, beside),
    ])
    const [one, other] = replies as [Reply, Reply]
    // The second request is refused: the actor is no longer owner, at the permission check or in the transaction.
    assert.deepEqual([one, other].filter(({ status }) => status < 300).length, 1, `${statuses(replies)}`)
    assert.equal((await ownersOf(project)).length, 1)
  }
})

let shared: string | undefined
async function newProjectFor(...owners: Person[]): Promise<string> {
  shared ??= await newProject()
  for (const owner of owners) await seat(shared, owner.id, 'owner')
  return shared
}

test('team: promoting a user while the account is deleted leaves the project with an owner', async () => {
  const project = await newProject()
  for (let round = 0; round < 15; round++) {
    const [owner, heir] = [await bystander(), await bystander()]
    await platform.app.control.run(sql`delete from members where project_id = ${project}`)
    await seat(project, owner, 'owner')
    await seat(project, heir, 'editor')
    const replies = await Promise.all([
      setRole(project, heir, 'owner'),
      api('DELETE', `/admin/users/${heir}`, undefined, undefined, beside),
      setRole(project, owner, 'editor'),
    ])
    for (const { status } of replies) assert.ok([200, 204, 404, 409].includes(status), `${statuses(replies)}`)
    assert.equal((await ownersOf(project)).length, 1, `${statuses(replies)}`)
  }
})

test('team: changing an owner while the account is deleted does not deadlock', async () => {
  const project = await newProject()
  await seat(project, await bystander(), 'owner')
  for (let round = 0; round < 20; round++) {
    const leaving = await bystander()
    await seat(project, leaving, 'owner')
    const [changed, deleted] = await Promise.all([
      round % 2 ? remove(project, leaving) : setRole(project, leaving, 'editor'),
      api('DELETE', `/admin/users/${leaving}`, undefined, undefined, beside),
    ])
    assert.equal(deleted.status, 204)
    assert.ok([200, 204, 404].includes(changed.status), `${changed.status}`)
    assert.equal((await ownersOf(project)).length, 1)
  }
})

test('team: the last owner of a project cannot be deleted, and the error names the project', async () => {
  const { id: project, name } = await platform.createProject()
  const [owner, other] = [await bystander(), await bystander()]
  await seat(project, owner, 'owner')
  await seat(project, other, 'admin')
  const refused = await api('DELETE', `/admin/users/${owner}`)
  assert.deepEqual(statusAndCode(refused), [409, 'last_owner'])
  assert.ok(refused.body.error.message.includes(name) && refused.body.error.message.includes(project))
  assert.equal((await setRole(project, other, 'owner')).status, 200)
  assert.equal((await api('DELETE', `/admin/users/${owner}`)).status, 204)
  assert.deepEqual(await seats(project), { [other]: 'owner' })
  assert.equal((await api('DELETE', `/admin/users/${other}`)).status, 409)
  await platform.projects.remove({ params: { id: project } })
  assert.equal(
    (await api('DELETE', `/admin/users/${other}`)).status,
    204,
    'a deleted project does not prevent the deletion',
  )
})

test('team: the last owner can be deactivated, and an inactive owner does not count', async () => {
  const project = await newProject()
  const [owner, other] = [await bystander(), await bystander()]
  await seat(project, owner, 'owner')
  await seat(project, other, 'owner')
  const activate = (user: string, is_active: boolean) => api('PATCH', `/admin/users/${user}`, { is_active })
  assert.equal((await activate(other, false)).status, 200)
  assert.deepEqual(statusAndCode(await setRole(project, owner, 'admin')), [409, 'last_owner'])
  assert.deepEqual(statusAndCode(await remove(project, owner)), [409, 'last_owner'])
  assert.deepEqual(statusAndCode(await api('DELETE', `/admin/users/${owner}`)), [409, 'last_owner'])
  assert.equal((await activate(owner, false)).status, 200)
  assert.equal((await ownersOf(project)).length, 2, 'the memberships stay')
  assert.deepEqual(statusAndCode(await remove(project, owner)), [409, 'last_owner'])
  assert.equal((await activate(owner, true)).status, 200)
  assert.equal((await remove(project, other)).status, 204)
})

test('team: only an owner can add or remove owners, not an admin', async () => {
  const project = await newProject()
  const [owner, admin, editor] = [await person(), await person(), await person()]
  await seat(project, owner.id, 'owner')
  await seat(project, admin.id, 'admin')
  await seat(project, editor.id, 'editor')
  const as = admin.session
  for (const reply of [
    await setRole(project, admin.id, 'owner', as),
    await setRole(project, editor.id, 'owner', as),
    await setRole(project, owner.id, 'admin', as),
    await remove(project, owner.id, as),
    await invite(project, { email: 'accomplice@example.test', role: 'owner' }, as),
  ])
    assert.deepEqual(statusAndCode(reply), [403, 'owner_required'])
  assert.deepEqual(await seats(project), { [owner.id]: 'owner', [admin.id]: 'admin', [editor.id]: 'editor' })
  assert.equal((await api('GET', `/projects/${project}/invites`)).body.total, 0)

  assert.equal(
    (await setRole(project, owner.id, 'owner', as)).status,
    200,
    'setting the same role is allowed',
  )
  assert.equal((await setRole(project, editor.id, 'admin', as)).status, 200)
  assert.equal((await invite(project, { email: 'x@example.test', role: 'admin' }, as)).status, 201)
  assert.equal((await remove(project, editor.id, as)).status, 204)

  const asOwner = owner.session
  assert.equal((await invite(project, { email: 'y@example.test', role: 'owner' }, asOwner)).status, 201)
  assert.equal((await setRole(project, admin.id, 'owner', asOwner)).status, 200)
  assert.equal((await setRole(project, owner.id, 'editor', asOwner)).status, 200, 'an owner may step down')
  assert.deepEqual(await seats(project), { [owner.id]: 'editor', [admin.id]: 'owner' })
})

test('team: a super_admin and an admin platform token can add owners without being members', async () => {
  const project = await newProject()
  const root = await person('super_admin')
  const { token } = await platform.platform.mintToken({ body: { name: 'team', scope: 'admin' } })
  for (const credential of [root.session, token]) {
    const user = await bystander()
    await seat(project, user, 'editor')
    assert.equal((await setRole(project, user, 'owner', credential)).status, 200)
    const email = `${randomBytes(6).toString('hex')}@example.test`
    assert.equal((await invite(project, { email, role: 'owner' }, credential)).status, 201)
  }
  const { invites } = (await api('GET', `/projects/${project}/invites`)).body
  assert.deepEqual(
    invites.map((each: { invited_by: string }) => each.invited_by),
    ['team', root.email],
  )
})
