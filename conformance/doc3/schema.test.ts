// 3 §4 "Schema, database, RLS": tables, columns and extensions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, type CreatedProject, createProject, mintToken, someId } from '../people.ts'
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
  it.call(method, `/api/v1/projects/${project.id}/schema${path}`, { token, body })
const create = (name: string, columns: unknown[] = [id]) => call('POST', '/tables', { name, columns })
const names = async () => (await call('GET', '/tables?limit=100')).body.tables.map((each: any) => each.name)
const id = { name: 'id', type: 'uuid', default: 'gen_random_uuid()', primary_key: true }

test('3 §4 a created table is listed with columns, primary key, foreign keys, indexes and row estimate', async () => {
  assert.equal((await create('shelves')).status, 201)
  const made = await create('books', [
    id,
    { name: 'title', type: 'text', nullable: false },
    { name: 'price', type: 'numeric(8,2)', default: '0', check: 'price >= 0' },
    { name: 'shelf_id', type: 'uuid', references: { table: 'shelves', column: 'id', on_delete: 'SET NULL' } },
  ])
  assert.equal(made.status, 201, made.text)
  const { status, body } = await call('GET', '/tables')
  assert.equal(status, 200)
  assert.deepEqual([body.total, body.limit, body.offset], [2, 50, 0])
  const books = body.tables.find((each: any) => each.name === 'books')
  assert.deepEqual(books, made.body)
  assert.deepEqual(
    books.columns.map(({ name, type, nullable }: any) => [name, type, nullable]),
    [
      ['id', 'uuid', false],
      ['title', 'text', false],
      ['price', 'numeric(8,2)', true],
      ['shelf_id', 'uuid', true],
    ],
  )
  assert.deepEqual(books.primary_key, ['id'])
  assert.equal(books.foreign_keys[0].referenced_table, 'shelves')
  assert.equal(books.foreign_keys[0].on_delete, 'SET NULL')
  assert.ok(books.indexes.some((each: any) => each.unique && each.columns.join() === 'id'))
  assert.ok('row_estimate' in books)
})

test('3 §4 RLS is on by default', async () => {
  const { body } = await create('guarded')
  assert.equal(body.rls_enabled, true)
  const status = await it.manage('GET', `/projects/${project.id}/rls/status`)
  assert.equal(status.body.tables.find((each: any) => each.table === 'guarded').enabled, true)
})

test('3 §4 a destructive schema route needs a confirm echo equal to the path segment, checked first', async () => {
  await create('echoed', [id, { name: 'note', type: 'text' }])
  for (const echo of ['', '?confirm=', '?confirm=Echoed', '?confirm=other', '?confirm=echoed%20'])
    assertManagementError(await call('DELETE', `/tables/echoed${echo}`), 'confirmation_mismatch', /echoed/)
  for (const echo of ['', '?confirm=', '?confirm=NOTE', '?confirm=echoed'])
    assertManagementError(await call('DELETE', `/tables/echoed/columns/note${echo}`), 'confirmation_mismatch')
  assertManagementError(await call('DELETE', '/tables/absent?confirm=echoed'), 'confirmation_mismatch')
  const { body } = await call('GET', '/tables?limit=100')
  const kept = body.tables.find((each: any) => each.name === 'echoed')
  assert.deepEqual(
    kept.columns.map((each: any) => each.name),
    ['id', 'note'],
  )
  assert.equal((await call('DELETE', '/tables/echoed/columns/note?confirm=note')).status, 204)
  assert.equal((await call('DELETE', '/tables/echoed?confirm=echoed')).status, 204)
  assert.ok(!(await names()).includes('echoed'))
})

test('3 §4 a column is added with name, type and nullable, and dropped', async () => {
  await create('grown')
  const added = await call('POST', '/tables/grown/columns', { name: 'age', type: 'integer', nullable: false })
  assert.equal(added.status, 201, added.text)
  assert.deepEqual([added.body.name, added.body.type, added.body.nullable], ['age', 'integer', false])
  assert.equal(
    (await call('POST', '/tables/grown/columns', { name: 'note', type: 'text', nullable: true })).status,
    201,
  )
  assert.equal((await call('DELETE', '/tables/grown/columns/age?confirm=age')).status, 204)
  assertManagementError(await call('DELETE', '/tables/grown/columns/age?confirm=age'), 'column_not_found')
})

test('3 §4 a missing object is 404 with a suggestion, a duplicate 409, an invalid definition 400', async () => {
  await create('present')
  assertManagementError(await call('DELETE', '/tables/presnt?confirm=presnt'), 'table_not_found', /"present"/)
  assertManagementError(await create('present'), 'already_exists')
  assertManagementError(await create('bad', [{ name: 'a', type: 'no such type' }]), 'sql_error')
  assertManagementError(await create('bad', []), 'invalid_request')
  assertManagementError(
    await call('POST', '/tables', { name: 'bad', columns: [id], more: 1 }),
    'invalid_request',
    /more/,
  )
  const unknown = await it.manage('GET', `/projects/${someId}/schema/tables`)
  assertManagementError(unknown, 'project_not_found')
  assert.ok(!(await names()).includes('bad'))
})

test('3 §4 no field of a definition can inject a statement', async () => {
  await create('target')
  for (const text of ['1); drop table target; --', '1; drop table target', "''; copy target to program 'id'"])
    for (const fields of [{ type: text }, { type: 'int', default: text }, { type: 'int', check: text }]) {
      assertManagementError(await create('attack', [id, { name: 'a', ...fields }]), 'sql_error')
      assertManagementError(
        await call('POST', '/tables/target/columns', { name: 'a', ...fields }),
        'sql_error',
      )
    }
  assert.ok((await names()).includes('target'))
  assert.ok(!(await names()).includes('attack'))
})

test('3 §4 extensions are listed, installed ones with version and schema', async () => {
  const { status, body } = await call('GET', '/extensions?limit=100')
  assert.equal(status, 200)
  const installed = body.extensions.filter((each: any) => each.installed_version !== null)
  assert.ok(installed.some((each: any) => each.name === 'plpgsql' && each.schema === 'pg_catalog'))
  assert.ok(body.extensions.length > installed.length)
})

test('3 §5.1 reading the schema needs read scope, changing it admin scope', async () => {
  await create('scoped')
  const { token } = await mintToken(it, 'read')
  const deploy = (await mintToken(it, 'deploy')).token
  assert.equal((await call('GET', '/tables', undefined, token)).status, 200)
  assert.equal((await call('GET', '/extensions', undefined, token)).status, 200)
  for (const each of [token, deploy]) {
    assertNeedsScope(await call('POST', '/tables', { name: 'x', columns: [id] }, each), 'admin')
    assertNeedsScope(await call('DELETE', '/tables/scoped?confirm=scoped', undefined, each), 'admin')
    assertNeedsScope(await call('POST', '/tables/scoped/columns', { name: 'a', type: 'int' }, each), 'admin')
    assertNeedsScope(await call('DELETE', '/tables/scoped/columns/id?confirm=id', undefined, each), 'admin')
  }
  assert.equal((await it.call('GET', `/api/v1/projects/${project.id}/schema/tables`)).status, 401)
  const key = await it.call('GET', `/api/v1/projects/${project.id}/schema/tables`, {
    token: project.service_role_key,
  })
  assert.equal(key.status, 401, 'keys of the data plane are not valid here')
})

test('3 §1 a change of the schema is audited', async () => {
  const reply = await create('recorded')
  const entry = await auditOf(it, 'schema.table_created', reply)
  assert.equal(entry.project_id, project.id)
  const dropped = await call('DELETE', '/tables/recorded?confirm=recorded')
  assert.equal((await auditOf(it, 'schema.table_dropped', dropped)).target, 'recorded')
})

test('3 §8 a page of tables is capped at 100', async () => {
  const { body } = await call('GET', '/tables?limit=100000&offset=1')
  assert.deepEqual([body.limit, body.offset], [100, 1])
  assert.equal(body.tables.length, body.total - 1)
})
