// 3 §4 "Schema, database, RLS": saved queries and the history.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, type CreatedProject, createProject, mintToken, someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
})
after(() => it.stop())

const call = (method: string, path: string, body?: unknown, token = it.adminToken): Promise<Reply> =>
  it.call(method, `/api/v1/projects/${project.id}/queries${path}`, { token, body })

test('3 §4 a saved query is upserted, listed and deleted', async () => {
  const made = await call('POST', '/saved', {
    name: 'active users',
    sql: 'select 1',
    description: 'who is here',
  })
  assert.equal(made.status, 201, made.text)
  assert.match(made.body.id, uuid)
  const changed = await call('POST', '/saved', { id: made.body.id, name: 'active users', sql: 'select 2' })
  assert.equal(changed.body.id, made.body.id)
  const byName = await call('POST', '/saved', { name: 'active users', sql: 'select 3' })
  assert.equal(byName.body.id, made.body.id)
  const { body } = await call('GET', '/saved')
  assert.deepEqual([body.queries.length, body.total, body.queries[0].sql], [1, 1, 'select 3'])
  assert.equal((await call('DELETE', `/saved/${made.body.id}`)).status, 204)
  assertManagementError(await call('DELETE', `/saved/${made.body.id}`), 'query_not_found')
  assert.equal((await call('GET', '/saved')).body.total, 0)
})

test('3 §4 the history records queries and lists them newest first', async () => {
  for (const sql of ['select 1', 'select 2', 'select 3'])
    assert.equal((await call('POST', '/history', { sql, duration_ms: 2, row_count: 1 })).status, 201)
  await call('POST', '/history', { sql: 'selct', error: 'syntax error at or near "selct"' })
  const { body } = await call('GET', '/history?limit=2')
  assert.deepEqual(
    body.entries.map((each: any) => [each.sql, each.status]),
    [
      ['selct', 'error'],
      ['select 3', 'success'],
    ],
  )
  assert.deepEqual([body.total, body.limit, body.offset], [4, 2, 0])
})

test('3 §4 queries belong to a project and are deleted with it', async () => {
  const other = await createProject(it)
  const theirs = `/projects/${other.id}/queries/saved`
  const saved = await it.manage('POST', theirs, { name: 'mine', sql: 'select 1' })
  assertManagementError(await call('DELETE', `/saved/${saved.body.id}`), 'query_not_found')
  assert.equal((await call('GET', '/saved')).body.total, 0)
  await it.manage('DELETE', `/projects/${other.id}`)
  assertManagementError(await it.manage('GET', theirs), 'project_not_found')
})

test('3 §4 an invalid body is rejected', async () => {
  assertManagementError(await call('POST', '/saved', { name: 'x' }), 'invalid_request', /sql/)
  assertManagementError(await call('POST', '/saved', { sql: 'select 1' }), 'invalid_request', /name/)
  assertManagementError(await call('POST', '/history', {}), 'invalid_request', /sql/)
  assertManagementError(await call('DELETE', '/saved/not-an-id'), 'invalid_request')
})

test('3 §5.1 reading needs read scope, writing needs admin scope and is audited', async () => {
  const { token } = await mintToken(it, 'read')
  for (const path of ['/saved', '/history']) {
    assert.equal((await call('GET', path, undefined, token)).status, 200)
    assertNeedsScope(await call('POST', path, { name: 'x', sql: 'select 1' }, token), 'admin')
  }
  assertNeedsScope(await call('DELETE', `/saved/${someId}`, undefined, token), 'admin')
  const reply = await call('POST', '/saved', { name: 'audited', sql: 'select 1' })
  assert.equal((await auditOf(it, 'query.saved', reply)).project_id, project.id)
})
