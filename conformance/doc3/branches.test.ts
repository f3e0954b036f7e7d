// 3 §2 "Branch", §4 "Branches".
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { auditOf, type CreatedProject, createProject, mintToken, someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
  const made = await it.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
    apikey: project.service_role_key,
    body: { sql: `create table notes (id int primary key); insert into notes values (1), (2)` },
  })
  assert.ok(made.status < 300, made.text)
})
after(() => it.stop())

const call = (method: string, path = '', body?: unknown, token = it.adminToken): Promise<Reply> =>
  it.call(method, `/api/v1/projects/${project.id}/branches${path}`, { token, body })

async function untilMade(slug: string): Promise<any> {
  for (;;) {
    const { body } = await call('GET', `/${slug}`)
    if (body.progress === null) return body
    await sleep(50)
  }
}

const rowsOf = ({ id, service_role_key: key }: { id: string; service_role_key: string }) =>
  it.call('GET', `/v1/rest/${id}/notes?order=id`, { apikey: key })

test('3 §2 a branch is a tenant with its own keys, which are returned once', async () => {
  const made = await call('POST', '', { name: 'My Feature #1' })
  assert.equal(made.status, 201, made.text)
  const { id, slug, status, anon_key, service_role_key, jwt_secret } = made.body
  assert.match(id, uuid)
  assert.deepEqual([slug, status, made.body.parent_id], ['my-feature-1', 'creating', project.id])
  for (const [own, other] of [
    [anon_key, project.anon_key],
    [service_role_key, project.service_role_key],
    [jwt_secret, project.jwt_secret],
  ]) {
    assert.ok(own)
    assert.notEqual(own, other)
  }
  const { status: after, error } = await untilMade(slug)
  assert.deepEqual([after, error], ['active', null])
  const listed = await call('GET')
  assert.deepEqual([listed.body.total, listed.body.branches[0].slug], [1, slug])
  assert.ok(!listed.text.includes(service_role_key) && !listed.text.includes(jwt_secret))
  assert.deepEqual((await rowsOf(made.body)).body, [{ id: 1 }, { id: 2 }])
  await it.call('DELETE', `/v1/rest/${id}/notes?id=eq.1`, { apikey: service_role_key })
  assert.deepEqual((await rowsOf(made.body)).body, [{ id: 2 }])
  assert.deepEqual((await rowsOf(project)).body, [{ id: 1 }, { id: 2 }])
  assert.equal((await auditOf(it, 'branch.created', made)).target, id)
  const removed = await call('DELETE', `/${slug}`)
  assert.equal(removed.status, 204)
  assertManagementError(await call('GET', `/${slug}`), 'branch_not_found')
  assert.equal((await rowsOf(made.body)).status, 401)
})

test('3 §2 schema_only clones definitions with zero rows', async () => {
  const made = await call('POST', '', { name: 'empty', schema_only: true })
  assert.equal(made.status, 201, made.text)
  assert.equal((await untilMade('empty')).status, 'active')
  assert.deepEqual((await rowsOf(made.body)).body, [])
  assert.equal((await call('DELETE', '/empty')).status, 204)
})

test('3 §2 only the present state of the parent can be branched, and names become slugs', async () => {
  const from = await call('POST', '', { name: 'earlier', from: '2026-01-01T00:00:00Z' })
  assertManagementError(from, 'branch_source_unsupported')
  for (const body of [{}, { name: '' }, { name: 'ab' }, { name: 'x'.repeat(51) }, { name: 'ok', more: 1 }])
    assertManagementError(await call('POST', '', body), 'invalid_request')
  const never = await call('POST', '', { name: 'never', expires_in: '999999w' })
  assertManagementError(never, 'invalid_request', /expires_in.*9999/)
  const absent = { from: null, schema_only: null, expires_in: null, expires_at: null }
  const long = await call('POST', '', { name: 'Ab'.repeat(25), ...absent })
  assert.deepEqual([long.status, long.body.slug], [201, 'ab'.repeat(25)], long.text)
  assert.deepEqual([long.body.schema_only, long.body.expires_at], [false, null])
  assertManagementError(await call('POST', '', { name: 'ab'.repeat(25) }), 'branch_exists')
  assert.equal((await call('DELETE', `/${long.body.slug}`)).status, 204)
})

test('3 §4 branches need admin scope', async () => {
  for (const scope of ['read', 'deploy'] as const) {
    const { token } = await mintToken(it, scope)
    assertNeedsScope(await call('GET', '', undefined, token), 'admin')
    assertNeedsScope(await call('POST', '', { name: 'theirs' }, token), 'admin')
    assertNeedsScope(await call('DELETE', '/theirs', undefined, token), 'admin')
  }
  const unknown = await it.call('GET', `/api/v1/projects/${someId}/branches`, { token: it.adminToken })
  assertManagementError(unknown, 'project_not_found')
})
