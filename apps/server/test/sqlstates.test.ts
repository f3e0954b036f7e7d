// Case 53: no SQLSTATE raised by SQL of a tenant is an internal error of the platform. The owner gets a 4xx with the text of
// Postgres, and so do callers of the row API, except for the codes that it documents as 5xx.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform({
    settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_RATE_LIMIT_ANON: '0' },
  })
  project = await platform.createProject()
  const made = await execSql(`
    create function raise_state(state text) returns void language plpgsql as $$ begin
      raise exception 'raised %', state using errcode = state, detail = 'the detail', hint = 'the hint';
    end $$;
    create table guarded (state text);
    alter table guarded disable row level security;
    create function guard() returns trigger language plpgsql as $$ begin
      perform raise_state(new.state); return new;
    end $$;
    create trigger guard before insert on guarded for each row execute function guard()`)
  assert.equal(made.status, 200, JSON.stringify(made.body))
})
after(() => platform?.stop())

const rest = (path: string, body: unknown, apikey = project.anon_key) =>
  platform.call('POST', `/v1/rest/${project.id}/${path}`, { apikey, body })
const execSql = (sql: string) => rest('rpc/exec_sql', { sql }, project.service_role_key)
const manage = (method: string, path: string, body?: unknown) =>
  platform.call(method, `/api/v1/projects/${project.id}${path}`, { token: platform.adminToken, body })
let version = 0
const push = (sql: string) =>
  manage('POST', '/db/push', { migrations: [{ version: String(++version), sql }] })

const states = `
  03000 08000 08003 08006 08P01 09000 0A000 0B000 0F000 0L000 0P000 20000 21000 22000 22012 22023 22P02 23000 23502 23503
  23505 23514 23P01 24000 25000 25001 25006 25P02 25P03 26000 27000 28000 28P01 2B000 2BP01 2D000 2F000 34000 38000 39000
  3B000 3D000 3F000 40000 40001 40P01 42000 42501 42601 42703 42883 42P01 42P17 44000 53000 53100 53200 53300 53400 54000
  54001 54023 55000 55006 55P03 57000 57014 57P01 57P02 57P03 58000 58030 58P01 58P02 72000 F0000 F0001 HV000 HV00N P0000
  P0001 P0002 P0003 P0004 XX000 XX001 XX002 PT500 PT599 PT200 PGRST ABCDE 99999`
  .trim()
  .split(/\s+/)

/** Codes with a 5xx: those that the database itself may raise (503), and those in the contract of the row API. */
const documented = /^(57014|40...|54...|PT5..|08...|53[0-3]..|57P01|PGRST)$/

for (const state of states) {
  test(`SQLSTATE ${state}: a statement of the owner gets a 4xx with its text`, async () => {
    const call = `select raise_state('${state}')`
    const executed = await execSql(call)
    assert.ok(executed.status >= 400 && executed.status < 500, `exec_sql answers ${executed.status}`)
    assert.deepEqual(
      [executed.body.code, executed.body.message, executed.body.details, executed.body.hint],
      [state, `raised ${state}`, 'the detail', 'the hint'],
    )
    const pushed = await push(call)
    assert.equal(pushed.status, 400, JSON.stringify(pushed.body))
    assert.equal(pushed.body.error.code, 'migration_failed')
    assert.match(pushed.body.error.message, new RegExp(`line 1: raised ${state} \\(SQLSTATE ${state}\\)`))
  })

  test(`SQLSTATE ${state}: a caller gets no undocumented 5xx`, async () => {
    for (const reply of [
      await rest('rpc/raise_state', { state }),
      await rest('guarded', { state }),
      await rest('guarded', { state }, project.service_role_key),
    ]) {
      if (documented.test(state)) assert.ok(reply.status >= 400, `${reply.status}`)
      else if (state === 'PT200') assert.equal(reply.status, 200)
      else
        assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status} ${JSON.stringify(reply.body)}`)
      if (!documented.test(state)) assert.equal(reply.body.message, `raised ${state}`)
    }
  })
}

test('SQL errors: errors of Postgres in a statement of the owner are a 4xx with its text', async () => {
  const cases: [string, RegExp][] = [
    // Infinite recursion of policies, of functions, of rules.
    [
      `create table p (a int); create policy p on p using (exists (select from p)); alter table p force row level security; select * from p`,
      /infinite recursion/,
    ],
    [
      `create function deep(i int) returns int language plpgsql as 'begin return deep(i + 1); end'; select deep(1)`,
      /stack depth/,
    ],
    [`set statement_timeout = 50; select pg_sleep(5)`, /statement timeout/],
    [`set transaction_timeout = 50; select pg_sleep(5)`, /transaction timeout/],
    [`select ${'('.repeat(20_000)}1${')'.repeat(20_000)}`, /stack depth|memory/],
    [`select repeat('x', 1073741824)`, /length too large|invalid memory/],
    [`select '\\u0000'::jsonb`, /unsupported|Unicode|invalid/],
  ]
  for (const [sql, text] of cases) {
    const executed = await execSql(sql)
    assert.ok(executed.status >= 400 && executed.status < 500, `${sql.slice(0, 80)}: ${executed.status}`)
    assert.match(executed.body.message, text)
    const pushed = await push(sql)
    assert.equal(pushed.status, 400, `${sql.slice(0, 80)}: ${JSON.stringify(pushed.body)}`)
    assert.match(pushed.body.error.message, text)
  }
})

test('SQL errors: an error text of megabytes is truncated', async () => {
  const huge = `do $$ begin raise exception '%', repeat('x', 3000000) using detail = repeat('y', 3000000); end $$`
  await execSql(`create function huge() returns void language plpgsql as
    $f$ begin raise exception '%', repeat('x', 3000000) using detail = repeat('y', 3000000); end $f$`)
  for (const reply of [await execSql(huge), await push(huge), await rest('rpc/huge', {})]) {
    assert.equal(reply.status, 400)
    const length = JSON.stringify(reply.body).length
    assert.ok(length > 1000 && length < 1_000_000, String(length))
  }
})

test('SQL errors: a row of more than 16 MB is rejected', async () => {
  const fitting = await execSql(`select repeat('x', 15000000) as a, 1 as b`)
  assert.deepEqual([fitting.status, fitting.body[0].a.length, fitting.body[0].b], [200, 15_000_000, 1])
  const tooLarge = await execSql(`select repeat('x', 10000000) as a, repeat('y', 10000000) as b`)
  assert.deepEqual([tooLarge.status, tooLarge.body.code], [400, 'sql_error'])
  assert.match(tooLarge.body.message, /more than 16 MB/)
  // The limit does not apply to the total of rows and notices.
  const many =
    await execSql(`do $$ begin for i in 1..20 loop raise notice '%', repeat('n', 1000000); end loop; end $$;
    select length(repeat('x', 1000000)) from generate_series(1, 20)`)
  assert.equal(many.status, 200)
})

test('SQL errors: errors contain no paths of the server', async () => {
  for (const sql of [
    'create extension plperl',
    'create extension plpython3u',
    'create extension nowhere',
    'create extension "../../nowhere"',
    `create extension hstore version 'no'`,
    `load 'nowhere'`,
    `load '$libdir/plugins/nowhere'`,
    `create function f() returns int language c as '$libdir/nowhere'`,
    `copy (select 1) to 'nowhere'`,
    `select pg_read_file('nowhere')`,
    `select lo_import('nowhere')`,
    `create text search dictionary d (template = simple, stopwords = nowhere)`,
    `create text search dictionary d (template = ispell, dictfile = nowhere, afffile = nowhere)`,
    `set timezone = '/nowhere/at/all'; select now()`,
    `set dynamic_library_path = '/nowhere'`,
  ]) {
    const executed = await execSql(sql)
    assert.ok(executed.status >= 400 && executed.status < 500, `${sql}: ${executed.status}`)
    const pushed = await push(sql)
    assert.equal(pushed.status, 400, `${sql}: ${JSON.stringify(pushed.body)}`)
    const scheduled = JSON.stringify([executed.body, pushed.body]).replaceAll(sql, '')
    assert.doesNotMatch(scheduled.replaceAll('/nowhere/at/all', ''), /[^\w.$]\/\w+\/\w+/, sql)
  }
})

test('SQL errors: a path in a text of the tenant is kept', async () => {
  const text = 'see "/docs/errors/my file" and /home/guides'
  const raised = await execSql(`do $$ begin raise exception '${text}' using errcode = '58P01'; end $$`)
  assert.equal(raised.body.message, text)
  const cast = await execSql(`select '/a/b/c'::int`)
  assert.match(cast.body.message, /"\/a\/b\/c"/)
})
