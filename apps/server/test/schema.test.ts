// Tables, columns and extensions through the management routes, on a real project database.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let id: string
before(async () => {
  platform = await startPlatform()
  id = (await platform.createProject()).id
})
after(() => platform.stop())

const call = (method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Reply> =>
  platform.call(method, `/api/v1/projects/${id}/schema${path}`, {
    token: platform.adminToken,
    ...(body !== undefined && { body }),
    ...options,
  })
const create = (body: unknown) => call('POST', '/tables', body)
const made = async (body: unknown) => {
  const reply = await create(body)
  assert.equal(reply.status, 201, JSON.stringify(reply.body))
  return reply.body
}
const asOwner = async (text: string) => {
  const ref = await platform.refOf(id)
  return platform.app.databases.asOwner({ ref }, session => session.script(text))
}
const tableNames = async (query = '') =>
  (await call('GET', `/tables${query}`)).body.tables.map(({ name }: { name: string }) => name)
const refusal = ({ status, body }: Reply) => [status, body?.error?.code]
const column = { name: 'id', type: 'bigint', identity: 'always', primary_key: true }

test('a table is created with columns, defaults, checks and references, and shown as it is', async () => {
  await made({ name: 'authors', columns: [column, { name: 'name', type: 'text', nullable: false }] })
  const books = await made({
    name: 'books',
    comment: 'what people read',
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
    ['public', 'table', true, 'what people read', null],
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

test('case 12: however it is created here, row-level security is on and anon is let in by policies only', async () => {
  const table = await made({ name: 'closed', columns: [column] })
  assert.equal(table.rls_enabled, true)
  await asOwner('create schema side')
  assert.equal((await made({ name: 'closed', schema: 'side', columns: [column] })).rls_enabled, true)
  const opened = await made({ name: 'opened', columns: [column], rls_enabled: false })
  assert.equal(opened.rls_enabled, false)
  assert.deepEqual(await tableNames('?schema=side'), ['closed'])
})

test('tables are listed by name, a page at a time, views among them', async () => {
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

test('a type can be any the owner has: enums, domains, extension types, serial', async () => {
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
  const table = await made({
    name: 'typed',
    columns: types.map((type, place) => ({ name: `c${place}`, type })),
  })
  assert.deepEqual(
    table.columns.map(({ type }: any) => type),
    ['mood', 'positive', 'citext', 'bigint', '"odd type"', 'timestamp with time zone', 'integer[]', 'jsonb'],
  )
  assert.match(table.columns[3].default, /nextval/)
})

test('a body with a field nobody knows, or without columns, is refused and nothing is made', async () => {
  const names = await tableNames()
  for (const body of [
    { name: 'x', columns: [{ ...column, nulable: true }] },
    { name: 'x', columns: [column], kolumns: [] },
    { name: 'x', columns: [] },
    { name: 'x' },
    { name: '', columns: [column] },
    { name: 'a\0b', columns: [column] },
    { name: 'x', columns: [{ name: 'c', type: ' ' }] },
    {
      name: 'x',
      columns: [{ name: 'c', type: 'int', references: { table: 'books', on_delete: 'explode' } }],
    },
    { name: 'x'.repeat(64), columns: [column] },
    { name: 'é'.repeat(32), columns: [column] },
    { name: 'x', columns: [column, { name: 'id', type: 'text' }] },
  ]) {
    const reply = await create(body)
    assert.deepEqual(refusal(reply), [400, 'invalid_request'], JSON.stringify([body, reply.body]))
  }
  assert.deepEqual(await tableNames(), names)
})

test('what Postgres complains about is told in its words, with the line of whoever wrote it', async () => {
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
  for (const [wish, status, code, message] of cases) {
    const reply = await create({ name: 'wrong', columns: [{ name: 'c', ...wish }] })
    assert.deepEqual(refusal(reply), [status, code], JSON.stringify([wish, reply.body]))
    assert.match(reply.body.error.message, message)
  }
  assert.ok(!(await tableNames()).includes('wrong'))
})

test('a table that exists is a conflict, also when two create it at once', async () => {
  await made({ name: 'once', columns: [column] })
  assert.deepEqual(refusal(await create({ name: 'once', columns: [column] })), [409, 'already_exists'])
  for (let round = 0; round < 5; round++) {
    const body = { name: `race ${round}`, columns: [column] }
    const replies = await Promise.all([create(body), create(body), create(body)])
    assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 409, 409])
    for (const reply of replies)
      if (reply.status === 409) assert.equal(reply.body.error.code, 'already_exists')
  }
})

test('names are taken as they are: quotes, semicolons, capitals, spaces, 63 bytes of any script', async () => {
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
    const table = await made({
      name,
      columns: [column, { name: `c ${name}`.slice(0, 30), type: 'text', default: "'d'" }],
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

test('a name that Postgres would cut short never meets the table it would be cut to', async () => {
  const name = 'y'.repeat(63)
  await made({ name, columns: [column] })
  const longer = `${'é'.repeat(31)}yy`
  await made({ name: longer.slice(0, 32), columns: [column] })
  const cut = await call(
    'DELETE',
    `/tables/${encodeURIComponent(longer)}?confirm=${encodeURIComponent(longer)}`,
  )
  assert.equal(cut.status, 404)
  const nul = await call('DELETE', `/tables/a%00b?confirm=a%00b`)
  assert.deepEqual(refusal(nul), [400, 'invalid_request'])
  assert.equal((await call('DELETE', `/tables/${name}y?confirm=${name}y`)).status, 400)
  assert.ok((await tableNames('?limit=100')).includes(name))
})

test('the echo is compared before anything else: also for a table or project that does not exist', async () => {
  await made({ name: 'kept', columns: [column, { name: 'extra', type: 'int' }] })
  const asked = [
    '',
    '?confirm=',
    '?confirm=Kept',
    '?confirm=kept%20',
    '?confirm=extra',
    '?confirm=kept&cascade=true&confirm=x',
  ]
  for (const query of asked) {
    const reply = await call('DELETE', `/tables/kept${query}`)
    assert.equal(reply.status, 400, query)
    if (!query.includes('&')) {
      assert.equal(reply.body.error.code, 'confirmation_mismatch')
      assert.match(reply.body.error.message, /"kept"/)
    }
    const dropped = await call('DELETE', `/tables/kept/columns/extra${query.replace('extra', 'kept')}`)
    assert.equal(dropped.status, 400, query)
  }
  assert.deepEqual(refusal(await call('DELETE', '/tables/nothing?confirm=other')), [
    400,
    'confirmation_mismatch',
  ])
  const nowhere = await platform.call(
    'DELETE',
    `/api/v1/projects/${crypto.randomUUID()}/schema/tables/kept?confirm=other`,
    { token: platform.adminToken },
  )
  assert.deepEqual(refusal(nowhere), [400, 'confirmation_mismatch'])
  assert.ok((await tableNames('?limit=100')).includes('kept'))
  const { columns } = (await call('GET', '/tables?limit=100')).body.tables.find(
    (each: any) => each.name === 'kept',
  )
  assert.equal(columns.length, 2)
})

test('what does not exist is 404, and a near name is suggested', async () => {
  const table = await call('DELETE', '/tables/boks?confirm=boks')
  assert.deepEqual(refusal(table), [404, 'table_not_found'])
  assert.match(table.body.error.message, /Perhaps you meant "books"/)
  const missing = await call('DELETE', '/tables/books/columns/titel?confirm=titel')
  assert.deepEqual(refusal(missing), [404, 'column_not_found'])
  assert.match(missing.body.error.message, /Perhaps you meant "title"/)
  const schema = await call('GET', '/tables?schema=publik')
  assert.deepEqual(refusal(schema), [404, 'schema_not_found'])
  assert.match(schema.body.error.message, /Perhaps you meant "public"/)
  assert.deepEqual(refusal(await create({ name: 'x', schema: 'publik', columns: [column] })), [
    404,
    'schema_not_found',
  ])
  assert.deepEqual(refusal(await call('POST', '/tables/boks/columns', { name: 'a', type: 'int' })), [
    404,
    'table_not_found',
  ])
  const project = await platform.call('GET', `/api/v1/projects/${crypto.randomUUID()}/schema/tables`, {
    token: platform.adminToken,
  })
  assert.deepEqual(refusal(project), [404, 'project_not_found'])
})

test('what others depend on stays, and they are named, unless cascade is asked for', async () => {
  await made({ name: 'base', columns: [column, { name: 'label', type: 'text' }] })
  await made({ name: 'leaf', columns: [{ name: 'base_id', type: 'bigint', references: { table: 'base' } }] })
  await asOwner('create view labels as select label from base')
  const table = await call('DELETE', '/tables/base?confirm=base')
  assert.deepEqual(refusal(table), [409, 'has_dependants'])
  assert.match(table.body.error.message, /leaf_base_id_fkey.*view labels|view labels.*leaf_base_id_fkey/s)
  assert.match(table.body.error.message, /cascade=true/)
  const label = await call('DELETE', '/tables/base/columns/label?confirm=label')
  assert.deepEqual(refusal(label), [409, 'has_dependants'])
  assert.match(label.body.error.message, /view labels/)
  assert.equal((await call('DELETE', '/tables/base/columns/label?confirm=label&cascade=true')).status, 204)
  assert.ok(!(await tableNames('?limit=100')).includes('labels'))
  assert.equal((await call('DELETE', '/tables/base?confirm=base&cascade=true')).status, 204)
  const leaf = (await call('GET', '/tables?limit=100')).body.tables.find((each: any) => each.name === 'leaf')
  assert.deepEqual(leaf.foreign_keys, [])
})

test('columns are added and dropped; rows that do not fit are a conflict that says so', async () => {
  await made({ name: 'grown', columns: [column] })
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
  assert.deepEqual(refusal(again), [409, 'already_exists'])
  const empty = await call('POST', '/tables/grown/columns', { name: 'must', type: 'int', nullable: false })
  assert.deepEqual(refusal(empty), [409, 'constraint_violated'])
  assert.match(empty.body.error.message, /give a default/)
  assert.equal(
    (await call('POST', '/tables/grown/columns', { name: 'may', type: 'int' })).body.nullable,
    true,
  )
  assert.equal((await call('DELETE', '/tables/grown/columns/note?confirm=note')).status, 204)
  assert.deepEqual(refusal(await call('DELETE', '/tables/grown/columns/note?confirm=note')), [
    404,
    'column_not_found',
  ])
})

test('a table that somebody works with is busy, not a failure of ours', async () => {
  await made({ name: 'held', columns: [column] })
  const ref = await platform.refOf(id)
  await platform.app.databases.asOwner({ ref }, async session => {
    await session.script('begin')
    await session.run(sql`lock table public.held in access share mode`)
    const reply = await call('DELETE', '/tables/held?confirm=held')
    assert.deepEqual(refusal(reply), [409, 'object_busy'])
    await session.script('rollback')
  })
  assert.equal((await call('DELETE', '/tables/held?confirm=held')).status, 204)
})

test('the schemas of the platform and of Postgres can be looked at and not changed', async () => {
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
    assert.deepEqual(refusal(await create({ name: 'x', schema, columns: [column] })), [
      403,
      'schema_reserved',
    ])
    const drop = await call('DELETE', `/tables/seen?confirm=seen&schema=${schema}`)
    assert.deepEqual(refusal(drop), [403, 'schema_reserved'])
    const add = await call('POST', `/tables/seen/columns?schema=${schema}`, { name: 'a', type: 'int' })
    assert.deepEqual(refusal(add), [403, 'schema_reserved'])
    const cut = await call('DELETE', `/tables/seen/columns/relid?confirm=relid&schema=${schema}`)
    assert.deepEqual(refusal(cut), [403, 'schema_reserved'])
    assert.equal((await call('GET', `/tables?schema=${schema}&limit=1`)).status, 200)
  }
})

test('case 2: no text given for a type, default or check becomes a further statement or more than it is', async () => {
  await made({ name: 'victim', columns: [column] })
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
    for (const wish of [
      { type: 'int', default: text },
      { type: 'int', check: text },
      { type: 'int', generated: text },
      { type: text },
      { type: `int default ${text}` },
      { type: `int) ; drop table victim; --` },
    ]) {
      const table = await create({ name: 'attack', columns: [column, { name: 'c', ...wish }] })
      assert.equal(table.status, 400, JSON.stringify([wish, table.body]))
      assert.equal(table.body.error.code, 'sql_error')
      const added = await call('POST', '/tables/victim/columns', { name: 'c', ...wish })
      assert.equal(added.status, 400, JSON.stringify([wish, added.body]))
    }
  const victim = (await call('GET', '/tables?limit=100')).body.tables.find(
    (each: any) => each.name === 'victim',
  )
  assert.equal(victim.columns.length, 1)
  assert.deepEqual(victim.checks, [])
})

test('case 2: an expression that reaches for the server or another role is refused when it runs', async () => {
  await made({ name: 'filled', columns: [column] })
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
  // On an empty table nothing runs: the default is the owner's to write, and fails whoever uses it.
  await made({ name: 'trap', columns: [column, { name: 'loot', type: 'text', default: attacks[0] }] })
  await assert.rejects(asOwner('insert into trap default values'), { code: '42501' })
})

test('a session takes one statement at a time, whatever text it is given', async () => {
  const ref = await platform.refOf(id)
  await platform.app.databases.asOwner({ ref }, async session => {
    await session.script('create table public.alone (id int)')
    await assert.rejects(session.run(raw('select 1; drop table public.alone')), { code: '42601' })
    await assert.rejects(session.rows(raw('select 1; drop table public.alone')), { code: '42601' })
    assert.equal((await session.rows(sql`select id from public.alone`)).length, 0)
  })
})

test('case 3: a default sees no more of other tenants than the owner does', async () => {
  const other = await platform.createProject('secretive neighbour')
  await made({
    name: 'peek',
    columns: [column, { name: 'seen', type: 'text', default: 'current_database() || current_user' }],
  })
  await asOwner('insert into peek default values')
  const ref = await platform.refOf(id)
  const row = await platform.app.databases.asOwner({ ref }, session =>
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

test('a tenant’s own functions and operators in public do not get in the way', async () => {
  const mine = await platform.createProject()
  const ref = await platform.refOf(mine.id)
  await platform.app.databases.asOwner({ ref }, session =>
    session.script(`
      create function public.format_type(oid, integer) returns text language sql as $$ select 'mine' $$;
      create function public.to_regtype(text) returns regtype language sql as $$ select 'int'::regtype $$;
      create function public.set_config(text, text, boolean) returns text language sql as $$ select 'mine' $$;
      create table public.pg_class (relname text); create table public.pg_policy (x int)`),
  )
  const path = `/api/v1/projects/${mine.id}/schema/tables`
  const options = { token: platform.adminToken }
  const table = await platform.call('POST', path, { ...options, body: { name: 't', columns: [column] } })
  assert.equal(table.body.columns[0].type, 'bigint')
  const wrong = await platform.call('POST', path, {
    ...options,
    body: { name: 'u', columns: [{ name: 'c', type: 'int) , (d int' }] },
  })
  assert.equal(wrong.status, 400)
  assert.deepEqual(
    (await platform.call('GET', path, options)).body.tables.map(({ name }: any) => name),
    ['pg_class', 'pg_policy', 't'],
  )
})

test('extensions: those installed with their schema, and those the owner may install', async () => {
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

test('reads need read scope and changes admin scope; every change is in the audit', async () => {
  const tokenOf = async (scope: 'read' | 'deploy') =>
    (await platform.platform.mintToken({ body: { name: scope, scope } })).token
  for (const token of [await tokenOf('read'), await tokenOf('deploy')]) {
    assert.equal((await call('GET', '/tables', undefined, { token })).status, 200)
    assert.equal((await call('GET', '/extensions', undefined, { token })).status, 200)
    for (const [method, path, body] of [
      ['POST', '/tables', { name: 'denied', columns: [column] }],
      ['DELETE', '/tables/books?confirm=books', undefined],
      ['POST', '/tables/books/columns', { name: 'denied', type: 'int' }],
      ['DELETE', '/tables/books/columns/title?confirm=title', undefined],
    ] as const)
      assert.deepEqual(refusal(await call(method, path, body, { token })), [403, 'insufficient_scope'])
  }
  assert.equal((await platform.call('GET', `/api/v1/projects/${id}/schema/tables`)).status, 401)
  await made({ name: 'audited', columns: [column] })
  await call('POST', '/tables/audited/columns', { name: 'extra', type: 'int' })
  await call('DELETE', '/tables/audited/columns/extra?confirm=extra')
  await call('DELETE', '/tables/audited?confirm=audited')
  const { entries } = await platform.admin.listAudit({ query: { project_id: id, limit: 4 } })
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

test('a suspended project can still be shaped; the id may be written in capitals', async () => {
  const mine = await platform.createProject()
  await platform.projects.suspend({ params: { id: mine.id } })
  const path = `/api/v1/projects/${mine.id.toUpperCase()}/schema/tables`
  const body = { name: 't', columns: [column] }
  assert.equal((await platform.call('POST', path, { token: platform.adminToken, body })).status, 201)
})

test('nothing of the above left a 500, or the owner’s SQL, in the log', () => {
  const failures = platform.logged.filter(line => /"status":5\d\d|request failed/.test(line))
  assert.deepEqual(failures, [])
  assert.ok(!platform.logged.some(line => line.includes('/etc/passwd')))
})
