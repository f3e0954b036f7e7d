// Users and sessions of a project, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory, writeIn } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const password = 'an old password'
const hash = '$2b$04$rR2NKTKc.Tff9dW.XMMmJeRfffROrDj5tCWJVcFttWroVdH87xwbS'
const plinth = (args: string[], options: RunOptions = {}) => {
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken, ...options.env }
  return run(args, { cwd, ...options, env })
}

/** Commands on a new project. */
async function newProject() {
  const project = await platform.createProject()
  return {
    project,
    auth: (...args: string[]) => plinth(['auth', ...args, '--project', project.slug]),
    withInput: (input: string, ...args: string[]) =>
      plinth(['auth', ...args, '--project', project.slug], { input }),
  }
}

const signIn = ({ id, anon_key: apikey }: CreatedProject, email: string, given = password) =>
  platform.call('POST', `/v1/auth/${id}/sign-in`, { apikey, body: { email, password: given } })

test('auth users create: reads the password from standard input, and the user can sign in', async () => {
  const { project, auth, withInput } = await newProject()
  const made = await withInput(`${password}\n`, 'users', 'create', '--email', 'Ann@Example.test')
  assert.equal(made.code, 0, made.stdout)
  assert.equal(made.json.data.email, 'ann@example.test')
  assert.ok(!(made.stdout + made.stderr).includes(password))
  assert.equal((await signIn(project, 'ann@example.test')).status, 200)
  for (const named of [made.json.data.id, 'ANN@example.test']) {
    const shown = await auth('users', 'show', named)
    assert.equal(shown.json.data.id, made.json.data.id)
    assert.deepEqual(shown.json.data.providers, ['email'])
  }
  const text = (await auth('users', 'show', 'ann@example.test', '-o', 'text')).stdout
  assert.match(text, /email +ann@example\.test\n +state +active\n +role +authenticated\n/)

  const again = await withInput(`${password}\n`, 'users', 'create', '--email', 'ann@example.test')
  assert.deepEqual([again.code, again.json.error.code], [1, 'already_exists'])
  const weak = await withInput('short\n', 'users', 'create', '--email', 'weak@example.test')
  assert.deepEqual([weak.code, weak.json.error.code], [1, 'weak_password'])
})

test('auth users create: without a password on stdin it needs --no-password, and there is no --password flag', async () => {
  const { project, auth } = await newProject()
  const none = await auth('users', 'create', '--email', 'bob@example.test')
  assert.deepEqual([none.code, none.json.error.code], [1, 'prompt_impossible'])
  const flag = await auth('users', 'create', '--email', 'bob@example.test', '--password', password)
  assert.deepEqual([flag.code, flag.json.error.code], [1, 'usage_unknown_flag'])
  const made = await auth('users', 'create', '--email', 'bob@example.test', '--no-password')
  assert.equal(made.code, 0, made.stdout)
  assert.equal((await signIn(project, 'bob@example.test', '')).status, 400)
})

test('auth users list: newest first, with --search and --limit', async () => {
  const { auth } = await newProject()
  const empty = await auth('users', 'list', '-o', 'text')
  assert.deepEqual([empty.code, empty.stdout], [0, ''])
  assert.match(empty.stderr, /No users yet/)
  for (const name of ['ann', 'bob', 'annabel'])
    await auth('users', 'create', '--email', `${name}@example.test`, '--no-password')
  const { data } = (await auth('users', 'list')).json
  assert.equal(data.total, 3)
  assert.deepEqual(
    data.users.map(({ email }: any) => email),
    ['annabel@example.test', 'bob@example.test', 'ann@example.test'],
  )
  const found = (await auth('users', 'list', '--search', 'ANN')).json.data
  assert.deepEqual(
    found.users.map(({ email }: any) => email),
    ['annabel@example.test', 'ann@example.test'],
  )
  const text = await auth('users', 'list', '--limit', '1', '-o', 'text')
  assert.match(
    text.stdout,
    /^ID +EMAIL +PROVIDERS +STATE +LAST SIGN-IN +CREATED\n\S+ +annabel@\S+ +email +active +- /,
  )
  assert.equal(text.stdout.trim().split('\n').length, 2)
  assert.match(text.stderr, /1 of 3/)
})

test('auth users ban: with a reason and an expiry, or permanently, until unban', async () => {
  const { project, auth, withInput } = await newProject()
  await withInput(`${password}\n`, 'users', 'create', '--email', 'ann@example.test')
  const before = Date.now()
  const banned = await auth('users', 'ban', 'ann@example.test', '--reason', 'spam', '--expires', '7d')
  assert.equal(banned.code, 0, banned.stdout)
  assert.deepEqual([banned.json.data.is_banned, banned.json.data.ban_reason], [true, 'spam'])
  const until = Date.parse(banned.json.data.banned_until) - 7 * 86_400_000
  assert.ok(until >= before && until <= Date.now())
  assert.equal((await signIn(project, 'ann@example.test')).body.code, 'user_banned')
  assert.match((await auth('users', 'list', '-o', 'text')).stdout, / banned /)

  const permanent = await auth('users', 'ban', 'ann@example.test', '-o', 'text')
  assert.equal(permanent.stdout, 'Banned ann@example.test permanently.\n')
  assert.match(
    (await auth('users', 'show', 'ann@example.test', '-o', 'text')).stdout,
    /state +banned\n +banned until +permanent\n +ban reason +-\n/,
  )
  const lifted = await auth('users', 'unban', 'ann@example.test', '-o', 'text')
  assert.equal(lifted.stdout, 'ann@example.test is no longer banned.\n')
  assert.equal((await signIn(project, 'ann@example.test')).status, 200)
})

test('auth users delete: needs a confirmation', async () => {
  const { auth } = await newProject()
  for (const name of ['ann', 'bob', 'eve'])
    await auth('users', 'create', '--email', `${name}@example.test`, '--no-password')
  const asked = await auth('users', 'delete', 'ann@example.test')
  assert.deepEqual([asked.code, asked.json.error.code], [1, 'confirmation_missing'])
  assert.match(asked.json.error.suggestion, /--confirm ann@example\.test/)
  const wrong = await auth('users', 'delete', 'ann@example.test', '--confirm', 'bob@example.test')
  assert.deepEqual([wrong.code, wrong.json.error.code], [1, 'confirmation_mismatch'])
  assert.equal((await auth('users', 'list')).json.data.total, 3)
  const gone = await auth('users', 'delete', 'ann@example.test', '--confirm', 'Ann@example.test')
  assert.deepEqual([gone.code, gone.json.data.email, gone.json.data.deleted], [0, 'ann@example.test', true])
  assert.equal((await auth('users', 'delete', 'bob@example.test', '--yes')).code, 0)
  const again = await auth('users', 'delete', 'ann@example.test', '--yes')
  assert.deepEqual([again.code, again.json.error.code], [1, 'user_not_found'])
  const close = await auth('users', 'show', 'eve@example')
  assert.match(close.json.error.suggestion, /Did you mean eve@example\.test/)
  const unknown = await auth('users', 'show', crypto.randomUUID())
  assert.deepEqual([unknown.code, unknown.json.error.code], [1, 'user_not_found'])
  assert.match(unknown.json.error.suggestion, /plinth auth users list/)
})

test('auth sessions: list, and revoke one or all', async () => {
  const { project, auth, withInput } = await newProject()
  const email = 'ann@example.test'
  await withInput(`${password}\n`, 'users', 'create', '--email', email)
  assert.match((await auth('sessions', 'list', '--user', email, '-o', 'text')).stderr, /no session/)
  for (let n = 0; n < 3; n++) await signIn(project, email)
  const listed = (await auth('sessions', 'list', '--user', email)).json.data
  assert.equal(listed.total, 3)
  assert.match(
    (await auth('sessions', 'list', '--user', email, '-o', 'text')).stdout,
    /^ID +CREATED +REFRESHED +ADDRESS +AAL +CLIENT\n\S+ .+ aal1 +node/,
  )
  const [{ id }] = listed.sessions
  const one = await auth('sessions', 'revoke', '--user', email, '--session', id)
  assert.deepEqual([one.code, one.json.data.session], [0, id])
  const again = await auth('sessions', 'revoke', '--user', email, '--session', id)
  assert.deepEqual([again.code, again.json.error.code], [1, 'session_not_found'])
  assert.match(again.json.error.suggestion, /plinth auth sessions list/)
  assert.equal((await auth('sessions', 'list', '--user', email)).json.data.total, 2)
  const all = await auth('sessions', 'revoke', '--user', email, '-o', 'text')
  assert.equal(all.stdout, 'Ended all sessions of ann@example.test.\n')
  assert.equal((await auth('sessions', 'list', '--user', email)).json.data.total, 0)
})

test('auth users import: sends 1000 records per request and reports the records that failed', async () => {
  const { project, auth, withInput } = await newProject()
  const records: Record<string, unknown>[] = Array.from({ length: 1203 }, (_, n) => ({
    id: crypto.randomUUID(),
    email: `user${n}@example.test`,
    password_hash: hash,
    email_confirmed_at: '2021-01-01T00:00:00Z',
  }))
  records[4]!['id'] = 'not-a-uuid'
  records[1100]!['email'] = 'user1099@example.test'
  writeIn(cwd, 'users.json', records)
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  const imported = await plinth(['auth', 'users', 'import', 'users.json', '--project', project.id], { env })
  assert.equal(imported.code, 0, imported.stdout)
  const { problems, ...counts } = imported.json.data
  assert.deepEqual(counts, { imported: 1201, skipped: 1, failed: 1 })
  assert.deepEqual(
    problems.map(({ record, status, email }: any) => [record, status, email]),
    [
      [5, 'error', 'user4@example.test'],
      [1101, 'skipped', 'user1099@example.test'],
    ],
  )
  assert.equal(proxy.requests.filter(each => each.endsWith('/users/import')).length, 2)
  assert.equal((await signIn(project, 'user1202@example.test')).status, 200)
  const shown = await auth('users', 'list', '--limit', '250')
  assert.deepEqual([shown.json.data.users.length, shown.json.data.total], [250, 1201])

  const text = await withInput(
    JSON.stringify({ users: records.slice(3, 6) }),
    'users',
    'import',
    '-',
    '-o',
    'text',
  )
  assert.match(
    text.stdout,
    /^RECORD +EMAIL +STATUS +WHY\n1 +user3@\S+ +skipped +The user \S+ has this e-mail address\n/,
  )
  assert.match(text.stdout, /\n2 +user4@\S+ +error +id is not a UUID\n/)
  assert.match(text.stdout, /\n\nImported 0 of 3 users; 2 skipped, 1 failed\.\n$/)
  assert.match(text.stderr, /Correct the records/)
})

test('auth users import: splits large records over several requests', async () => {
  const { project } = await newProject()
  const records = Array.from({ length: 700 }, (_, n) => ({
    email: `user${n}@example.test`,
    raw_user_meta_data: { about: 'x'.repeat(7900) },
  }))
  writeIn(cwd, 'large.json', records)
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  const imported = await plinth(['auth', 'users', 'import', 'large.json', '--project', project.id], { env })
  assert.equal(imported.json.data?.imported, 700, imported.stdout.slice(0, 500))
  assert.equal(proxy.requests.filter(each => each.endsWith('/users/import')).length, 2)
})

test('auth: invalid arguments and files fail before any request', async () => {
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  const directory = temporaryDirectory({ 'text.json': 'no json', 'object.json': { people: [] } })
  for (const [args, code] of [
    [['users', 'create'], 'usage_missing_flag'],
    [['users', 'ban'], 'usage_missing_argument'],
    [['users', 'ban', 'ann@example.test', '--expires', 'soon'], 'usage_invalid_value'],
    [['users', 'list', '--limit', '0'], 'usage_invalid_value'],
    [['users', 'import', 'absent.json'], 'file_unreadable'],
    [['users', 'import', 'text.json'], 'file_invalid'],
    [['users', 'import', 'object.json'], 'file_invalid'],
    [['sessions', 'revoke'], 'usage_missing_flag'],
    [['sessions', 'revoke', '--user', 'ann@example.test', '--session', 'x'], 'usage_invalid_value'],
  ] as const) {
    const refused = await plinth(['auth', ...args], { env, cwd: directory })
    assert.deepEqual([refused.code, refused.json.error.code], [1, code], args.join(' '))
  }
  assert.deepEqual(proxy.requests, [])
})
