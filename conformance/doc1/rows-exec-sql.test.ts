// 1 §4.1 rule 7, REST contract §6 row 20 and Clarifications "Rows": arbitrary SQL, only for service_role.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertErrorBody, assertRefused, type Caller, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `create table public.secrets (id int primary key, word text);
     insert into public.secrets values (1, 'hush');`,
    { isOpen: false },
  )
})
after(() => it.stop())

const user: Caller = { sub: '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11' }
const run = (sql: unknown, as: Caller = 'service_role', shape: 'native' | 'alias' = 'native') =>
  rows.post('rpc/exec_sql', { sql }, { as, shape })

test('1 §4.1 exec_sql returns the rows of the last statement and bypasses row-level security', async () => {
  for (const shape of ['native', 'alias'] as const) {
    const reply = await run('select * from public.secrets', 'service_role', shape)
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(reply.body, [{ id: 1, word: 'hush' }])
  }
  assert.deepEqual((await run('select 1 as a; select 2 as b, null as c')).body, [{ b: 2, c: null }])
  assert.deepEqual((await run('select \'{"a":[1]}\'::jsonb as j, array[1,2] as l, true as t')).body, [
    { j: { a: [1] }, l: [1, 2], t: true },
  ])
})

test('1 §4.1 a last statement without rows returns an empty array', async () => {
  for (const sql of [
    'create table public.made (a int)',
    'insert into public.made values (1)',
    'drop table public.made',
  ]) {
    const reply = await run(sql)
    assert.equal(reply.status, 200, `${sql}: ${reply.text}`)
    assert.deepEqual(reply.body, [])
  }
  assert.deepEqual((await run('select 1 as a where false')).body, [])
  assert.deepEqual((await run("insert into public.secrets values (9, 'x') returning id")).body, [{ id: 9 }])
  await run('delete from public.secrets where id = 9')
})

test('1 §4.1 only service_role may call exec_sql', async () => {
  for (const as of ['anon', user] as const)
    for (const shape of ['native', 'alias'] as const) {
      const reply = await run('select * from public.secrets', as, shape)
      assert.equal(reply.status, 403, reply.text)
      assertErrorBody(reply)
    }
  const bearer = await it.call('POST', `/v1/rest/${rows.project.id}/rpc/exec_sql`, {
    apikey: rows.project.anon_key,
    token: rows.project.service_role_key,
    body: { sql: 'select 1 as one' },
  })
  assert.deepEqual(bearer.body, [{ one: 1 }])
})

test('1 §4.1 a failing script returns its SQLSTATE and is rolled back', async () => {
  assertRefused(await run('selec 1'), 400, '42601')
  assertRefused(await run('select * from public.nowhere'), 404, '42P01')
  assertRefused(await run('insert into public.secrets values (1, null)'), 409, '23505')
  assertRefused(await run("insert into public.secrets values (2, 'x'); select 1 / 0"), 400, '22012')
  assert.deepEqual((await run('select id from public.secrets')).body, [{ id: 1 }])
})

test('REST contract §6 row 20: a body without a statement returns 400', async () => {
  for (const body of ['{', '{}', '[]', '{"sql":5}', '{"sql":null}', '{"query":"select 1"}', '']) {
    const reply = await rows.post('rpc/exec_sql', body, { as: 'service_role' })
    assert.equal(reply.status, 400, `${body}: ${reply.status} ${reply.text}`)
    assertErrorBody(reply)
  }
})

test('1 §4.1 exec_sql requires POST', async () => {
  for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE']) {
    const reply = await rows.ask(method, 'rpc/exec_sql?sql=select 1', { as: 'service_role' })
    assert.ok([404, 405].includes(reply.status), `${method}: ${reply.status}`)
  }
})

test('REST contract §6 row 20: a function with the name exec_sql does not replace it', async () => {
  await rows.ddl(`
    create function public.exec_sql(sql text) returns text language sql as $$ select 'shadow' $$;
    grant execute on function public.exec_sql(text) to anon, authenticated`)
  assert.deepEqual((await run('select 1 as a')).body, [{ a: 1 }])
  for (const as of ['anon', user] as const) {
    const reply = await run('select 1', as)
    assert.equal(reply.status, 403, reply.text)
    assert.doesNotMatch(reply.text, /shadow/)
  }
  const read = await rows.get('rpc/exec_sql?sql=x')
  assert.doesNotMatch(read.text, /shadow/)
})

test('1 §4.1 settings of a script end with it', async () => {
  await run(
    'set search_path = pg_catalog; set role none; select set_config(\'request.jwt.claims\', \'{"sub":"x"}\', false)',
  )
  const [{ path, claims }] = (
    await run(
      "select current_setting('search_path') as path, coalesce(current_setting('request.jwt.claims', true), '') as claims",
    )
  ).body
  assert.notEqual(path, 'pg_catalog')
  assert.doesNotMatch(claims, /"sub"/)
})

test('case 2: a script can access neither the host nor another role', async () => {
  for (const sql of [
    "copy public.secrets from program 'id'",
    "copy (select 1) to '/tmp/x'",
    "select pg_read_file('/etc/passwd')",
    "select * from pg_ls_dir('/')",
    "select lo_import('/etc/passwd')",
    "alter system set log_statement = 'all'",
    "load 'auto_explain'",
    'set role postgres',
    'create role intruder superuser',
    'create extension plpython3u',
  ]) {
    const reply = await run(sql)
    assert.ok(reply.status >= 400, `${sql}: ${reply.status} ${reply.text}`)
    assertErrorBody(reply)
  }
})

test('case 48: 40,000 statements run, and more than 100,000 return 400', async () => {
  const reply = await run(`${'select 1;'.repeat(40_000)} select 2 as two`)
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(reply.body, [{ two: 2 }])
  const refused = await run(`insert into public.secrets values (3, 'x');${'select 1;'.repeat(100_000)}`)
  assert.equal(refused.status, 400, refused.text)
  assertErrorBody(refused)
  assert.match(refused.body.message, /100000 statements/)
  assert.deepEqual((await run('select id from public.secrets where id = 3')).body, [])
})

test('case 48: many rows, and rows of megabytes, arrive complete and in order', async () => {
  const many = await run(
    `select i, case when i % 2 = 0 then 'é' end as word from generate_series(1, 100000) i`,
  )
  assert.equal(many.status, 200)
  assert.deepEqual(
    many.body,
    Array.from({ length: 100_000 }, (_, at) => ({ i: at + 1, word: at % 2 === 1 ? 'é' : null })),
  )
  const large = await run(
    `select i, repeat('é"', 500000) as text, array_agg(j) as list, jsonb_agg(repeat('x', j % 10)) as json
       from generate_series(1, 2) i, generate_series(1, 100000) j group by i order by i`,
  )
  assert.equal(large.status, 200)
  for (const [at, row] of large.body.entries()) {
    assert.equal(row.i, at + 1)
    assert.equal(row.text, 'é"'.repeat(500_000))
    assert.deepEqual([row.list.length, row.json.length], [100_000, 100_000])
  }
})

test('case 48: a response over 64 MB, or a row over 16 MB, returns 400 with a hint', async () => {
  const wide = Array.from({ length: 1000 }, (_, at) => `null as ${'n'.repeat(58)}${at}`).join(', ')
  for (const sql of [
    `select repeat('x', 1000000) from generate_series(1, 100)`,
    // Few bytes in the Postgres protocol, many as JSON.
    `select ${wide} from generate_series(1, 5000)`,
  ]) {
    const reply = await run(sql)
    assert.equal(reply.status, 400, reply.text.slice(0, 200))
    assertErrorBody(reply)
    assert.match(reply.body.message, /64 MB/)
    assert.match(reply.body.hint, /limit/)
  }
  const row = await run(`select repeat('x', 100000000)`)
  assert.equal(row.status, 400, row.text.slice(0, 200))
  assertErrorBody(row)
  assert.match(row.body.message, /16 MB/)
  assert.deepEqual((await run('select 1 as a')).body, [{ a: 1 }])
})
