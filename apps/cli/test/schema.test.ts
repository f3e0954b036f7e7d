// Tables, policies and connection strings, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory, writeIn } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
let slug: string
let id: string
before(async () => {
  platform = await startPlatform()
  const project = await platform.createProject('Library')
  slug = project.slug
  id = project.id
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const plinth = (args: string[], options: RunOptions = {}) => {
  const env = {
    PLATFORM_URL: platform.url,
    PLATFORM_TOKEN: platform.adminToken,
    PLATFORM_PROJECT: slug,
    ...options.env,
  }
  return run(args, { cwd, ...options, env })
}
const done = async (args: string[], options: RunOptions = {}) => {
  const ran = await plinth(args, options)
  assert.equal(ran.code, 0, ran.stdout + ran.stderr)
  return ran.json?.data ?? ran.stdout
}
const failed = async (args: string[], options: RunOptions = {}) => {
  const ran = await plinth(args, options)
  assert.equal(ran.code, 1, ran.stdout)
  return ran.json.error
}
const columns = [
  { name: 'id', type: 'bigint', identity: 'by_default', primary_key: true },
  { name: 'title', type: 'text', nullable: false },
]

test('schema table create: from a list of columns, an object or standard input', async () => {
  writeIn(cwd, 'books.json', columns)
  const books = await done(['schema', 'table', 'create', '--name', 'books', '--from', 'books.json'])
  assert.deepEqual([books.name, books.rls_enabled, books.primary_key], ['books', true, ['id']])
  writeIn(cwd, 'authors.json', { name: 'ignored', columns, comment: 'who writes', unique: [['title']] })
  const authors = await done(['schema', 'table', 'create', '--name', 'authors', '--from', 'authors.json'])
  assert.deepEqual([authors.name, authors.comment], ['authors', 'who writes'])
  const input = JSON.stringify({ columns })
  await done(['schema', 'table', 'create', '--name', 'piped', '--from', '-'], { input })

  const { tables, total } = await done(['schema', 'tables'])
  assert.deepEqual([tables.map(({ name }: any) => name), total], [['authors', 'books', 'piped'], 3])
  const shown = (await plinth(['schema', 'tables', '-o', 'text'])).stdout
  assert.match(shown, /NAME +KIND +COLUMNS +PRIMARY KEY/)
  assert.match(shown, /books +table +2 +id +- +on/)
  const one = (await plinth(['schema', 'tables', 'books', '-o', 'text'])).stdout
  assert.match(one, /id +bigint +no +identity \(by default\)/)
  assert.match(one, /Indexes\n.*books_pkey/)
  assert.equal((await failed(['schema', 'tables', 'bokos'])).code, 'table_not_found')
})

test('schema table create: unreadable and invalid files fail, and errors of the server are shown', async () => {
  const create = ['schema', 'table', 'create', '--name', 'x', '--from']
  assert.equal((await failed([...create, 'absent.json'])).code, 'file_unreadable')
  writeIn(cwd, 'broken.json', '{"columns": [')
  assert.equal((await failed([...create, 'broken.json'])).code, 'file_invalid')
  writeIn(cwd, 'text.json', '"columns"')
  assert.equal((await failed([...create, 'text.json'])).code, 'file_invalid')
  writeIn(cwd, 'wrong.json', [{ name: 'a', type: 'nummeric' }])
  const wrong = await failed([...create, 'wrong.json'])
  assert.equal(wrong.code, 'sql_error')
  assert.match(wrong.message, /Perhaps you meant "numeric"/)
  writeIn(cwd, 'extra.json', { columns, colour: 'red' })
  assert.match((await failed([...create, 'extra.json'])).message, /unknown field "colour"/)
})

test('schema column: add, not null unless --nullable, and drop', async () => {
  const add = ['schema', 'column', 'add', '--table', 'books', '--type', 'int', '--name']
  assert.equal((await done([...add, 'pages', '--nullable'])).nullable, true)
  assert.equal((await done([...add, 'weight', '--nullable', 'true'])).nullable, true)
  assert.equal((await done([...add, 'rank', '--nullable', 'false', '--default', '0'])).nullable, false)
  const year = await done([...add, 'year', '--default', "date_part('year', now())::int"])
  assert.deepEqual([year.nullable, /date_part|EXTRACT/.test(year.default)], [false, true])
  await done(['schema', 'column', 'drop', '--table', 'books', '--name', 'pages', '--confirm', 'pages'])
  const again = await failed([
    'schema',
    'column',
    'drop',
    '--table',
    'books',
    '--name',
    'pages',
    '--confirm',
    'pages',
  ])
  assert.equal(again.code, 'column_not_found')
})

test('schema drop: sends no request without the right --confirm', async () => {
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  const drops = [
    ['schema', 'table', 'drop', '--name', 'books'],
    ['schema', 'column', 'drop', '--table', 'books', '--name', 'title'],
  ]
  for (const drop of drops) {
    assert.equal((await failed(drop, { env })).code, 'confirmation_missing')
    assert.equal((await failed([...drop, '--yes'], { env })).code, 'confirmation_missing')
    const wrong = await failed([...drop, '--confirm', 'Books'], { env })
    assert.equal(wrong.code, 'confirmation_mismatch')
    assert.match(wrong.suggestion, /--confirm (books|title)/)
  }
  assert.equal(proxy.requests.length, 0)
  await done(['schema', 'table', 'drop', '--name', 'piped', '--confirm', 'piped'], { env })
  assert.ok(proxy.requests.includes(`DELETE /api/v1/projects/${id}/schema/tables/piped?confirm=piped`))
})

test('schema table drop: quotes names, and needs --cascade for dependants', async () => {
  const name = 'odd "name"; --'
  await done(['schema', 'table', 'create', '--name', name, '--from', '-'], { input: JSON.stringify(columns) })
  await done(['schema', 'table', 'create', '--name', 'leaf', '--from', '-'], {
    input: JSON.stringify([{ name: 'of', type: 'bigint', references: { table: name } }]),
  })
  const drop = ['schema', 'table', 'drop', '--name', name, '--confirm', name]
  const held = await failed(drop)
  assert.equal(held.code, 'has_dependants')
  assert.match(held.suggestion, /--cascade/)
  await done([...drop, '--cascade'])
})

test('schema extensions: lists extensions', async () => {
  const { extensions } = await done(['schema', 'extensions'])
  assert.ok(extensions.some(({ name }: any) => name === 'pgcrypto'))
  assert.match((await plinth(['schema', 'extensions', '-o', 'text'])).stdout, /plpgsql +1\.0 +pg_catalog/)
})

test('rls: enable, disable, create, list, test and drop policies', async () => {
  const off = await plinth(['rls', 'disable', '--table', 'authors', '-o', 'text'])
  assert.match(off.stdout, /off: every role sees every row/)
  const status = await plinth(['rls', 'status', '-o', 'text'])
  assert.match(status.stdout, /authors +no +no +0/)
  assert.match(status.stderr, /Every role sees every row of authors/)
  assert.equal((await done(['rls', 'enable', '--table', 'authors'])).enabled, true)

  const create = ['rls', 'policy', 'create', '--table', 'books']
  const made = await done([
    ...create,
    '--name',
    'short',
    '--command',
    'select',
    '--using',
    'char_length(title) < 4',
    '--role',
    'anon, authenticated',
  ])
  assert.deepEqual([made.command, made.roles, made.permissive], ['SELECT', ['anon', 'authenticated'], true])
  await done([
    ...create,
    '--name',
    'strict',
    '--command',
    'INSERT',
    '--with-check',
    `title <> ''`,
    '--restrictive',
  ])
  const wrong = await failed([...create, '--name', 'no', '--command', 'INSERT', '--using', 'true'])
  assert.match(wrong.message, /"with_check" instead of "using"/)
  assert.equal((await done(['rls', 'policies'])).total, 2)
  assert.equal((await done(['rls', 'policies', '--table', 'authors'])).total, 0)
  assert.match(
    (await plinth(['rls', 'policies', '-o', 'text'])).stdout,
    /books +strict +INSERT +public +restrictive/,
  )

  const ref = await platform.refOf(id)
  await platform.app.databases.asOwner({ ref }, session =>
    session.script(`insert into books (title) values ('abc'), ('abcdef')`),
  )
  const tried = await done(['rls', 'test', '--table', 'books', '--role', 'anon'])
  assert.deepEqual(
    tried.rows.map(({ row, allowed }: any) => [row.title, allowed]),
    [
      ['abc', true],
      ['abcdef', false],
    ],
  )
  const text = (
    await plinth(['rls', 'test', '--table', 'books', '--role', 'authenticated', '--user', 'u1', '-o', 'text'])
  ).stdout
  assert.match(text, /authenticated u1: SELECT passes for 1 of 2 tested rows\. The test was rolled back/)
  assert.match(text, /PASSES +short +ERROR +ROW/)
  const insert = ['rls', 'test', '--table', 'books', '--role', 'anon', '--command', 'insert', '--row']
  assert.equal((await done([...insert, '{"title":"new"}'])).rows[0].allowed, false)
  assert.equal((await failed([...insert, '[1]'])).code, 'usage_invalid_value')
  assert.equal((await failed(['rls', 'test', '--table', 'books', '--role', 'root'])).code, 'invalid_request')

  await done(['rls', 'policy', 'drop', '--table', 'books', '--name', 'strict'])
  const gone = await failed(['rls', 'policy', 'drop', '--table', 'books', '--name', 'strict'])
  assert.equal(gone.code, 'policy_not_found')
})

test('projects pooler: shows the connection string, and the platform audits it', async () => {
  const strings = await done(['projects', 'pooler', slug])
  assert.deepEqual([strings.project_id, strings.enabled, strings.pooled], [id, false, null])
  assert.match(strings.direct, /^postgres:\/\/p_\w+_owner:[^@]+@127\.0\.0\.1:\d+\/p_\w+$/)
  const shown = await plinth(['projects', 'pooler', slug, '-o', 'text'])
  assert.ok(shown.stdout.includes(strings.direct))
  assert.match(shown.stdout, /pooled +no pooler is configured\n +read-only +no replica is configured/)
  const { entries } = await platform.admin.listAudit({ query: { project_id: id, limit: 1 } })
  assert.equal(entries[0]!.action, 'project.connection_strings_revealed')
})

test('projects pooler: shows the strings of the pooler and the replica', async () => {
  const node = await startPlatform({
    beside: platform,
    settings: {
      PLATFORM_POOLER_URL: 'postgres://pooler.test:6432',
      PLATFORM_REPLICA_URL: 'postgres://replica.test',
    },
  })
  try {
    const env = { PLATFORM_URL: node.url }
    const strings = await done(['projects', 'pooler', slug], { env })
    const { stdout } = await plinth(['projects', 'pooler', slug, '-o', 'text'], { env })
    for (const [name, url] of [
      ['direct', strings.direct],
      ['pooled', strings.pooled],
      ['read-only', strings.read_only],
    ])
      assert.ok(
        stdout.split('\n').some(line => line.startsWith(`  ${name} `) && line.endsWith(` ${url}`)),
        `${name} in ${stdout}`,
      )
    assert.deepEqual(
      [strings.pooled, strings.read_only].map(text => new URL(text).host),
      ['pooler.test:6432', 'replica.test:5432'],
    )
  } finally {
    await node.stop()
  }
})

test('schema: the project comes from --project, PLATFORM_PROJECT or the link', async () => {
  const env = { PLATFORM_PROJECT: '' }
  assert.equal((await failed(['schema', 'tables'], { env })).code, 'project_missing')
  assert.ok((await done(['schema', 'tables', '--project', id], { env })).total > 0)
  const linked = temporaryDirectory({ '.plinth/link.json': { url: platform.url, project_id: id } })
  assert.ok((await done(['rls', 'status'], { env: { ...env }, cwd: linked })).total > 0)
})

test('schema and rls: a missing required flag is named', async () => {
  for (const [args, flag] of [
    [['schema', 'table', 'create', '--name', 'x'], '--from'],
    [['schema', 'column', 'add', '--table', 'x', '--name', 'y'], '--type'],
    [['rls', 'enable'], '--table'],
    [['rls', 'policy', 'create', '--table', 'x'], '--name'],
    [['rls', 'test', '--table', 'x'], '--role'],
  ] as const) {
    const error = await failed([...args])
    assert.equal(error.code, 'usage_missing_flag')
    assert.ok(error.message.startsWith(flag))
  }
})

test('schema expose: sets the schemas of the API and prints the warnings', async () => {
  const { app } = platform
  await app.databases.asOwner({ ref: await platform.refOf(id) }, session =>
    session.script(
      'create schema shop; create table shop.items (id int); alter table shop.items disable row level security',
    ),
  )
  const data = await done(['schema', 'expose', 'public, shop'])
  assert.deepEqual(data.exposed_schemas, ['public', 'shop'])
  assert.deepEqual(
    data.warnings.map(({ tables }: any) => tables),
    [['items']],
  )
  const shown = await plinth(['schema', 'expose', 'shop,public', '-o', 'text'])
  assert.equal(shown.stdout, 'The API serves shop, public.\n')
  assert.match(shown.stderr, /warning: Schema "shop" has a table without row-level security: items\./)
  assert.match(shown.stderr, /plinth rls enable --schema shop --table items/)
  assert.equal((await failed(['schema', 'expose', 'auth'])).code, 'invalid_request')
})
