// 3 §4 "quotas": limits that the operator sets and a project's own administrators cannot change.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, createUser, mintToken, sessionOf } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
let project: CreatedProject
let ownerToken: string
before(async () => {
  it = await target()
  // Two users stay super_admin, so that the one of this test can be demoted.
  await createUser(it)
  const owner = await createUser(it)
  ownerToken = await sessionOf(it, owner)
  project = await createProject(it, { quotas: { rate_limit_anon: 5 } }, ownerToken)
  const demoted = await it.manage('PATCH', `/admin/users/${owner.id}`, { role: 'project_admin' })
  assert.equal(demoted.status, 200, demoted.text)
  ownerToken = await sessionOf(it, owner)
})
after(() => it.stop())

const patch = (token: string, body: unknown) =>
  it.call('PATCH', `/api/v1/projects/${project.id}`, { token, body })
const read = async () => (await it.manage('GET', `/projects/${project.id}`)).body

test('3 §4 an owner of a project cannot change its quotas, and the 403 names the roles that can', async () => {
  for (const quotas of [
    { rate_limit_anon: 0 },
    { rate_limit_anon: null },
    { max_database_size_mb: 100 },
    { max_storage_size_mb: 1_000_000, rate_limit_service_role: 0 },
    {},
  ])
    assertManagementError(await patch(ownerToken, { quotas }), 'quota_not_yours', /super_admin.*admin scope/)
  assert.deepEqual((await read()).quotas, { rate_limit_anon: 5 })
})

test('3 §4 a refused PATCH of quotas changes neither name nor settings', async () => {
  const changeable = async () => {
    const { name, description, settings, quotas, updated_at } = await read()
    return { name, description, settings, quotas, updated_at }
  }
  const before = await changeable()
  const reply = await patch(ownerToken, {
    name: 'another name',
    description: 'another',
    settings: { theme: 'dark' },
    quotas: { rate_limit_anon: 0 },
  })
  assertManagementError(reply, 'quota_not_yours')
  assert.deepEqual(await changeable(), before)
})

test('3 §4 an owner can change all other fields', async () => {
  const reply = await patch(ownerToken, { name: 'a new name', settings: { theme: 'light' } })
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual([reply.body.name, reply.body.settings], ['a new name', { theme: 'light' }])
})

test('3 §4 a user without operator rights cannot create a project with quotas', async () => {
  const body = { name: 'mine', quotas: { rate_limit_anon: 0 } }
  const reply = await it.call('POST', '/api/v1/projects', { token: ownerToken, body })
  assertManagementError(reply, 'insufficient_scope', /admin/)
})

test('3 §4 a super_admin, an admin platform token and the admin token set quotas', async () => {
  const superAdmin = await sessionOf(it, await createUser(it))
  const { token } = await mintToken(it, 'admin')
  let limit = 10
  for (const each of [superAdmin, token, it.adminToken]) {
    const reply = await patch(each, { quotas: { rate_limit_anon: ++limit, max_database_size_mb: 500 } })
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(reply.body.quotas, { rate_limit_anon: limit, max_database_size_mb: 500 })
  }
  const cleared = await patch(it.adminToken, { quotas: { max_database_size_mb: null } })
  assert.deepEqual(cleared.body.quotas, { rate_limit_anon: limit })
})
