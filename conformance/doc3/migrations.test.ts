// 3 §4 "Schema, database, RLS": db/push, db/migrations and db/reset.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, listAll, mintToken, someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

interface Sent {
  version: string
  name?: string
  sql: string
}
const push = (id: string, ...migrations: Sent[]) =>
  it.manage('POST', `/projects/${id}/db/push`, { migrations })
const applied = (id: string) => listAll(it, `/projects/${id}/db/migrations?`, 'migrations')
const tables = async (id: string) =>
  (await it.manage('GET', `/projects/${id}/schema/tables`)).body.tables
    .map(({ name }: { name: string }) => name)
    .sort()
const versions = (list: { version: string }[]) => list.map(({ version }) => version)

test('3 §4: migrations are applied in order, and a second push applies nothing', async () => {
  const { id } = await createProject(it)
  const migrations = [
    { version: '20240102000000', name: 'column', sql: 'alter table books add column title text;' },
    { version: '20240101000000', name: 'books', sql: 'create table books (id int primary key);' },
  ]
  const first = await push(id, ...migrations)
  assert.equal(first.status, 200, first.text)
  assert.deepEqual(versions(first.body.applied), ['20240101000000', '20240102000000'])
  const entry = await auditOf(it, 'db.pushed', first)
  assert.equal(entry.project_id, id)
  const second = await push(id, ...migrations)
  assert.deepEqual([second.status, second.body.applied], [200, []])
  assert.deepEqual(versions(second.body.skipped), ['20240101000000', '20240102000000'])
  const listed = await applied(id)
  assert.deepEqual(
    listed.map(({ version, name }) => [version, name]),
    [
      ['20240101000000', 'books'],
      ['20240102000000', 'column'],
    ],
  )
  for (const { checksum, applied_at } of listed) {
    assert.match(checksum, /^[0-9a-f]{64}$/)
    assert.ok(!Number.isNaN(Date.parse(applied_at)))
  }
})

test('3 §4: an applied migration that has changed is refused, and nothing of the push is applied', async () => {
  const { id } = await createProject(it)
  await push(id, { version: '1', sql: 'create table a (id int)' })
  const refused = await push(
    id,
    { version: '1', sql: 'create table a ()' },
    { version: '2', sql: 'create table b ()' },
  )
  assertManagementError(refused, 'migration_changed')
  assert.match(refused.body.error.message, /\b1\b/)
  assert.deepEqual(await tables(id), ['a'])
})

test('3 §4: a failing migration is rolled back and reported with version, name, line and statement', async () => {
  const { id } = await createProject(it)
  const failed = await push(
    id,
    { version: '1', name: 'good', sql: 'create table a ()' },
    { version: '2', name: 'bad', sql: 'create table b ();\n-- then\ninsert into nowhere values (1);' },
    { version: '3', name: 'later', sql: 'create table c ()' },
  )
  assertManagementError(failed, 'migration_failed')
  const { message } = failed.body.error
  assert.match(message, /2 \(bad\) failed at line 3: relation "nowhere" does not exist/)
  assert.match(message, /insert into nowhere values \(1\)/)
  assert.deepEqual(await tables(id), ['a'])
  assert.deepEqual(versions(await applied(id)), ['1'])
})

test('3 §4: a first line -- no-transaction runs outside a transaction', async () => {
  const { id } = await createProject(it)
  const inside = await push(
    id,
    { version: '1', sql: 'create table t (a int)' },
    { version: '2', sql: 'create index concurrently on t (a)' },
  )
  assertManagementError(inside, 'migration_failed')
  const outside = await push(id, {
    version: '2',
    sql: '-- no-transaction\ncreate index concurrently on t (a)',
  })
  assert.equal(outside.status, 200, outside.text)
})

test('3 §4: two concurrent pushes apply each migration once', async () => {
  const { id } = await createProject(it)
  const migrations = ['1', '2', '3'].map(version => ({
    version,
    sql: `create table t${version} (); select pg_sleep(0.05)`,
  }))
  const replies = await Promise.all([
    push(id, ...migrations),
    push(id, ...migrations),
    push(id, ...migrations),
  ])
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200, 200],
  )
  assert.equal(replies.flatMap(({ body }) => body.applied).length, 3)
  assert.deepEqual(versions(await applied(id)), ['1', '2', '3'])
})

test('3 §4: real folders expect a schema extensions and a publication supabase_realtime', async () => {
  const { id } = await createProject(it)
  const pushed = await push(id, {
    version: '1',
    sql: `create extension if not exists "uuid-ossp" with schema extensions;
      create table public.t (id uuid primary key default extensions.uuid_generate_v4());
      alter publication supabase_realtime add table public.t;
      create policy "own" on public.t for select to authenticated using (auth.uid() = id);`,
  })
  assert.equal(pushed.status, 200, pushed.text)
})

test('3 §4: a reset drops the tables and applies the given migrations', async () => {
  const { id } = await createProject(it)
  const migration = { version: '1', sql: 'create table a (id int)' }
  await push(id, migration)
  const emptied = await it.manage('POST', `/projects/${id}/db/reset`, {})
  assert.equal(emptied.status, 200, emptied.text)
  assert.deepEqual([await tables(id), await applied(id)], [[], []])
  await auditOf(it, 'db.reset', emptied)
  await push(id, migration)
  const again = await it.manage('POST', `/projects/${id}/db/reset`, { reapply: true })
  assert.deepEqual([again.status, versions(again.body.applied), await tables(id)], [200, ['1'], ['a']])
  const wrong = await it.manage('POST', `/projects/${id}/db/reset`, { confirm: 'something else' })
  assertManagementError(wrong, 'confirmation_mismatch')
  assert.deepEqual(await tables(id), ['a'])
})

test('3 §5: push needs deploy scope, list read scope and reset admin scope', async () => {
  const { id } = await createProject(it)
  const [read, deploy] = await Promise.all([mintToken(it, 'read'), mintToken(it, 'deploy')])
  const as = (token: string | undefined, method: string, path: string, body?: unknown) =>
    it.call(method, `/api/v1/projects/${id}${path}`, { ...(token && { token }), body })
  const none = { migrations: [] }
  assertManagementError(await as(undefined, 'POST', '/db/push', none), 'unauthorized')
  assertManagementError(await as(read.token, 'POST', '/db/push', none), 'insufficient_scope')
  assert.equal((await as(read.token, 'GET', '/db/migrations')).status, 200)
  assert.equal((await as(deploy.token, 'POST', '/db/push', none)).status, 200)
  assertManagementError(await as(deploy.token, 'POST', '/db/reset', {}), 'insufficient_scope')
  assertManagementError(await push(someId), 'project_not_found')
})

test('3 §4: migrations run as the owner, never as superuser', async () => {
  const { id } = await createProject(it)
  for (const attack of [
    `copy t from program 'id'`,
    `select pg_read_file('/etc/passwd')`,
    `select lo_import('/etc/passwd')`,
    `alter system set work_mem = '1GB'`,
    `load 'auto_explain'`,
    'create extension dblink',
    'set role service_role',
    'set session authorization postgres',
  ]) {
    const reply = await push(id, { version: '1', sql: `create table t (a text);\n${attack}` })
    assertManagementError(reply, 'migration_failed')
    assert.match(reply.body.error.message, /line 2/)
  }
  assert.deepEqual(await tables(id), [])
})

test('3 §4: types are generated from the current schema', async () => {
  const { id } = await createProject(it)
  await push(id, { version: '1', sql: 'create table books (id int primary key, title text not null)' })
  const { status, body } = await it.manage('GET', `/projects/${id}/types/typescript`)
  assert.equal(status, 200)
  assert.match(body.types, /books: \{\n\s+Row: \{\n\s+id: number\n\s+title: string\n/)
  const drizzle = await it.manage('GET', `/projects/${id}/types/drizzle`)
  assert.match(drizzle.body.types, /export const books = pgTable\("books"/)
})
