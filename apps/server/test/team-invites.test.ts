// Invites to a team: tokens, expiry, limits and concurrent changes.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { TestPlatform } from './harness.ts'
import { statusAndCode, statuses, teamNodes } from './team-nodes.ts'

const { nodes, person, newProject, seat, seats, api, invite, setRole, remove } = teamNodes()
let platform: TestPlatform
let beside: TestPlatform
before(() => {
  ;({ platform, beside } = nodes)
})

const accept = (body: unknown, token: string, node?: TestPlatform) =>
  api('POST', '/invites/accept', body, token, node)

test('team: an invite token is stored only as a hash and neither logged nor audited', async () => {
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

test('team: of many concurrent accepts of one invite on two nodes one succeeds', async () => {
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

test('team: accepting and revoking concurrently ends in a member or a revoked invite, never both', async () => {
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

test('team: an expired invite is refused as expired, is not listed and cannot be revoked', async () => {
  const joiner = await person()
  const project = await newProject()
  const { id, invite_token: token } = (await invite(project, { email: joiner.email })).body
  const age = (days: number) =>
    platform.app.control.run(
      sql`update invites set expires_at = now() - make_interval(days => ${days}) where id = ${id}`,
    )
  await age(0)
  assert.deepEqual(statusAndCode(await accept({ token }, joiner.session)), [410, 'invite_expired'])
  assert.equal((await api('GET', `/projects/${project}/invites`)).body.total, 0)
  assert.deepEqual(statusAndCode(await api('DELETE', `/projects/${project}/invites/${id}`)), [
    404,
    'invite_not_found',
  ])
  assert.deepEqual(await seats(project), {})
  // Invites that expired long ago are deleted when the next invite is created.
  await age(31)
  await invite(project, { email: 'other@example.test' })
  assert.deepEqual(statusAndCode(await accept({ token }, joiner.session)), [404, 'invite_not_found'])
})

test('team: a new invite replaces an expired one', async () => {
  const joiner = await person()
  const project = await newProject()
  const old = (await invite(project, { email: joiner.email })).body
  await platform.app.control.run(sql`update invites set expires_at = now() where id = ${old.id}`)
  const fresh = (await invite(project, { email: joiner.email })).body
  assert.deepEqual(statusAndCode(await accept({ token: old.invite_token }, joiner.session)), [
    404,
    'invite_not_found',
  ])
  assert.equal((await accept({ token: fresh.invite_token }, joiner.session)).status, 200)
})

test('team: a project has at most 1000 pending invites, and an invited address can be invited again', async () => {
  const project = await newProject()
  await platform.app.control.run(sql`
    insert into invites (project_id, email, role, hash, invited_by, expires_at)
    select ${project}, 'p' || i || '@example.test', 'editor', decode(md5(${project} || i), 'hex'), 'test',
           now() + interval '1 day' from generate_series(1, 999) i`)
  const last = await Promise.all([1, 2, 3, 4].map(n => invite(project, { email: `late${n}@example.test` })))
  assert.deepEqual(statuses(last).sort(), [201, 409, 409, 409])
  assert.deepEqual(statusAndCode(await invite(project, { email: 'more@example.test' })), [
    409,
    'too_many_invites',
  ])
  assert.equal((await invite(project, { email: 'P7@example.test', role: 'admin' })).status, 201)
  const { body } = await api('GET', `/projects/${project}/invites?limit=1000`)
  assert.deepEqual([body.total, body.limit, body.invites.length], [1000, 100, 100])
  assert.equal((await api('DELETE', `/projects/${project}/invites/${body.invites[0].id}`)).status, 204)
  assert.equal((await invite(project, { email: 'more@example.test' })).status, 201)
})

test('team: concurrent invites of one address leave one invite and one valid token', async () => {
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

test('team: addresses are compared case-insensitively', async () => {
  const joiner = await person()
  const project = await newProject()
  const { body } = await invite(project, { email: joiner.email })
  await platform.admin.updateUser({
    params: { user_id: joiner.id },
    body: { email: joiner.email.toUpperCase() },
  })
  assert.equal((await accept({ token: body.invite_token }, joiner.session)).status, 200)
  assert.deepEqual(statusAndCode(await invite(project, { email: joiner.email })), [409, 'already_member'])
})

test('team: accepting never lowers the role of an existing member', async () => {
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
    assert.equal((await accept({ token }, joiner.session)).status, 404, 'the invite is used')
  }
})

test('team: deleting a project deletes its invites', async () => {
  const joiner = await person()
  const project = await newProject()
  const { invite_token: token } = (await invite(project, { email: joiner.email })).body
  await platform.projects.remove({ params: { id: project } })
  assert.deepEqual(
    await platform.app.control.rows(sql`select id from invites where project_id = ${project}`),
    [],
  )
  assert.deepEqual(statusAndCode(await accept({ token }, joiner.session)), [404, 'invite_not_found'])
  for (const reply of [
    await invite(project, { email: 'x@example.test' }),
    await api('GET', `/projects/${project}/invites`),
    await api('DELETE', `/projects/${project}/invites/${crypto.randomUUID()}`),
    await api('GET', `/projects/${project}/members`),
    await setRole(project, joiner.id, 'admin'),
    await remove(project, joiner.id),
  ])
    assert.deepEqual(statusAndCode(reply), [404, 'project_not_found'])
})

test('team: an invite to a project that is being deleted cannot be accepted', async () => {
  const joiner = await person()
  const project = await newProject()
  const { invite_token: token } = (await invite(project, { email: joiner.email })).body
  await platform.app.control.run(sql`update projects set status = 'deleting' where id = ${project}`)
  assert.deepEqual(statusAndCode(await accept({ token }, joiner.session)), [404, 'invite_not_found'])
  assert.deepEqual(await seats(project), {})
  await platform.projects.remove({ params: { id: project } })
})

test('team: accepting is audited with the project and the user who joined', async () => {
  const joiner = await person()
  const project = await newProject()
  const { invite_token: token } = (await invite(project, { email: joiner.email })).body
  await accept({ token }, joiner.session)
  const { entries } = await platform.admin.listAudit({ query: { project_id: project } })
  const entry = entries.find(({ action }) => action === 'team.invite_accepted')
  assert.deepEqual(entry?.actor, { kind: 'user', id: joiner.id, label: joiner.email })
  assert.equal(entry?.target, project)
})
