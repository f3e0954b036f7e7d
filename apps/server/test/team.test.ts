// Invites and members: what they may become, and what holds when many change a team at once.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { MemberRole } from '@plinth/contract/team.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
/** A second node on the same control database. */
let beside: TestPlatform
before(async () => {
  // Each person logs in from an address of their own.
  const settings = { PLATFORM_TRUSTED_PROXIES: '127.0.0.1/32' }
  platform = await startPlatform({ settings })
  beside = await startPlatform({ settings, beside: platform })
})
after(async () => {
  await beside?.stop()
  await platform?.stop()
})

interface Person {
  id: string
  email: string
  session: string
}

let people = 0
async function person(role: PlatformRole = 'project_admin'): Promise<Person> {
  const n = ++people
  const login = { email: `person${n}@example.test`, password: 'a long enough password' }
  const { id, email } = await platform.admin.createUser({ body: { ...login, role } })
  const headers = { 'x-forwarded-for': `10.0.${n >> 8}.${n & 255}` }
  const { status, body } = await platform.call('POST', '/api/v1/platform/login', { body: login, headers })
  assert.equal(status, 200)
  return { id, email, session: body.token }
}

/** Somebody who never logs in. */
async function bystander(isActive = true): Promise<string> {
  const id = crypto.randomUUID()
  await platform.app.control.run(sql`
    insert into users (id, email, role, password_hash, is_active)
    values (${id}, ${`${id}@example.test`}, 'project_admin', 'none', ${isActive})`)
  return id
}

const newProject = async () => (await platform.createProject()).id

const seat = (project: string, user: string, role: MemberRole) =>
  platform.app.control.run(sql`
    insert into members (project_id, user_id, role) values (${project}, ${user}, ${role})
    on conflict (project_id, user_id) do update set role = excluded.role`)

async function seats(project: string): Promise<Record<string, MemberRole>> {
  const rows = await platform.app.control.rows<{ user_id: string; role: MemberRole }>(
    sql`select user_id, role from members where project_id = ${project}`,
  )
  return Object.fromEntries(rows.map(({ user_id, role }) => [user_id, role]))
}
const ownersOf = async (project: string) =>
  Object.entries(await seats(project))
    .filter(([, role]) => role === 'owner')
    .map(([id]) => id)

const api = (
  method: string,
  path: string,
  body?: unknown,
  token = platform.adminToken,
  node = platform,
): Promise<Reply> => node.call(method, `/api/v1${path}`, { token, ...(body !== undefined && { body }) })
const invite = (project: string, body: unknown, token?: string) =>
  api('POST', `/projects/${project}/invites`, body, token)
const accept = (body: unknown, token: string, node?: TestPlatform) =>
  api('POST', '/invites/accept', body, token, node)
const setRole = (project: string, user: string, role: MemberRole, token?: string, node?: TestPlatform) =>
  api('PATCH', `/projects/${project}/members/${user}`, { role }, token, node)
const remove = (project: string, user: string, token?: string, node?: TestPlatform) =>
  api('DELETE', `/projects/${project}/members/${user}`, undefined, token, node)
const refusal = ({ status, body }: Reply) => [status, body?.error?.code]
const statuses = (replies: Reply[]) => replies.map(({ status }) => status)

test('an invite token is stored as a hash only and is neither logged nor audited', async () => {
  const project = await newProject()
  const made = await invite(project, { email: 'ann@example.test' })
  assert.equal(made.status, 201)
  const token: string = made.body.invite_token
  const stored = await platform.app.control.rows(sql`select * from invites where project_id = ${project}`)
  assert.equal(stored.length, 1)
  const dump = JSON.stringify([stored, await platform.app.control.rows(sql`select * from audit`)])
  const secret = token.replace('platform_invite_', '')
  for (const text of [secret, Buffer.from(secret).toString('hex'), Buffer.from(secret).toString('base64')])
    assert.ok(!dump.includes(text))
  await accept({ token }, (await person()).session)
  assert.ok(!platform.logged.some(line => line.includes(secret)))
})

test('of many who accept one invite at once, on two nodes, one joins', async () => {
  const joiner = await person()
  for (let round = 0; round < 10; round++) {
    const project = await newProject()
    const { invite_token: token } = (await invite(project, { email: joiner.email, role: 'admin' })).body
    const replies = await Promise.all(
      [platform, beside, platform, beside].map(node => accept({ token }, joiner.session, node)),
    )
    assert.deepEqual(statuses(replies).sort(), [200, 404, 404, 404])
    assert.deepEqual(await seats(project), { [joiner.id]: 'admin' })
  }
})

test('accepting and revoking at once ends in a member or a revoked invite, never in both', async () => {
  const joiner = await person()
  for (let round = 0; round < 15; round++) {
    const project = await newProject()
    const { id, invite_token: token } = (await invite(project, { email: joiner.email })).body
    const [accepted, revoked] = await Promise.all([
      accept({ token }, joiner.session),
      api('DELETE', `/projects/${project}/invites/${id}`, undefined, platform.adminToken, beside),
    ])
    assert.ok(
      (accepted.status === 200 && revoked.status === 404) ||
        (accepted.status === 404 && revoked.status === 204),
      `${accepted.status} ${revoked.status}`,
    )
    assert.equal(Object.keys(await seats(project)).length, accepted.status === 200 ? 1 : 0)
  }
})

test('an invite that has expired is refused as such, is not listed and cannot be revoked', async () => {
  const joiner = await person()
  const project = await newProject()
  const { id, invite_token: token } = (await invite(project, { email: joiner.email })).body
  const age = (days: number) =>
    platform.app.control.run(
      sql`update invites set expires_at = now() - make_interval(days => ${days}) where id = ${id}`,
    )
  await age(0)
  assert.deepEqual(refusal(await accept({ token }, joiner.session)), [410, 'invite_expired'])
  assert.equal((await api('GET', `/projects/${project}/invites`)).body.total, 0)
  assert.deepEqual(refusal(await api('DELETE', `/projects/${project}/invites/${id}`)), [
    404,
    'invite_not_found',
  ])
  assert.deepEqual(await seats(project), {})
  // Long expired ones are forgotten when the next invite is made.
  await age(31)
  await invite(project, { email: 'other@example.test' })
  assert.deepEqual(refusal(await accept({ token }, joiner.session)), [404, 'invite_not_found'])
})

test('an expired invite is replaced by a new one that works', async () => {
  const joiner = await person()
  const project = await newProject()
  const old = (await invite(project, { email: joiner.email })).body
  await platform.app.control.run(sql`update invites set expires_at = now() where id = ${old.id}`)
  const fresh = (await invite(project, { email: joiner.email })).body
  assert.deepEqual(refusal(await accept({ token: old.invite_token }, joiner.session)), [
    404,
    'invite_not_found',
  ])
  assert.equal((await accept({ token: fresh.invite_token }, joiner.session)).status, 200)
})

test('a project holds 1000 pending invites and no more; one address can always be invited again', async () => {
  const project = await newProject()
  await platform.app.control.run(sql`
    insert into invites (project_id, email, role, hash, invited_by, expires_at)
    select ${project}, 'p' || i || '@example.test', 'editor', decode(md5(${project} || i), 'hex'), 'test',
           now() + interval '1 day' from generate_series(1, 999) i`)
  const last = await Promise.all([1, 2, 3, 4].map(n => invite(project, { email: `late${n}@example.test` })))
  assert.deepEqual(statuses(last).sort(), [201, 409, 409, 409])
  assert.deepEqual(refusal(await invite(project, { email: 'more@example.test' })), [409, 'too_many_invites'])
  assert.equal((await invite(project, { email: 'P7@example.test', role: 'admin' })).status, 201)
  const { body } = await api('GET', `/projects/${project}/invites?limit=1000`)
  assert.deepEqual([body.total, body.limit, body.invites.length], [1000, 100, 100])
  assert.equal((await api('DELETE', `/projects/${project}/invites/${body.invites[0].id}`)).status, 204)
  assert.equal((await invite(project, { email: 'more@example.test' })).status, 201)
})

test('inviting one address many times at once leaves one invite, and one token that works', async () => {
  const joiner = await person()
  const project = await newProject()
  const replies = await Promise.all([1, 2, 3, 4, 5].map(() => invite(project, { email: joiner.email })))
  assert.deepEqual(statuses(replies), [201, 201, 201, 201, 201])
  const { invites } = (await api('GET', `/projects/${project}/invites`)).body
  assert.equal(invites.length, 1)
  const accepted: number[] = []
  for (const { body } of replies)
    accepted.push((await accept({ token: body.invite_token }, joiner.session)).status)
  assert.deepEqual(accepted.sort(), [200, 404, 404, 404, 404])
})

test('an address is the same however it is written', async () => {
  const joiner = await person()
  const project = await newProject()
  const { body } = await invite(project, { email: joiner.email })
  await platform.admin.updateUser({
    params: { user_id: joiner.id },
    body: { email: joiner.email.toUpperCase() },
  })
  assert.equal((await accept({ token: body.invite_token }, joiner.session)).status, 200)
  assert.deepEqual(refusal(await invite(project, { email: joiner.email })), [409, 'already_member'])
})

test('accepting never lowers the role of somebody who is a member already', async () => {
  const joiner = await person()
  for (const [held, offered, becomes] of [
    ['owner', 'read_only', 'owner'],
    ['admin', 'editor', 'admin'],
    ['editor', 'editor', 'editor'],
    ['read_only', 'admin', 'admin'],
    ['admin', 'owner', 'owner'],
  ] as const) {
    const project = await newProject()
    const { invite_token: token } = (await invite(project, { email: joiner.email, role: offered })).body
    await seat(project, joiner.id, held)
    const { status, body } = await accept({ token }, joiner.session)
    assert.deepEqual([status, body.role], [200, becomes], `${held} invited as ${offered}`)
    assert.deepEqual(await seats(project), { [joiner.id]: becomes })
    assert.equal((await accept({ token }, joiner.session)).status, 404, 'it is used up')
  }
})

test('an invite goes with its project', async () => {
  const joiner = await person()
  const project = await newProject()
  const { invite_token: token } = (await invite(project, { email: joiner.email })).body
  await platform.projects.remove({ params: { id: project } })
  assert.deepEqual(
    await platform.app.control.rows(sql`select id from invites where project_id = ${project}`),
    [],
  )
  assert.deepEqual(refusal(await accept({ token }, joiner.session)), [404, 'invite_not_found'])
  for (const reply of [
    await invite(project, { email: 'x@example.test' }),
    await api('GET', `/projects/${project}/invites`),
    await api('DELETE', `/projects/${project}/invites/${crypto.randomUUID()}`),
    await api('GET', `/projects/${project}/members`),
    await setRole(project, joiner.id, 'admin'),
    await remove(project, joiner.id),
  ])
    assert.deepEqual(refusal(reply), [404, 'project_not_found'])
})

test('nobody joins a project that is being deleted', async () => {
  const joiner = await person()
  const project = await newProject()
  const { invite_token: token } = (await invite(project, { email: joiner.email })).body
  await platform.app.control.run(sql`update projects set status = 'deleting' where id = ${project}`)
  assert.deepEqual(refusal(await accept({ token }, joiner.session)), [404, 'invite_not_found'])
  assert.deepEqual(await seats(project), {})
  await platform.projects.remove({ params: { id: project } })
})

/** How an owner can be lost. */
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
  test(`of ${way} of all owners at once exactly one is refused, and one owner stays`, async () => {
    const project = await newProject()
    for (let round = 0; round < 25; round++) {
      const owners = await Promise.all(Array.from({ length: 2 + (round % 3) }, () => bystander()))
      await platform.app.control.run(sql`delete from members where project_id = ${project}`)
      for (const owner of owners) await seat(project, owner, 'owner')
      const replies = await Promise.all(owners.map((owner, i) => lose(project, owner, i)))
      const refused = replies.filter(reply => reply.status === 409)
      assert.deepEqual(refused.map(refusal), [[409, 'last_owner']], `round ${round}: ${statuses(replies)}`)
      assert.ok(
        replies.every(({ status }) => [200, 204, 409].includes(status)),
        `${statuses(replies)}`,
      )
      assert.deepEqual(await ownersOf(project), [owners[replies.indexOf(refused[0]!)]], `round ${round}`)
    }
  })

test('two owners who demote each other at once leave one owner', async () => {
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
    // The second to come is refused: admitted as owner, it is one no longer, or it came too late to be admitted.
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

test('promoting somebody while their account is deleted leaves the project with an owner', async () => {
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

test('changing or removing an owner while their account is deleted never holds up the two', async () => {
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

test('a user who is the last owner of a project cannot be deleted, and the refusal names the project', async () => {
  const { id: project, name } = await platform.createProject()
  const [owner, other] = [await bystander(), await bystander()]
  await seat(project, owner, 'owner')
  await seat(project, other, 'admin')
  const refused = await api('DELETE', `/admin/users/${owner}`)
  assert.deepEqual(refusal(refused), [409, 'last_owner'])
  assert.ok(refused.body.error.message.includes(name) && refused.body.error.message.includes(project))
  assert.equal((await setRole(project, other, 'owner')).status, 200)
  assert.equal((await api('DELETE', `/admin/users/${owner}`)).status, 204)
  assert.deepEqual(await seats(project), { [other]: 'owner' })
  assert.equal((await api('DELETE', `/admin/users/${other}`)).status, 409)
  await platform.projects.remove({ params: { id: project } })
  assert.equal((await api('DELETE', `/admin/users/${other}`)).status, 204, 'a deleted project holds nobody')
})

test('the last owner can be locked out and let in again; until then an inactive owner counts for nothing', async () => {
  const project = await newProject()
  const [owner, other] = [await bystander(), await bystander()]
  await seat(project, owner, 'owner')
  await seat(project, other, 'owner')
  const activate = (user: string, is_active: boolean) => api('PATCH', `/admin/users/${user}`, { is_active })
  assert.equal((await activate(other, false)).status, 200)
  assert.deepEqual(refusal(await setRole(project, owner, 'admin')), [409, 'last_owner'])
  assert.deepEqual(refusal(await remove(project, owner)), [409, 'last_owner'])
  assert.deepEqual(refusal(await api('DELETE', `/admin/users/${owner}`)), [409, 'last_owner'])
  assert.equal((await activate(owner, false)).status, 200)
  assert.equal((await ownersOf(project)).length, 2, 'the memberships stay')
  assert.deepEqual(refusal(await remove(project, owner)), [409, 'last_owner'])
  assert.equal((await activate(owner, true)).status, 200)
  assert.equal((await remove(project, other)).status, 204)
})

test('an admin of a project neither makes nor unmakes owners; an owner does', async () => {
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
    assert.deepEqual(refusal(reply), [403, 'owner_required'])
  assert.deepEqual(await seats(project), { [owner.id]: 'owner', [admin.id]: 'admin', [editor.id]: 'editor' })
  assert.equal((await api('GET', `/projects/${project}/invites`)).body.total, 0)

  assert.equal((await setRole(project, owner.id, 'owner', as)).status, 200, 'no change is no change')
  assert.equal((await setRole(project, editor.id, 'admin', as)).status, 200)
  assert.equal((await invite(project, { email: 'x@example.test', role: 'admin' }, as)).status, 201)
  assert.equal((await remove(project, editor.id, as)).status, 204)

  const asOwner = owner.session
  assert.equal((await invite(project, { email: 'y@example.test', role: 'owner' }, asOwner)).status, 201)
  assert.equal((await setRole(project, admin.id, 'owner', asOwner)).status, 200)
  assert.equal((await setRole(project, owner.id, 'editor', asOwner)).status, 200, 'an owner may step down')
  assert.deepEqual(await seats(project), { [owner.id]: 'editor', [admin.id]: 'owner' })
})

test('a super_admin and an admin platform token make owners without being members', async () => {
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

test('accepting is audited with the project joined, by whoever joined it', async () => {
  const joiner = await person()
  const project = await newProject()
  const { invite_token: token } = (await invite(project, { email: joiner.email })).body
  await accept({ token }, joiner.session)
  const { entries } = await platform.admin.listAudit({ query: { project_id: project } })
  const entry = entries.find(({ action }) => action === 'team.invite_accepted')
  assert.deepEqual(entry?.actor, { kind: 'user', id: joiner.id, label: joiner.email })
  assert.equal(entry?.target, project)
})
