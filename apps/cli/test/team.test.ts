// Invites and members, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
let session: string
const email = 'ann@example.test'
before(async () => {
  platform = await startPlatform()
  const login = { email, password: 'a long enough password' }
  await platform.admin.createUser({ body: { ...login, role: 'project_admin', name: 'Ann' } })
  session = (await platform.call('POST', '/api/v1/platform/login', { body: login })).body.token
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const plinth = (args: string[], options: RunOptions = {}) => {
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken, ...options.env }
  return run(args, { cwd, ...options, env })
}
const asAnn = () => ({ env: { PLATFORM_TOKEN: session } })
const newProject = async () => (await platform.createProject()).slug

test('auth invites: create, list without the token, and accept to become a member', async () => {
  const project = await newProject()
  const on = (...args: string[]) => [...args, '--project', project]
  const made = await plinth(on('auth', 'invites', 'create', '--email', email, '--role', 'admin'))
  assert.equal(made.code, 0, made.stdout)
  const { invite_token: token, ...invite } = made.json.data
  assert.deepEqual([invite.email, invite.role, invite.expires_in], [email, 'admin', 604_800])

  const listed = await plinth(on('auth', 'invites', 'list'))
  assert.deepEqual([listed.json.data.total, listed.json.data.invites[0].id], [1, invite.id])
  assert.ok(!listed.stdout.includes(token))
  const text = await plinth(on('auth', 'invites', 'list', '-o', 'text'))
  assert.match(
    text.stdout,
    /^ID +EMAIL +ROLE +INVITED BY +EXPIRES +CREATED\n\S+ +ann@example\.test +admin +admin token /,
  )

  const joined = await plinth(['auth', 'invites', 'accept', token], asAnn())
  assert.deepEqual([joined.code, joined.json.data.email, joined.json.data.role], [0, email, 'admin'])
  const members = (await plinth(on('auth', 'members', 'list'), asAnn())).json.data
  assert.deepEqual([members.total, members.members[0].user_id], [1, joined.json.data.user_id])
  const again = await plinth(['auth', 'invites', 'accept', token], asAnn())
  assert.deepEqual([again.code, again.json.error.code], [1, 'invite_not_found'])
})

test('auth invites create: shows the token once; the default role is editor', async () => {
  const project = await newProject()
  const { stdout, stderr } = await plinth([
    ...['auth', 'invites', 'create', '--email', 'Bob@Example.test', '--project', project, '-o', 'text'],
  ])
  assert.match(stdout, /role +editor\n +expires +\d{4}-\d\d-\d\d \d\d:\d\d\n +token +platform_invite_\S+\n$/)
  assert.match(stderr, /shown only now\. Send it to bob@example\.test/)
})

test('auth invites revoke: by id', async () => {
  const project = await newProject()
  const on = (...args: string[]) => [...args, '--project', project]
  const { id, invite_token: token } = (await plinth(on('auth', 'invites', 'create', '--email', email))).json
    .data
  assert.deepEqual((await plinth(on('auth', 'invites', 'revoke', id))).json.data, { id, revoked: true })
  const again = await plinth(on('auth', 'invites', 'revoke', id))
  assert.deepEqual([again.code, again.json.error.code], [1, 'invite_not_found'])
  assert.match(again.json.error.suggestion, /plinth auth invites list/)
  assert.equal((await plinth(['auth', 'invites', 'accept', token], asAnn())).code, 1)
  const empty = await plinth(on('auth', 'invites', 'list', '-o', 'text'))
  assert.deepEqual([empty.stdout, empty.code], ['', 0])
  assert.match(empty.stderr, /No invites are pending/)
})

test('auth invites accept: needs a session, not a platform token or the admin token', async () => {
  const project = await newProject()
  const { json } = await plinth(['auth', 'invites', 'create', '--email', email, '--project', project])
  const refused = await plinth(['auth', 'invites', 'accept', json.data.invite_token])
  assert.deepEqual([refused.code, refused.json.error.code], [1, 'session_required'])
  assert.match(refused.json.error.suggestion, /platform\/login.*PLATFORM_TOKEN/)
})

test('auth members: set-role and remove by id or address; the last owner stays', async () => {
  const project = await newProject()
  const on = (...args: string[]) => [...args, '--project', project]
  const { json } = await plinth(on('auth', 'invites', 'create', '--email', email, '--role', 'owner'))
  const { user_id } = (await plinth(['auth', 'invites', 'accept', json.data.invite_token], asAnn())).json.data
  const kept = await plinth(on('auth', 'members', 'remove', email))
  assert.deepEqual([kept.code, kept.json.error.code], [1, 'last_owner'])
  assert.match(kept.json.error.suggestion, /set-role <user> owner/)

  const other = await platform.admin.createUser({
    body: { email: `${project}@example.test`, password: 'a long enough password', role: 'project_admin' },
  })
  const login = { email: other.email, password: 'a long enough password' }
  const theirs = (await platform.call('POST', '/api/v1/platform/login', { body: login })).body.token
  const second = (await plinth(on('auth', 'invites', 'create', '--email', other.email))).json.data
  await plinth(['auth', 'invites', 'accept', second.invite_token], { env: { PLATFORM_TOKEN: theirs } })
  const promoted = await plinth(on('auth', 'members', 'set-role', other.email.toUpperCase(), 'owner'))
  assert.deepEqual([promoted.code, promoted.json.data.role], [0, 'owner'])
  assert.match(
    (await plinth(on('auth', 'members', 'set-role', user_id, 'read_only', '-o', 'text'))).stdout,
    /^ann@example\.test is now read_only\.\n$/,
  )
  const text = (await plinth(on('auth', 'members', 'list', '-o', 'text'))).stdout
  assert.match(text, /^USER ID +EMAIL +NAME +ROLE +STATE +SINCE\n/)
  assert.match(text, /ann@example\.test +Ann +read_only +active/)
  assert.deepEqual((await plinth(on('auth', 'members', 'remove', email))).json.data, {
    user_id,
    removed: true,
  })
  const gone = await plinth(on('auth', 'members', 'remove', email))
  assert.deepEqual([gone.code, gone.json.error.code], [1, 'member_not_found'])
  assert.equal((await plinth(on('auth', 'members', 'remove', user_id))).json.error.code, 'member_not_found')
})

test('auth: invalid roles and missing addresses fail before any request', async () => {
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  for (const [args, code] of [
    [['auth', 'invites', 'create', '--email', email, '--role', 'editr'], 'usage_invalid_value'],
    [['auth', 'invites', 'create'], 'usage_missing_flag'],
    [['auth', 'members', 'set-role', email, 'root'], 'usage_invalid_value'],
    [['auth', 'members', 'set-role', email], 'usage_missing_argument'],
    [['auth', 'invites', 'accept'], 'usage_missing_argument'],
  ] as const)
    assert.equal((await plinth([...args], { env })).json.error.code, code, args.join(' '))
  assert.deepEqual(proxy.requests, [])
})
