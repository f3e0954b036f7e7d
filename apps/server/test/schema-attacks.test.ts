// Unusual names, SQL in types and expressions, permissions and confirmation of the schema routes.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { errorOf, idColumn, schemaProject } from './schema-project.ts'

const { project, call, create, createTable, asOwner, tableNames } = schemaProject()

before(() => createTable({ name: 'books', columns: [idColumn, { name: 'title', type: 'text' }] }))

test('schema: names with quotes, semicolons, capitals, spaces and up to 63 bytes are kept as given', async () => {
  const names = [
    'Mixed Case',
    'with "quotes"',
    `'; drop table books; --`,
    'select',
    'tab\tand\nline',
    'données',
    '日本語テーブル',
    '😀'.repeat(15),
    'x'.repeat(63),
    '%2e%2e/../x?y#z',
    '$$',
    '\\',
  ]
  for (const name of names) {
    const table = await createTable({
      name,
      columns: [idColumn, { name: `c ${name}`.slice(0, 30), type: 'text', default: "'d'" }],
    })
    assert.equal(table.name, name)
    const path = `/tables/${encodeURIComponent(name)}`
    const added = await call('POST', `${path}/columns`, { name: 'later', type: 'int' })
    assert.equal(added.status, 201, JSON.stringify(added.body))
    const dropped = await call('DELETE', `${path}?confirm=${encodeURIComponent(name)}`)
    assert.equal(dropped.status, 204, JSON.stringify(dropped.body))
  }
  const left = await tableNames()
  assert.ok(left.includes('books'))
  for (const name of names) assert.ok(!left.includes(name))
})

test('schema: a name that Postgres would truncate does not match the table with the truncated name', async () => {
  const name = 'y'.repeat(63)
  await createTable({ name, columns: [idColumn] })
  const longer = `${'é'.repeat(31)}yy`
  await createTable({ name: longer.slice(0, 32), columns: [idColumn] })
  const cut = await call(
    'DELETE',
    `/tables/${encodeURIComponent(longer)}?confirm=${encodeURIComponent(longer)}`,
  )
  assert.equal(cut.status, 404)
  const nul = await call('DELETE', `/tables/a%00b?confirm=a%00b`)
  assert.deepEqual(errorOf(nul), [400, 'invalid_request'])
  assert.equal((await call('DELETE', `/tables/${name}y?confirm=${name}y`)).status, 400)
  assert.ok((await tableNames('?limit=100')).includes(name))
})

test('schema: confirm is checked first, also for a table or project that does not exist', async () => {
  await createTable({ name: 'kept', columns: [idColumn, { name: 'extra', type: 'int' }] })
  const queries = [
    '',
    '?confirm=',
    '?confirm=Kept',
    '?confirm=kept%20',
    '?confirm=extra',
    '?confirm=kept&cascade=true&confirm=x',
  ]
  for (const query of queries) {
    const reply = await call('DELETE', `/tables/kept${query}`)
    assert.equal(reply.status, 400, query)
    if (!query.includes('&')) {
      assert.equal(reply.body.error.code, 'confirmation_mismatch')
      assert.match(reply.body.error.message, /"kept"/)
    }
    const dropped = await call('DELETE', `/tables/kept/columns/extra${query.replace('extra', 'kept')}`)
    assert.equal(dropped.status, 400, query)
  }
  assert.deepEqual(errorOf(await call('DELETE', '/tables/nothing?confirm=other')), [
    400,
    'confirmation_mismatch',
  ])
  const nowhere = await project.platform.call(
    'DELETE',
    `/api/v1/projects/${crypto.randomUUID()}/schema/tables/kept?confirm=other`,
    { token: project.platform.adminToken },
  )
  assert.deepEqual(errorOf(nowhere), [400, 'confirmation_mismatch'])
  assert.ok((await tableNames('?limit=100')).includes('kept'))
  const { columns } = (await call('GET', '/tables?limit=100')).body.tables.find(
    (each: any) => each.name === 'kept',
  )
  assert.equal(columns.length, 2)
})

test('schema: schemas of the platform and of Postgres can be read but not changed', async () => {
  for (const schema of [
    'platform',
    'auth',
    'storage',
    'realtime',
    'pgmq',
    'extensions',
    'pg_catalog',
    'information_schema',
    'pg_toast',
  ]) {
    assert.deepEqual(errorOf(await create({ name: 'x', schema, columns: [idColumn] })), [
      403,
      'schema_reserved',
    ])
    const drop = await call('DELETE', `/tables/seen?confirm=seen&schema=${schema}`)
    assert.deepEqual(errorOf(drop), [403, 'schema_reserved'])
    const add = await call('POST', `/tables/seen/columns?schema=${schema}`, { name: 'a', type: 'int' })
    assert.deepEqual(errorOf(add), [403, 'schema_reserved'])
    const cut = await call('DELETE', `/tables/seen/columns/relid?confirm=relid&schema=${schema}`)
    assert.deepEqual(errorOf(cut), [403, 'schema_reserved'])
    assert.equal((await call('GET', `/tables?schema=${schema}&limit=1`)).status, 200)
  }
})

test('case 2: a type, default or check cannot contain another statement or clause', async () => {
  await createTable({ name: 'victim', columns: [idColumn] })
  const attacks = [
    '1); drop table victim; --',
    '1); drop table public.victim; select (1',
    "''; copy victim to program 'id'; --",
    '1), add column evil int default (2',
    '(1) /*',
    "1 -- ') \n); drop table victim",
    '$$); drop table victim; --',
    "E'\\'); drop table victim; --",
    'copy victim from program $$id$$',
    'set role postgres',
    '\\gexec',
  ]
  for (const text of attacks)
    for (const definition of [
      { type: 'int', default: text },
      { type: 'int', check: text },
      { type: 'int', generated: text },
      { type: text },
      { type: `int default ${text}` },
      { type: `int) ; drop table victim; --` },
    ]) {
      const table = await create({ name: 'attack', columns: [idColumn, { name: 'c', ...definition }] })
      assert.equal(table.status, 400, JSON.stringify([definition, table.body]))
      assert.equal(table.body.error.code, 'sql_error')
      const added = await call('POST', '/tables/victim/columns', { name: 'c', ...definition })
      assert.equal(added.status, 400, JSON.stringify([definition, added.body]))
    }
  const victim = (await call('GET', '/tables?limit=100')).body.tables.find(
    (each: any) => each.name === 'victim',
  )
  assert.equal(victim.columns.length, 1)
  assert.deepEqual(victim.checks, [])
})

test('case 2: an expression that accesses the server or another role fails when it runs', async () => {
  await createTable({ name: 'filled', columns: [idColumn] })
  await asOwner('insert into filled default values')
  const attacks = [
    "pg_read_file('/etc/passwd')",
    "pg_ls_dir('/')::text",
    "lo_import('/etc/passwd')::text",
    "set_config('role', 'postgres', false)",
    "set_config('session_authorization', 'postgres', false)",
    "set_config('session_preload_libraries', 'x', false)",
    '(select rolpassword from pg_authid limit 1)',
    "pg_read_binary_file('postgresql.conf')::text",
    'pg_switch_wal()::text',
    'pg_reload_conf()::text',
  ]
  for (const text of attacks) {
    const reply = await call('POST', '/tables/filled/columns', { name: 'loot', type: 'text', default: text })
    assert.ok([400, 403].includes(reply.status), JSON.stringify([text, reply.body]))
  }
  const { columns } = (await call('GET', '/tables?limit=100')).body.tables.find(
    (each: any) => each.name === 'filled',
  )
  assert.equal(columns.length, 1)
  // On an empty table the default does not run. It fails at the next insert.
  await createTable({
    name: 'trap',
    columns: [idColumn, { name: 'loot', type: 'text', default: attacks[0] }],
  })
  await assert.rejects(asOwner('insert into trap default values'), { code: '42501' })
})

test('schema: a session rejects text with several statements', async () => {
  const ref = await project.platform.refOf(project.id)
  await project.platform.app.databases.asOwner({ ref }, async session => {
    await session.script('create table public.alone (id int)')
    await assert.rejects(session.run(raw('select 1; drop table public.alone')), { code: '42601' })
    await assert.rejects(session.rows(raw('select 1; drop table public.alone')), { code: '42601' })
    assert.equal((await session.rows(sql`select id from public.alone`)).length, 0)
  })
})

test('case 3: a default runs as the owner and cannot see activity of other tenants', async () => {
  const other = await project.platform.createProject('other tenant')
  await createTable({
    name: 'peek',
    columns: [idColumn, { name: 'seen', type: 'text', default: 'current_database() || current_user' }],
  })
  await asOwner('insert into peek default values')
  const ref = await project.platform.refOf(project.id)
  const row = await project.platform.app.databases.asOwner({ ref }, session =>
    session.row<{ seen: string }>(sql`select seen from public.peek`),
  )
  assert.equal(row!.seen, `${ref}${ref}_owner`)
  const activity = await call('POST', '/tables/peek/columns', {
    name: 'others',
    type: 'text',
    default: '(select string_agg(query, chr(10)) from pg_stat_activity)',
  })
  assert.ok(activity.status >= 400 && activity.status < 500)
  assert.ok(!JSON.stringify(activity.body).includes(other.slug))
})

test('schema: functions and tables in public named like those of Postgres are not used', async () => {
  const mine = await project.platform.createProject()
  const ref = await project.platform.refOf(mine.id)
  await project.platform.app.databases.asOwner({ ref }, session =>
    session.script(`
      create function public.format_type(oid, integer) returns text language sql as $$ select 'mine' $$;
      create function public.to_regtype(text) returns regtype language sql as $$ select 'int'::regtype $$;
      create function public.set_config(text, text, boolean) returns text language sql as $$ select 'mine' $$;
      create table public.pg_class (relname text); create table public.pg_policy (x int)`),
  )
  const path = `/api/v1/projects/${mine.id}/schema/tables`
  const options = { token: project.platform.adminToken }
  const table = await project.platform.call('POST', path, {
    ...options,
    body: { name: 't', columns: [idColumn] },
  })
  assert.equal(table.body.columns[0].type, 'bigint')
  const wrong = await project.platform.call('POST', path, {
    ...options,
    body: { name: 'u', columns: [{ name: 'c', type: 'int) , (d int' }] },
  })
  assert.equal(wrong.status, 400)
  assert.deepEqual(
    (await project.platform.call('GET', path, options)).body.tables.map(({ name }: any) => name),
    ['pg_class', 'pg_policy', 't'],
  )
})

test('schema: reads need read scope, changes need admin scope and are audited', async () => {
  const tokenOf = async (scope: 'read' | 'deploy') =>
    (await project.platform.platform.mintToken({ body: { name: scope, scope } })).token
  for (const token of [await tokenOf('read'), await tokenOf('deploy')]) {
    assert.equal((await call('GET', '/tables', undefined, { token })).status, 200)
    assert.equal((await call('GET', '/extensions', undefined, { token })).status, 200)
    for (const [method, path, body] of [
      ['POST', '/tables', { name: 'denied', columns: [idColumn] }],
      ['DELETE', '/tables/books?confirm=books', undefined],
      ['POST', '/tables/books/columns', { name: 'denied', type: 'int' }],
      ['DELETE', '/tables/books/columns/title?confirm=title', undefined],
    ] as const)
      assert.deepEqual(errorOf(await call(method, path, body, { token })), [403, 'insufficient_scope'])
  }
  assert.equal(
    (await project.platform.call('GET', `/api/v1/projects/${project.id}/schema/tables`)).status,
    401,
  )
  await createTable({ name: 'audited', columns: [idColumn] })
  await call('POST', '/tables/audited/columns', { name: 'extra', type: 'int' })
  await call('DELETE', '/tables/audited/columns/extra?confirm=extra')
  await call('DELETE', '/tables/audited?confirm=audited')
  const { entries } = await project.platform.admin.listAudit({ query: { project_id: project.id, limit: 4 } })
  assert.deepEqual(
    entries
      .map(({ action, target }) => [action, target])
      .reverse()
      .slice(1),
    [
      ['schema.column_added', 'audited'],
      ['schema.column_dropped', 'extra'],
      ['schema.table_dropped', 'audited'],
    ],
  )
  assert.equal(entries[3]!.action, 'schema.table_created')
})

test('schema: no request of this file caused a 500 or logged its SQL', () => {
  const failures = project.platform.logged.filter(line => /"status":5\d\d|request failed/.test(line))
  assert.deepEqual(failures, [])
  assert.ok(!project.platform.logged.some(line => line.includes('/etc/passwd')))
})
