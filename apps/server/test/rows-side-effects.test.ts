// A request that is planned again after a schema change has its side effects once. A rollback does not undo nextval.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let first: TestPlatform
let second: TestPlatform
let project: CreatedProject
let ref: string

before(async () => {
  const settings = { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_STATEMENT_TIMEOUT_MS: '120000' }
  first = await startPlatform({ settings })
  second = await startPlatform({ settings, beside: first })
  project = await first.createProject()
  ref = await first.refOf(project.id)
  await ddl(`
    create sequence calls;
    grant usage, select on sequence calls to service_role;
    create function count_calls() returns bigint language sql as $$ select nextval('calls') $$;
    create function count_rows() returns table (n bigint) language sql as $$ select nextval('calls') $$;
    create table numbered (id bigint default nextval('calls') primary key, name text);
    create function fail_late() returns int language plpgsql as $$ begin
      perform nextval('calls');
      perform pg_advisory_xact_lock(15);
      raise exception using errcode = '22P02', message = 'failed late';
    end $$`)
})
after(async () => {
  await second?.stop()
  await first?.stop()
})

const rows = (platform: TestPlatform, method: string, path: string, body?: unknown) =>
  platform.call(method, `/v1/rest/${project.id}/${path}`, { apikey: project.service_role_key, body })

async function ddl(text: string): Promise<void> {
  const { status, body } = await rows(second, 'POST', 'rpc/exec_sql', { sql: text })
  assert.equal(status, 200, JSON.stringify(body))
}

const calls = async () => {
  const [row] = await first.asSuperuser(ref, session =>
    session.rows<{ calls: string }>(
      sql`select case when is_called then last_value else 0 end as calls from public.calls`,
    ),
  )
  return Number(row!.calls)
}

let changes = 0
const changeSchema = () => ddl(`create table change_${changes++} (id int)`)

for (const [what, method, path, body] of [
  ['a function that returns a value', 'POST', 'rpc/count_calls', {}],
  ['a function that returns rows', 'POST', 'rpc/count_rows?select=n', {}],
  ['an insert of a row', 'POST', 'numbered', { name: 'a' }],
  ['an insert of a default row', 'POST', 'numbered', {}],
  ['an insert of default rows', 'POST', 'numbered', [{}]],
] as const)
  test(`side effects: ${what} has them once when the schema has changed since it was planned`, async () => {
    const request = () => rows(first, method, path, body)
    assert.ok((await request()).status < 300)
    const before = await calls()
    await changeSchema()
    const { status } = await request()
    assert.ok(status < 300, String(status))
    assert.equal((await calls()) - before, 1)
  })

test('side effects: a function that fails after a schema change is not called again', async () => {
  const before = await calls()
  const failed = await first.asSuperuser(ref, async session => {
    await session.script('select pg_advisory_lock(15)')
    const calling = rows(first, 'POST', 'rpc/fail_late', {})
    await eventually(
      async () =>
        (
          await session.rows(
            sql`select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`,
          )
        ).length > 0,
      'the function waits for the lock',
    )
    await changeSchema()
    await session.script('select pg_advisory_unlock(15)')
    return calling
  })
  assert.deepEqual([failed.status, failed.body.message], [400, 'failed late'])
  assert.equal((await calls()) - before, 1)
})
