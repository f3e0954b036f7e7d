// Realtime settings of tables, and credentials that a subscription must never send.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { faultyProxy } from './faulty-proxy.ts'
import { type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'

let platform: TestPlatform
let id: string
let slug: string
before(async () => {
  platform = await startPlatform()
  const project = await platform.createProject('Feed')
  id = project.id
  slug = project.slug
  const ref = await platform.refOf(id)
  await platform.app.databases.asOwner({ ref }, session =>
    session.script(`
      create table todos (id int primary key); create table prices (id int); create table secrets (id int);
      alter table prices disable row level security; alter table secrets disable row level security`),
  )
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const realtime = (args: string[], options: RunOptions = {}) =>
  run(['realtime', ...args], {
    cwd,
    ...options,
    env: {
      PLATFORM_URL: platform.url,
      PLATFORM_TOKEN: platform.adminToken,
      PLATFORM_PROJECT: slug,
      ...options.env,
    },
  })
const done = async (args: string[]) => {
  const ran = await realtime(args)
  assert.equal(ran.code, 0, ran.stdout + ran.stderr)
  return ran.json.data
}
const failed = async (args: string[], options: RunOptions = {}) => {
  const ran = await realtime(args, options)
  assert.equal(ran.code, 1, ran.stdout)
  return ran.json.error
}

test('realtime tables: shows every table, its settings and who receives its changes', async () => {
  const { tables, total } = await done(['tables'])
  assert.equal(total, 3)
  assert.deepEqual(tables[2], {
    schema: 'public',
    table: 'todos',
    cdc_enabled: true,
    rls_enabled: true,
    realtime_public: false,
  })
  const { stdout } = await realtime(['tables', '-o', 'text'])
  assert.match(stdout, /TABLE +CHANGES +RLS +PUBLIC +RECEIVERS/)
  assert.match(stdout, /todos +on +on +no +roles that may read the row/)
  assert.match(stdout, /prices +on +off +no +only service_role/)
})

test('realtime set-table: changes one setting or both and prints the result', async () => {
  assert.equal((await done(['set-table', 'secrets', '--cdc', 'false'])).cdc_enabled, false)
  assert.equal((await done(['set-table', 'prices', '--rls-public=true'])).realtime_public, true)
  const { stdout } = await realtime(['tables', '-o', 'text'])
  assert.match(stdout, /secrets +off +off +no +nobody/)
  assert.match(stdout, /prices +on +off +yes +roles that may read the table/)
  const both = await realtime(['set-table', 'todos', '--cdc', 'true', '--rls-public', 'true', '-o', 'text'])
  assert.equal(both.stdout, 'Receivers of changes of todos: roles that may read the row.\n')
  assert.match(both.stderr, /policies decide/)
})

test('realtime set-table: rejects missing settings, invalid values and unknown tables', async () => {
  assert.equal((await failed(['set-table', 'todos'])).code, 'usage_missing_flag')
  assert.equal((await failed(['set-table', '--cdc', 'true'])).code, 'usage_missing_argument')
  const word = await failed(['set-table', 'todos', '--cdc', 'off'])
  assert.deepEqual(
    [word.code, word.message],
    ['usage_invalid_value', '--cdc must be one of true, false, not "off".'],
  )
  const typo = await failed(['set-table', 'todo', '--cdc', 'true'])
  assert.equal(typo.code, 'table_not_found')
  assert.match(typo.message, /Perhaps you meant "todos"/)
})

test('realtime subscribe: needs a channel, a project and a credential of the project', async () => {
  assert.equal((await failed(['subscribe', '--token', 'x'])).code, 'usage_missing_flag')
  const without = await failed(['subscribe', '--channel', 'todos'])
  assert.equal(without.code, 'token_missing')
  assert.match(without.suggestion, /PLATFORM_REALTIME_TOKEN or --token/)
  const nameless = await failed(['subscribe', '--channel', 'todos', '--token', 'x'], {
    env: { PLATFORM_PROJECT: '' },
  })
  assert.equal(nameless.code, 'project_missing')
  const unknowable = await failed(['subscribe', '--channel', 'todos', '--token', 'x'], {
    env: { PLATFORM_TOKEN: '' },
  })
  assert.equal(unknowable.code, 'project_missing')
  assert.match(unknowable.suggestion, /by its id/)
  assert.equal(
    (await failed(['subscribe', '--channel', 'public:', '--token', 'x'])).code,
    'usage_invalid_value',
  )
})

test('realtime subscribe: never sends a management credential', async () => {
  const pat = (await platform.platform.mintToken({ body: { name: 'ci', scope: 'read' } })).token
  await platform.admin.createUser({
    body: { email: 'root@example.com', password: 'a long passphrase', role: 'super_admin' },
  })
  const session = await platform.platform.login({
    body: { email: 'root@example.com', password: 'a long passphrase' },
  })
  const proxy = await faultyProxy(platform.url, [])
  const cases: [string, RegExp][] = [
    [pat, /a platform token/],
    [`platform_pat_${'x'.repeat(40)}`, /a platform token/],
    [platform.adminToken, /the admin token/],
    [session.token, /a session of the platform/],
  ]
  for (const [token, message] of cases)
    for (const [args, env, origin] of [
      [['--token', token], {}, '--token'],
      [[], { PLATFORM_REALTIME_TOKEN: token }, 'PLATFORM_REALTIME_TOKEN'],
    ] as const) {
      const error = await failed(['subscribe', '--channel', 'todos', '--project', id, ...args], {
        env: { PLATFORM_URL: proxy.url, ...env },
      })
      assert.equal(error.code, 'token_not_allowed')
      assert.match(error.message, message)
      assert.ok(error.message.startsWith(`${origin} holds`))
      assert.match(error.suggestion, /service_role key or a user’s JWT/)
      assert.ok(!JSON.stringify(error).includes(token), 'the message contains the token')
    }
  const other = await failed(['subscribe', '--channel', 'todos', '--project', id, '--token', 'the one'], {
    env: { PLATFORM_URL: proxy.url, PLATFORM_TOKEN: '', PLATFORM_ADMIN_TOKEN: 'the one' },
  })
  assert.equal(other.code, 'token_not_allowed')
  assert.deepEqual(proxy.requests, [])
})

test('realtime subscribe: an unreachable platform fails at once', async () => {
  const error = await failed(['subscribe', '--channel', 'todos', '--project', id, '--token', 'x'], {
    env: { PLATFORM_URL: 'http://127.0.0.1:9' },
  })
  assert.equal(error.code, 'connection_failed')
})
