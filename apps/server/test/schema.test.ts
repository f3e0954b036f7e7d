// Tables, columns and extensions through the management routes, on a real project database.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { errorOf, idColumn, schemaProject } from './schema-project.ts'

const { project, call, create, createTable, asOwner, tableNames } = schemaProject()

test('schema: a created table is returned and listed with its columns, defaults, checks and references', async () => {
  await createTable({ name: 'authors', columns: [idColumn, { name: 'name', type: 'text', nullable: false }] })
  const books = await createTable({
    name: 'books',
    comment: 'published books',
    columns: [
      { name: 'id', type: 'uuid', default: 'gen_random_uuid()', primary_key: true },
      {
        name: 'author_id',
        type: 'bigint',
        references: { table: 'authors', column: 'id', on_delete: 'cascade' },
      },
      { name: 'title', type: 'varchar(200)', nullable: false, unique: true, comment: 'on the cover' },
      { name: 'price', type: 'numeric(10,2)', default: 0, check: 'price >= 0' },
      { name: 'in_print', type: 'boolean', default: true },
      { name: 'tags', type: 'text[]', default: "'{}'" },
      { name: 'slug', type: 'text', generated: "lower(replace(title::text, ' ', '-'))" },
    ],
    unique: [['author_id', 'title']],
    checks: ['char_length(title) > 0', 'price < 1000 or in_print'],
  })
  assert.deepEqual(books.primary_key, ['id'])
  assert.deepEqual(
    books.columns.map((each: any) => [each.name, each.type, each.nullable, each.default]),
    [
      ['id', 'uuid', false, 'gen_random_uuid()'],
      ['author_id', 'bigint', true, null],
      ['title', 'character varying(200)', false, null],
      ['price', 'numeric(10,2)', true, '0'],
      ['in_print', 'boolean', true, 'true'],
      ['tags', 'text[]', true, "'{}'::text[]"],
      ['slug', 'text', true, null],
    ],
  )
  assert.match(books.columns[6].generated, /lower\(/)
  assert.equal(books.columns[2].comment, 'on the cover')
  assert.deepEqual(books.foreign_keys, [
    {
      name: 'books_author_id_fkey',
      columns: ['author_id'],
      referenced_schema: 'public',
      referenced_table: 'authors',
      referenced_columns: ['id'],
      on_delete: 'CASCADE',
      on_update: 'NO ACTION',
    },
  ])
  assert.deepEqual(
    books.indexes.map((each: any) => [each.columns, each.unique, each.primary]),
    [
      [['author_id', 'title'], true, false],
      [['id'], true, true],
      [['title'], true, false],
    ],
  )
  assert.equal(books.checks.length, 3)
  assert.deepEqual(
    [books.schema, books.kind, books.rls_enabled, books.comment, books.row_estimate],
    ['public', 'table', true, 'published books', null],
  )
  const listed = await call('GET', '/tables')
  assert.deepEqual(
    listed.body.tables.find((each: any) => each.name === 'books'),
    books,
  )
  assert.deepEqual([listed.body.total, listed.body.limit, listed.body.offset], [2, 50, 0])
  const authors = listed.body.tables.find((each: any) => each.name === 'authors')
  assert.deepEqual(authors.columns[0].identity, 'always')

  await asOwner(`insert into authors (name) select 'n' || i from generate_series(1, 50) i; analyze authors`)
  const counted = (await call('GET', '/tables')).body.tables.find((each: any) => each.name === 'authors')
  assert.equal(counted.row_estimate, 50)
})

test('case 12: row-level security is on for created tables in any schema unless rls_enabled is false', async () => {
  const table = await createTable({ name: 'closed', columns: [idColumn] })
  assert.equal(table.rls_enabled, true)
  await asOwner('create schema side')
  assert.equal((await createTable({ name: 'closed', schema: 'side', columns: [idColumn] })).rls_enabled, true)
  const opened = await createTable({ name: 'opened', columns: [idColumn], rls_enabled: false })
  assert.equal(opened.rls_enabled, false)
  assert.deepEqual(await tableNames('?schema=side'), ['closed'])
})

test('schema: tables and views are listed by name in pages', async () => {
  await asOwner(`create schema many; create view many.v as select 1 as one, 'x'::text as two;
    create materialized view many.m as select 2 as two;
    create table many.p (k int) partition by list (k); create table many.p1 partition of many.p for values in (1);
    create index on many.p1 ((k + 1)) where k > 0`)
  const all = await call('GET', '/tables?schema=many')
  assert.deepEqual(
    all.body.tables.map(({ name, kind }: any) => [name, kind]),
    [
      ['m', 'materialized_view'],
      ['p', 'partitioned_table'],
      ['p1', 'table'],
      ['v', 'view'],
    ],
  )
  assert.deepEqual(all.body.tables[2].indexes[0].columns, ['(k + 1)'])
  const page = await call('GET', '/tables?schema=many&limit=2&offset=1')
  assert.deepEqual(
    [page.body.tables.map(({ name }: any) => name), page.body.total, page.body.limit, page.body.offset],
    [['p', 'p1'], 4, 2, 1],
  )
})

test('schema: a column can have an enum, domain, extension or serial type', async () => {
  await asOwner(`create type public.mood as enum ('sad', 'happy'); create domain public.positive as int check (value > 0);
    create extension if not exists citext schema extensions; create type public."odd type" as (a int)`)
  const types = [
    'mood',
    'positive',
    'citext',
    'bigserial',
    '"odd type"',
    'timestamp with time zone',
    'int[][]',
    'jsonb',
  ]
  const table = await createTable({
    name: 'typed',
    columns: types.map((type, place) => ({ name: `c${place}`, type })),
  })
  assert.deepEqual(
    table.columns.map(({ type }: any) => type),
    ['mood', 'positive', 'citext', 'bigint', '"odd type"', 'timestamp with time zone', 'integer[]', 'jsonb'],
  )
  assert.match(table.columns[3].default, /nextval/)
})

test('schema: a body with unknown or invalid fields is rejected and creates nothing', async () => {
  const names = await tableNames()
  for (const body of [
    { name: 'x', columns: [{ ...idColumn, nulable: true }] },
    { name: 'x', columns: [idColumn], kolumns: [] },
    { name: 'x', columns: [] },
    { name: 'x' },
    { name: '', columns: [idColumn] },
    { name: 'a\0b', columns: [idColumn] },
    { name: 'x', columns: [{ name: 'c', type: ' ' }] },
    {
      name: 'x',
      columns: [{ name: 'c', type: 'int', references: { table: 'books', on_delete: 'explode' } }],
    },
    { name: 'x'.repeat(64), columns: [idColumn] },
    { name: 'é'.repeat(32), columns: [idColumn] },
    { name: 'x', columns: [idColumn, { name: 'id', type: 'text' }] },
  ]) {
    const reply = await create(body)
    assert.deepEqual(errorOf(reply), [400, 'invalid_request'], JSON.stringify([body, reply.body]))
  }
  assert.deepEqual(await tableNames(), names)
})

test('schema: an SQL error is returned with the message of Postgres and the failing line', async () => {
  const cases: [object, number, string, RegExp][] = [
    [
      { type: 'nummeric' },
      400,
      'sql_error',
      /Column "c": there is no type "nummeric"\. Perhaps you meant "numeric"/,
    ],
    [{ type: 'numeric(2' }, 400, 'sql_error', /Column "c": "numeric\(2" is not the name of a type/],
    [{ type: 'varchar(0)' }, 400, 'sql_error', /varchar|length/],
    [{ type: 'int', default: 'nextt(1)' }, 400, 'sql_error', /nextt.*42883.*line \d+: default \(nextt\(1\)/],
    [{ type: 'int', check: 'c >' }, 400, 'sql_error', /syntax error.*42601/],
    [{ type: 'int', check: 'd > 0' }, 400, 'sql_error', /column "d" does not exist/],
    [{ type: 'int', check: '(select 1) = 1' }, 400, 'sql_error', /subquery/],
    [
      { type: 'int', references: { table: 'bookz' } },
      400,
      'sql_error',
      /relation "public.bookz" does not exist/,
    ],
    [{ type: 'int', default: "'x'" }, 400, 'sql_error', /invalid input syntax/],
  ]
  for (const [definition, status, code, message] of cases) {
    const reply = await create({ name: 'wrong', columns: [{ name: 'c', ...definition }] })
    assert.deepEqual(errorOf(reply), [status, code], JSON.stringify([definition, reply.body]))
    assert.match(reply.body.error.message, message)
  }
  assert.ok(!(await tableNames()).includes('wrong'))
})

test('schema: creating a table that exists is a conflict, also for concurrent requests', async () => {
  await createTable({ name: 'once', columns: [idColumn] })
  assert.deepEqual(errorOf(await create({ name: 'once', columns: [idColumn] })), [409, 'already_exists'])
  for (let round = 0; round < 5; round++) {
    const body = { name: `race ${round}`, columns: [idColumn] }
    const replies = await Promise.all([create(body), create(body), create(body)])
    assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 409, 409])
    for (const reply of replies)
      if (reply.status === 409) assert.equal(reply.body.error.code, 'already_exists')
  }
})

test('schema: a missing table, column or schema is 404 with a suggestion of a similar name', async () => {
  const table = await call('DELETE', '/tables/boks?confirm=boks')
  assert.deepEqual(errorOf(table), [404, 'table_not_found'])
  assert.match(table.body.error.message, /Perhaps you meant "books"/)
  const missing = await call('DELETE', '/tables/books/columns/titel?confirm=titel')
  assert.deepEqual(errorOf(missing), [404, 'column_not_found'])
  assert.match(missing.body.error.message, /Perhaps you meant "title"/)
  const schema = await call('GET', '/tables?schema=publik')
  assert.deepEqual(errorOf(schema), [404, 'schema_not_found'])
  assert.match(schema.body.error.message, /Perhaps you meant "public"/)
  assert.deepEqual(errorOf(await create({ name: 'x', schema: 'publik', columns: [idColumn] })), [
    404,
    'schema_not_found',
  ])
  assert.deepEqual(errorOf(await call('POST', '/tables/boks/columns', { name: 'a', type: 'int' })), [
    404,
    'table_not_found',
  ])
  const missingProject = await project.platform.call(
    'GET',
    `/api/v1/projects/${crypto.randomUUID()}/schema/tables`,
    {
      token: project.platform.adminToken,
    },
  )
  assert.deepEqual(errorOf(missingProject), [404, 'project_not_found'])
})

test('schema: dropping an object with dependants fails and names them, unless cascade is true', async () => {
  await createTable({ name: 'base', columns: [idColumn, { name: 'label', type: 'text' }] })
  await createTable({
    name: 'leaf',
    columns: [{ name: 'base_id', type: 'bigint', references: { table: 'base' } }],
  })
  await asOwner('create view labels as select label from base')
  const table = await call('DELETE', '/tables/base?confirm=base')
  assert.deepEqual(errorOf(table), [409, 'has_dependants'])
  assert.match(table.body.error.message, /leaf_base_id_fkey.*view labels|view labels.*leaf_base_id_fkey/s)
  assert.match(table.body.error.message, /cascade=true/)
  const label = await call('DELETE', '/tables/base/columns/label?confirm=label')
  assert.deepEqual(errorOf(label), [409, 'has_dependants'])
  assert.match(label.body.error.message, /view labels/)
  assert.equal((await call('DELETE', '/tables/base/columns/label?confirm=label&cascade=true')).status, 204)
  assert.ok(!(await tableNames('?limit=100')).includes('labels'))
  assert.equal((await call('DELETE', '/tables/base?confirm=base&cascade=true')).status, 204)
  const leaf = (await call('GET', '/tables?limit=100')).body.tables.find((each: any) => each.name === 'leaf')
  assert.deepEqual(leaf.foreign_keys, [])
})

test('schema: columns are added and dropped, and a column that existing rows violate is a conflict', async () => {
  await createTable({ name: 'grown', columns: [idColumn] })
  await asOwner('insert into grown default values')
  const added = await call('POST', '/tables/grown/columns', {
    name: 'note',
    type: 'text',
    nullable: false,
    default: "'-'",
    check: "note <> ''",
    comment: 'why',
  })
  assert.equal(added.status, 201)
  assert.deepEqual(added.body, {
    name: 'note',
    type: 'text',
    nullable: false,
    default: "'-'::text",
    identity: null,
    generated: null,
    comment: 'why',
  })
  const again = await call('POST', '/tables/grown/columns', { name: 'note', type: 'text' })
  assert.deepEqual(errorOf(again), [409, 'already_exists'])
  const empty = await call('POST', '/tables/grown/columns', { name: 'must', type: 'int', nullable: false })
  assert.deepEqual(errorOf(empty), [409, 'constraint_violated'])
  assert.match(empty.body.error.message, /give a default/)
  assert.equal(
    (await call('POST', '/tables/grown/columns', { name: 'may', type: 'int' })).body.nullable,
    true,
  )
  assert.equal((await call('DELETE', '/tables/grown/columns/note?confirm=note')).status, 204)
  assert.deepEqual(errorOf(await call('DELETE', '/tables/grown/columns/note?confirm=note')), [
    404,
    'column_not_found',
  ])
})

test('schema: changing a locked table is 409 object_busy', async () => {
  await createTable({ name: 'held', columns: [idColumn] })
  const ref = await project.platform.refOf(project.id)
  await project.platform.app.databases.asOwner({ ref }, async session => {
    await session.script('begin')
    await session.run(sql`lock table public.held in access share mode`)
    const reply = await call('DELETE', '/tables/held?confirm=held')
    assert.deepEqual(errorOf(reply), [409, 'object_busy'])
    await session.script('rollback')
  })
  assert.equal((await call('DELETE', '/tables/held?confirm=held')).status, 204)
})

test('schema: extensions lists installed ones with their schema and those the owner may install', async () => {
  const { body } = await call('GET', '/extensions?limit=100')
  const named = (name: string) => body.extensions.find((each: any) => each.name === name)
  assert.deepEqual([named('citext').schema, named('citext').installed_version !== null], ['extensions', true])
  assert.equal(named('plpgsql').schema, 'pg_catalog')
  assert.deepEqual([named('hstore').installed_version, named('hstore').schema], [null, null])
  assert.match(named('hstore').default_version, /^\d/)
  assert.ok(named('hstore').comment)
  for (const name of ['dblink', 'postgres_fdw', 'file_fdw', 'plperl', 'plpython3u', 'adminpack'])
    assert.equal(named(name), undefined, name)
  assert.equal(body.total, body.extensions.length)
  const page = await call('GET', '/extensions?limit=1&offset=1')
  assert.deepEqual(page.body.extensions, [body.extensions[1]])
  assert.equal(page.body.total, body.total)
  await asOwner('create extension hstore schema extensions')
})

test('schema: tables of a suspended project can be changed, and the id is case-insensitive', async () => {
  const mine = await project.platform.createProject()
  await project.platform.projects.suspend({ params: { id: mine.id } })
  const path = `/api/v1/projects/${mine.id.toUpperCase()}/schema/tables`
  const body = { name: 't', columns: [idColumn] }
  assert.equal(
    (await project.platform.call('POST', path, { token: project.platform.adminToken, body })).status,
    201,
  )
})

test('schema: no request of this file caused a 500', () => {
  const failures = project.platform.logged.filter(line => /"status":5\d\d|request failed/.test(line))
  assert.deepEqual(failures, [])
})
