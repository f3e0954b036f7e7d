// Migrations, pulls, resets and generated types, with a real platform.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory, writeIn } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** A directory with its own project. */
async function projectDirectory(files: Record<string, string> = {}) {
  const { id, slug, name } = await platform.createProject()
  const cwd = temporaryDirectory(files)
  const plinth = (args: string[], options: RunOptions = {}) =>
    run(args, {
      cwd,
      ...options,
      env: {
        PLATFORM_URL: platform.url,
        PLATFORM_TOKEN: platform.adminToken,
        PLATFORM_PROJECT: id,
        ...options.env,
      },
    })
  const manage = (method: string, path: string, body?: unknown) =>
    platform.call(method, `/api/v1/projects/${id}${path}`, { token: platform.adminToken, body })
  const ref = await platform.refOf(id)
  const byHand = (text: string) =>
    platform.app.databases.asOwner({ ref }, session => session.script(`set search_path = public; ${text}`))
  return { id, slug, name, cwd, plinth, manage, byHand }
}

const versions = (list: { version: string }[]) => list.map(({ version }) => version)

test('db push: prints the plan and changes nothing; --apply applies it', async () => {
  const { plinth, manage } = await projectDirectory({
    'supabase/migrations/20240101000000_people.sql': 'create table people (id int primary key);',
    'supabase/migrations/20240102000000_index.sql':
      '-- no-transaction\ncreate index concurrently people_id on people (id);',
    'supabase/migrations/draft.sql': 'nonsense',
  })
  const plan = await plinth(['db', 'push'])
  assert.equal(plan.code, 0)
  assert.deepEqual(versions(plan.json.data.pending), ['20240101000000', '20240102000000'])
  assert.equal(plan.json.data.path, 'supabase/migrations')
  assert.match(plan.stderr, /draft\.sql is not applied/)
  assert.equal((await manage('GET', '/db/migrations')).body.total, 0)
  const shown = await plinth(['db', 'push', '-o', 'text'])
  assert.match(shown.stdout, /20240102000000 +index +1 +without a transaction/)
  assert.match(shown.stderr, /Nothing was changed\. plinth db push --apply/)

  const applied = await plinth(['db', 'push', '--apply'])
  assert.deepEqual(
    [applied.code, versions(applied.json.data.applied)],
    [0, ['20240101000000', '20240102000000']],
  )
  const again = await plinth(['migration', 'apply', '-o', 'text'])
  assert.match(again.stdout, /Nothing to apply: all 2 migrations are applied already/)
})

test('db push: fails with the file name when an applied migration was edited', async () => {
  const { cwd, plinth, manage } = await projectDirectory({
    'migrations/1_people.sql': 'create table people (id int primary key);',
    'migrations/2_pets.sql': 'create table pets ();',
  })
  await plinth(['db', 'push', '--apply'])
  writeIn(cwd, 'migrations/1_people.sql', 'create table people ();')
  writeIn(cwd, 'migrations/3_toys.sql', 'create table toys ();')
  for (const args of [
    ['db', 'push'],
    ['db', 'push', '--apply'],
    ['migrations', 'apply'],
  ]) {
    const refused = await plinth(args)
    assert.deepEqual([refused.code, refused.json.error?.code], [1, 'migration_changed'], args.join(' '))
    assert.equal(
      refused.json.error.message,
      'migrations/1_people.sql was edited after it was applied to the project. Nothing was applied.',
    )
    assert.match(refused.json.error.suggestion, /Restore the file.*new migration.*plinth db reset/)
  }
  const text = await plinth(['db', 'push', '-o', 'text'])
  assert.deepEqual([text.code, text.stdout], [1, ''])
  assert.match(text.stderr, /\(migration_changed\)\n {2}why: migrations\/1_people\.sql was edited/)
  assert.equal((await manage('GET', '/db/migrations')).body.total, 2)

  const listed = await plinth(['migrations', 'list'])
  assert.deepEqual(
    listed.json.data.migrations.map((each: any) => [each.version, each.is_changed]),
    [
      ['1', true],
      ['2', false],
      ['3', false],
    ],
  )
  assert.match(listed.stderr, /warning: migrations\/1_people\.sql was edited after it was applied/)

  writeIn(cwd, 'migrations/2_pets.sql', 'create table pets (id int);')
  const both = await plinth(['db', 'push'])
  assert.match(
    both.json.error.message,
    /^migrations\/1_people\.sql and migrations\/2_pets\.sql were edited after/,
  )
  assert.equal((await plinth(['db', 'reset', '--yes'])).code, 0)
  assert.equal((await plinth(['db', 'push'])).json.data.skipped.length, 3)
})

test('db push: a failing migration is reported with version, line and statement', async () => {
  const { plinth } = await projectDirectory({
    'migrations/1_bad.sql': 'create table t (a int);\n\nselect b\n  from t;',
  })
  const failed = await plinth(['db', 'push', '--apply', '-o', 'text'])
  assert.equal(failed.code, 1)
  assert.match(failed.stderr, /Migration 1 \(bad\) failed at line 3: column "b" does not exist/)
  assert.match(failed.stderr, /select b\n {2}from t/)
  assert.match(failed.stderr, /fix: Correct the migration/)
})

test('db push: --path names the folder; an empty or missing folder fails', async () => {
  const { plinth } = await projectDirectory({ 'sql/7_seven.sql': 'select 7', 'none/notes.sql': '' })
  const named = await plinth(['db', 'push', '--path', 'sql'])
  assert.deepEqual(versions(named.json.data.pending), ['7'])
  assert.equal((await plinth(['db', 'push', '--path', 'none'])).json.error.code, 'migrations_missing')
  assert.equal((await plinth(['db', 'push', '--path', 'nowhere'])).json.error.code, 'folder_missing')
  assert.equal((await plinth(['db', 'push'])).json.error.code, 'migrations_missing')
})

test('migrations list: shows the migrations of the project and of the folder', async () => {
  const { cwd, plinth, manage } = await projectDirectory({
    'migrations/1_one.sql': 'select 1;',
    'migrations/3_three.sql': 'select 3;',
  })
  await manage('POST', '/db/push', {
    migrations: [
      { version: '1', name: 'one', sql: 'select 1' },
      { version: '2', name: 'two', sql: 'select 2' },
    ],
  })
  const { migrations } = (await plinth(['migrations', 'list'])).json.data
  assert.deepEqual(
    migrations.map((each: any) => [each.version, each.name, each.is_applied, each.is_local, each.is_changed]),
    [
      ['1', 'one', true, true, false],
      ['2', 'two', true, false, false],
      ['3', 'three', false, true, false],
    ],
  )
  writeIn(cwd, 'migrations/1_one.sql', 'select 1.5')
  const text = (await plinth(['migration', 'list', '-o', 'text'])).stdout
  assert.match(text, /^1 +one +\d{4}-\d\d-\d\d \d\d:\d\d +changed$/m)
  assert.match(text, /^3 +three +no +yes$/m)
})

test('db pull: the pulled migrations create the same schema in an empty project', async () => {
  const [source, target] = await Promise.all([projectDirectory(), projectDirectory()])
  await source.manage('POST', '/db/push', {
    migrations: [
      {
        version: '1',
        name: 'first',
        sql: "-- why\ncreate table a (id int primary key, note text default 'x;y');\ncreate view v as select id from a;",
      },
      {
        version: '2',
        name: 'index',
        sql: '-- no-transaction\ncreate index concurrently a_note on a (note);',
      },
    ],
  })
  await source.byHand(`create type mood as enum ('ok'); create table b (id int primary key references a, mood mood);
    create policy p on b for select to anon using (id > 0); alter table a add column more int not null default 1;
    create function f() returns int language sql as 'select 1'`)

  const pulled = await source.plinth(['db', 'pull'])
  assert.equal(pulled.code, 0, pulled.stdout)
  assert.match(
    pulled.json.data.files.join(' '),
    /migrations\/1_first\.sql \S*migrations\/2_index\.sql \S*migrations\/\d{14}_remote_schema\.sql$/,
  )
  assert.equal(pulled.json.data.seed, null)
  // The project has recorded the pulled migrations as applied.
  assert.deepEqual((await source.plinth(['db', 'push'])).json.data.pending, [])
  const again = await source.plinth(['db', 'pull', '-o', 'text'])
  assert.match(again.stdout, /Nothing to pull/)

  const folder = join(source.cwd, 'supabase/migrations')
  for (const file of readdirSync(folder))
    writeIn(target.cwd, `supabase/migrations/${file}`, readFileSync(join(folder, file), 'utf8'))
  const pushed = await target.plinth(['db', 'push', '--apply'])
  assert.equal(pushed.code, 0, pushed.stdout)
  const schema = async (project: typeof source) => (await project.manage('GET', '/db/schema')).body.sql
  assert.equal(await schema(target), await schema(source))
  assert.match(await schema(target), /create type public\.mood/)
})

test('db pull: --data writes the rows, after a confirmation', async () => {
  const { cwd, plinth, byHand } = await projectDirectory({ 'supabase/seed.sql': 'old' })
  await byHand("create table t (id int, note text); insert into t values (1, 'it''s')")
  const unasked = await plinth(['db', 'pull', '--data'])
  assert.deepEqual([unasked.code, unasked.json.error.code], [1, 'confirmation_missing'])
  assert.match(unasked.json.error.message, /seed\.sql, and replaces that file/)
  assert.equal(readFileSync(join(cwd, 'supabase/seed.sql'), 'utf8'), 'old')
  const pulled = await plinth(['db', 'pull', '--data', '--yes'])
  assert.equal(pulled.json.data.seed, 'supabase/seed.sql')
  assert.match(
    readFileSync(join(cwd, 'supabase/seed.sql'), 'utf8'),
    /insert into public\.t \(id, note\) values\n {2}\('1', 'it''s'\);/,
  )
})

test('db reset: needs a confirmation, drops everything and applies the migrations of the directory', async () => {
  const { id, cwd, plinth, byHand, manage } = await projectDirectory({
    'migrations/1_one.sql': 'create table one ();',
  })
  await plinth(['db', 'push', '--apply'])
  await byHand('create table extra ()')
  const proxy = await recordingProxy(platform.url)
  const unasked = await plinth(['db', 'reset'], { env: { PLATFORM_URL: proxy.url } })
  assert.deepEqual([unasked.code, unasked.json.error.code], [1, 'confirmation_missing'])
  assert.deepEqual(
    proxy.requests.filter(line => !line.startsWith('GET ')),
    [],
  )
  writeIn(cwd, 'migrations/2_two.sql', 'create table two ();')
  const done = await plinth(['db', 'reset', '--yes'])
  assert.equal(done.code, 0, done.stdout)
  assert.deepEqual(done.json.data.dropped.tables, ['public.extra', 'public.one'])
  assert.deepEqual(versions(done.json.data.applied), ['1', '2'])
  const { body } = await manage('GET', '/schema/tables')
  assert.deepEqual(body.tables.map((each: { name: string }) => each.name).sort(), ['one', 'two'])
  assert.deepEqual((await plinth(['db', 'reset', '--empty', '-y'])).json.data.applied, [])
  assert.equal((await manage('GET', '/db/migrations')).body.total, 0)
  const actions = (await platform.admin.listAudit({ query: { project_id: id } })).entries.map(
    each => each.action,
  )
  assert.equal(actions.filter(action => action === 'db.reset').length, 2)
})

test('gen graphql-schema: prints the schema of a role; --check compares a file with it', async () => {
  const { cwd, plinth, byHand } = await projectDirectory()
  await byHand(
    'create table t (id int primary key, secret text); revoke all on t from anon; grant select (id) on t to anon',
  )
  const made = await plinth(['gen', 'graphql-schema'])
  assert.deepEqual([made.code, made.stderr], [0, ''])
  assert.match(made.stdout, /type t implements Node \{[^}]*secret: String[\s\S]*insertIntotCollection/)
  const anon = await plinth(['gen', 'graphql-schema', '--role', 'anon'])
  assert.match(anon.stdout, /type t implements Node \{/)
  assert.doesNotMatch(anon.stdout, /secret|insertInto/)
  writeFileSync(join(cwd, 'schema.graphql'), anon.stdout)
  assert.equal(
    (await plinth(['gen', 'graphql-schema', '--role', 'anon', '--check', 'schema.graphql'])).code,
    0,
  )
  await byHand('create table u (id int primary key)')
  const stale = await plinth(['gen', 'graphql-schema', '--role', 'anon', '--check', 'schema.graphql'])
  assert.equal(stale.code, 1)
  assert.match(stale.stderr, /types_stale[\s\S]*plinth gen graphql-schema/)
  assert.match(
    (await plinth(['gen', 'graphql-schema', '--role', 'admin'])).stderr,
    /--role cannot be "admin"/,
  )
})

test('gen types: prints only the types; --check compares a file with them', async () => {
  const { cwd, plinth, byHand } = await projectDirectory()
  await byHand('create table t (id int primary key); create schema app; create table app.u (id int)')
  const made = await plinth(['gen', 'types', 'typescript'])
  assert.equal(made.code, 0)
  assert.match(
    made.stdout,
    /^\/\/ Made by plinth gen types typescript[\s\S]*export type Database = \{[\s\S]*as const\n$/,
  )
  assert.equal(made.stderr, '')
  writeFileSync(join(cwd, 'database.types.ts'), made.stdout)
  const current = await plinth(['gen', 'types', 'typescript', '--check', 'database.types.ts'])
  assert.deepEqual([current.code, current.stdout], [0, ''])
  await byHand('alter table t add column name text')
  const stale = await plinth(['gen', 'types', 'typescript', '--check', 'database.types.ts'])
  assert.deepEqual([stale.code, stale.stdout], [1, ''])
  assert.match(stale.stderr, /types_stale/)
  assert.equal(
    (await plinth(['gen', 'types', 'drizzle', '--check', 'nowhere.ts', '-o', 'json'])).json.error.code,
    'types_stale',
  )

  assert.match((await plinth(['gen', 'types', 'drizzle'])).stdout, /export const t = pgTable\("t", \{/)
  const both = await plinth(['gen', 'types', 'typescript', '--schema', 'public,app'])
  assert.match(both.stdout, /^ {2}app: \{/m)
  assert.equal(
    (await plinth(['gen', 'types', 'typescript', '-o', 'json'])).json.data.types.length > 100,
    true,
  )
  const unknown = await plinth(['gen', 'types', 'typescript', '--schema', 'nowhere', '-o', 'json'])
  assert.equal(unknown.json.error.code, 'schema_not_found')
})
