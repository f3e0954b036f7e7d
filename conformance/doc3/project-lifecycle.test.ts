// 3 §3 "Projects": suspending, resuming and deleting a project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, type CreatedProject, createProject, someId, userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const read = (id: string) => it.manage('GET', `/projects/${id}`)
const patch = (id: string, body: unknown) => it.manage('PATCH', `/projects/${id}`, body)
const suspend = (id: string) => it.manage('POST', `/projects/${id}/suspend`)
const resume = (id: string) => it.manage('POST', `/projects/${id}/resume`)
const remove = (id: string) => it.manage('DELETE', `/projects/${id}`)
const whoami = (project: Pick<CreatedProject, 'id'>, apikey: string, token?: string) =>
  it.call('GET', `/v1/whoami/${project.id}`, { apikey, token })

test('3 §3 only suspend and resume set the status; PATCH changes four fields and no other', async () => {
  const project = await createProject(it)
  for (const body of [
    {},
    { status: 'suspended' },
    { name: 'x', status: 'suspended' },
    { slug: 'other-slug' },
    { id: someId },
    { anon_key: 'mine' },
    { jwt_secret: 'mine' },
    { name: '' },
    { name: null },
    { name: 5 },
    { description: null },
    { settings: null },
    { settings: [] },
    { quotas: { rate_limit_anon: -1 } },
    { quotas: { rate_limit_anon: 'x' } },
    { quotas: { max_projects: 1 } },
  ])
    assertManagementError(await patch(project.id, body), 'invalid_request')
  const { body } = await read(project.id)
  assert.deepEqual(
    [body.status, body.name, body.slug, body.quotas],
    ['active', project.name, project.slug, {}],
  )
})

test('3 §3 suspend: the data plane rejects all traffic with 403, resume restores it', async () => {
  const project = await createProject(it)
  const other = await createProject(it)
  const credentials = [
    { apikey: project.anon_key },
    { apikey: project.service_role_key },
    { token: project.service_role_key },
    { apikey: project.anon_key, token: userJwt(project) },
  ]
  const suspended = await suspend(project.id)
  assert.equal(suspended.status, 200)
  assert.equal(suspended.body.status, 'suspended')
  assert.equal((await read(project.id)).body.status, 'suspended')
  for (const options of credentials)
    for (const path of [
      `/v1/whoami/${project.id}`,
      `/v1/${project.id}/whoami/v1`,
      `/v1/rest/${project.id}/t`,
    ])
      assertDataError(await it.call('GET', path, options), 'project_suspended')
  const write = await it.call('POST', `/v1/rest/${project.id}/t`, { apikey: project.anon_key, body: '{' })
  assertDataError(write, 'project_suspended')
  assert.equal((await whoami(other, other.anon_key)).status, 200, 'other projects go on')

  const resumed = await resume(project.id)
  assert.equal(resumed.status, 200)
  assert.equal(resumed.body.status, 'active')
  for (const options of credentials)
    assert.equal((await it.call('GET', `/v1/whoami/${project.id}`, options)).status, 200)

  for (const [action, reply] of [
    ['project.suspended', suspended],
    ['project.resumed', resumed],
  ] as const) {
    const entry = await auditOf(it, action, reply)
    assert.deepEqual([entry.target, entry.project_id], [project.id, project.id])
  }
})

test('3 §3 suspending a suspended or resuming an active project changes nothing', async () => {
  const project = await createProject(it)
  assert.equal((await resume(project.id)).body.status, 'active')
  await suspend(project.id)
  assert.equal((await suspend(project.id)).body.status, 'suspended')
  assert.equal((await read(project.id)).body.status, 'suspended')
})

test('3 §3 a suspended project can still be managed', async () => {
  const project = await createProject(it)
  await suspend(project.id)
  assert.equal((await patch(project.id, { description: 'closed' })).body.description, 'closed')
  const { body } = await it.manage('GET', `/projects/${project.id}/keys/service-role`)
  assert.equal(body.service_role_key, project.service_role_key)
  assert.equal((await read(project.id)).body.status, 'suspended')
})

for (const state of ['active', 'suspended'])
  test(`3 §3 delete of a project that is ${state}: 204, then 404 for management and 401 for its keys`, async () => {
    const project = await createProject(it)
    const unknown = await whoami({ id: someId }, project.anon_key)
    if (state === 'suspended') await suspend(project.id)
    const reply = await remove(project.id)
    assert.equal(reply.status, 204)
    assert.equal(reply.text, '')

    assertManagementError(await read(project.id), 'project_not_found')
    assertManagementError(await remove(project.id), 'project_not_found')
    assertManagementError(await patch(project.id, { name: 'x' }), 'project_not_found')
    for (const path of ['/suspend', '/resume', '/rotate/jwt', '/rotate/api-keys'])
      assertManagementError(await it.manage('POST', `/projects/${project.id}${path}`), 'project_not_found')
    const key = await it.manage('GET', `/projects/${project.id}/keys/service-role`)
    assertManagementError(key, 'project_not_found')
    for (const query of ['', '&status=active', '&status=suspended']) {
      const { body } = await it.manage('GET', `/projects?limit=100${query}`)
      assert.ok(!body.projects.some(({ id }: CreatedProject) => id === project.id))
    }
    for (const key of [project.anon_key, project.service_role_key]) {
      const refused = await whoami(project, key)
      assertDataError(refused, 'unauthorized')
      assert.equal(refused.text, unknown.text)
    }
    const entry = await auditOf(it, 'project.deleted', reply)
    assert.deepEqual([entry.target, entry.project_id], [project.id, project.id])
  })

test('3 §3 the slug of a deleted project can be used again, and the old keys are invalid there', async () => {
  const old = await createProject(it)
  assert.equal((await remove(old.id)).status, 204)
  const renewed = await createProject(it, { slug: old.slug })
  assert.equal(renewed.slug, old.slug)
  assert.notEqual(renewed.id, old.id)
  assert.equal((await whoami(renewed, renewed.anon_key)).status, 200)
  assertDataError(await whoami(renewed, old.anon_key), 'unauthorized')
  assertDataError(await whoami(renewed, renewed.anon_key, userJwt(old)), 'unauthorized')
})

test('3 §3 of concurrent deletions one succeeds', async () => {
  const project = await createProject(it)
  const statuses = (await Promise.all([1, 2, 3].map(() => remove(project.id)))).map(({ status }) => status)
  assert.equal(statuses.filter(status => status === 204).length, 1, `${statuses}`)
  // The others find the project deleted or being deleted.
  assert.ok(
    statuses.every(status => [204, 404, 409].includes(status)),
    `${statuses}`,
  )
})
