// Saved queries and query history of a project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let id: string
before(async () => {
  platform = await startPlatform()
  id = (await platform.createProject()).id
})
after(() => platform.stop())

const call = (
  method: string,
  path: string,
  body?: unknown,
  { project = id, ...options }: CallOptions & { project?: string } = {},
): Promise<Reply> =>
  platform.call(method, `/api/v1/projects/${project}/queries${path}`, {
    token: platform.adminToken,
    ...(body !== undefined && { body }),
    ...options,
  })
const statusAndCode = ({ status, body }: Reply) => [status, body?.error?.code]

test('queries: a query is saved, replaced by name or id, listed by name and deleted', async () => {
  const first = await call('POST', '/saved', { name: 'users', sql: 'select 1', description: 'all of them' })
  assert.equal(first.status, 201)
  assert.deepEqual(
    [first.body.name, first.body.sql, first.body.description],
    ['users', 'select 1', 'all of them'],
  )
  const replaced = await call('POST', '/saved', { name: 'users', sql: 'select 2' })
  assert.deepEqual(
    [replaced.body.id, replaced.body.sql, replaced.body.description, replaced.body.created_at],
    [first.body.id, 'select 2', 'all of them', first.body.created_at],
  )
  const renamed = await call('POST', '/saved', {
    id: first.body.id,
    name: 'people',
    sql: 'select 3',
    description: '',
  })
  assert.deepEqual(
    [renamed.body.id, renamed.body.name, renamed.body.description],
    [first.body.id, 'people', ''],
  )
  const chosen = crypto.randomUUID()
  assert.equal(
    (await call('POST', '/saved', { id: chosen, name: 'accounts', sql: 'select 4' })).body.id,
    chosen,
  )
  const { body } = await call('GET', '/saved')
  assert.deepEqual(
    [body.queries.map(({ name }: any) => name), body.total, body.limit, body.offset],
    [['accounts', 'people'], 2, 50, 0],
  )
  assert.deepEqual((await call('GET', '/saved?limit=1&offset=1')).body.queries[0].name, 'people')
  assert.equal((await call('DELETE', `/saved/${chosen}`)).status, 204)
  assert.deepEqual(statusAndCode(await call('DELETE', `/saved/${chosen}`)), [404, 'query_not_found'])
  assert.equal((await call('GET', '/saved')).body.total, 1)
})

test('queries: a duplicate name in a project is a conflict', async () => {
  const other = (await platform.createProject()).id
  const [a, b] = [crypto.randomUUID(), crypto.randomUUID()]
  assert.equal((await call('POST', '/saved', { id: a, name: 'taken', sql: 'select 1' })).status, 201)
  assert.deepEqual(statusAndCode(await call('POST', '/saved', { id: b, name: 'taken', sql: 'select 2' })), [
    409,
    'already_exists',
  ])
  const theirs = await call('POST', '/saved', { id: a, name: 'taken', sql: 'select 3' }, { project: other })
  assert.equal(theirs.status, 201)
  assert.deepEqual(statusAndCode(await call('DELETE', `/saved/${b}`, undefined, { project: other })), [
    404,
    'query_not_found',
  ])
  assert.equal((await call('DELETE', `/saved/${a}`, undefined, { project: other })).status, 204)
  const { body } = await call('GET', '/saved')
  assert.equal(body.queries.find(({ name }: any) => name === 'taken').sql, 'select 1')
})

test('queries: concurrent saves with the same name leave one query', async () => {
  const replies = await Promise.all(
    [1, 2, 3, 4].map(n => call('POST', '/saved', { name: 'raced', sql: `select ${n}` })),
  )
  assert.deepEqual(
    replies.map(({ status }) => status),
    [201, 201, 201, 201],
  )
  assert.equal(new Set(replies.map(({ body }) => body.id)).size, 1)
})

test('queries: an invalid body is rejected', async () => {
  for (const [path, body] of [
    ['/saved', { name: 'x' }],
    ['/saved', { name: ' ', sql: 'select 1' }],
    ['/saved', { name: 'x', sql: '' }],
    ['/saved', { name: 'x', sql: 'select 1', id: 'nope' }],
    ['/saved', { name: 'x', sql: 'select 1', extra: true }],
    ['/saved', { name: 'x', sql: 'select \0' }],
    ['/history', {}],
    ['/history', { sql: 'select 1', status: 'maybe' }],
    ['/history', { sql: 'select 1', duration_ms: -1 }],
    ['/history', { sql: 'select 1', row_count: 1.5 }],
    ['/history', { sql: 'select 1', extra: 1 }],
  ] as const) {
    const reply = await call('POST', path, body)
    assert.deepEqual(statusAndCode(reply), [400, 'invalid_request'], JSON.stringify([path, body, reply.body]))
  }
})

test('queries: the history is newest first', async () => {
  const ran = await call('POST', '/history', { sql: 'select 1', duration_ms: 1.5, row_count: 3_000_000_000 })
  assert.equal(ran.status, 201)
  assert.deepEqual(
    [ran.body.status, ran.body.duration_ms, ran.body.row_count, ran.body.error],
    ['success', 1.5, 3_000_000_000, null],
  )
  const failed = await call('POST', '/history', { sql: 'selct', error: 'syntax error' })
  assert.equal(failed.body.status, 'error')
  const { body } = await call('GET', '/history')
  assert.deepEqual([body.entries.map(({ sql: text }: any) => text), body.total], [['selct', 'select 1'], 2])
  assert.deepEqual(body.entries[1], ran.body)
})

test('queries: the history keeps the last 1000 entries per project', async () => {
  const mine = (await platform.createProject()).id
  await platform.app.control.run(sql`
    insert into query_history (project_id, sql, status) select ${mine}, 'select ' || i, 'success' from generate_series(1, 1000) i`)
  await call('POST', '/history', { sql: 'the newest' }, { project: mine })
  const { body } = await call('GET', '/history?limit=1000', undefined, { project: mine })
  assert.deepEqual([body.total, body.limit, body.entries[0].sql], [1000, 100, 'the newest'])
  const last = await call('GET', '/history?offset=999', undefined, { project: mine })
  assert.deepEqual(
    last.body.entries.map(({ sql: text }: any) => text),
    ['select 2'],
  )
  assert.equal((await call('GET', '/history')).body.total, 2, 'another project keeps its own')
})

test('queries: deleting a project deletes its queries and history', async () => {
  const mine = (await platform.createProject()).id
  await call('POST', '/saved', { name: 'x', sql: 'select 1' }, { project: mine })
  await call('POST', '/history', { sql: 'select 1' }, { project: mine })
  const kept = () =>
    platform.app.control.row<{ saved: number; ran: number }>(sql`
      select (select count(*)::int from saved_queries where project_id = ${mine}) as saved,
             (select count(*)::int from query_history where project_id = ${mine}) as ran`)
  assert.deepEqual(await kept(), { saved: 1, ran: 1 })
  await platform.projects.remove({ params: { id: mine } })
  assert.deepEqual(await kept(), { saved: 0, ran: 0 })
  assert.deepEqual(statusAndCode(await call('GET', '/saved', undefined, { project: mine })), [
    404,
    'project_not_found',
  ])
})

test('queries: reads need read scope, writes need admin scope and are in the audit log', async () => {
  const { token } = await platform.platform.mintToken({ body: { name: 'read', scope: 'read' } })
  for (const path of ['/saved', '/history'])
    assert.equal((await call('GET', path, undefined, { token })).status, 200)
  for (const [method, path, body] of [
    ['POST', '/saved', { name: 'x', sql: 'select 1' }],
    ['DELETE', `/saved/${crypto.randomUUID()}`, undefined],
    ['POST', '/history', { sql: 'select 1' }],
  ] as const)
    assert.deepEqual(statusAndCode(await call(method, path, body, { token })), [403, 'insufficient_scope'])
  const { body } = await call('POST', '/saved', { name: 'audited', sql: "select 'sensitive'" })
  await call('DELETE', `/saved/${body.id}`)
  await call('POST', '/history', { sql: "select 'sensitive'" })
  const { entries } = await platform.admin.listAudit({ query: { project_id: id, limit: 3 } })
  assert.deepEqual(
    entries.map(({ action }) => action),
    ['query.recorded', 'query.deleted', 'query.saved'],
  )
  assert.equal(entries[1]!.target, body.id)
  assert.ok(!JSON.stringify(entries).includes('sensitive'))
})
