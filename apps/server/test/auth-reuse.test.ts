// Reuse of a replaced refresh token (faults-and-attacks 19): log entry and event, and what a copy of the database would
// give an attacker.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type AuthProject, authProject } from './auth-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: AuthProject
before(async () => {
  platform = await startPlatform()
  project = await authProject(platform, { refresh_token_reuse_interval_seconds: 0 })
})
after(() => platform.stop())

const refresh = (token: string) =>
  project.auth('POST', '/token?grant_type=refresh_token', { refresh_token: token })
const look = async <T = any>(statement: ReturnType<typeof sql>) =>
  platform.asSuperuser(await platform.refOf(project.id), session => session.rows<T>(statement))

test('refresh token reuse: the session ends, a log entry names project and session, and an event is emitted', async () => {
  const { refresh_token: first, access_token, user } = await project.signUp('ada@example.test')
  const { session_id } = JSON.parse(Buffer.from(access_token.split('.')[1], 'base64url').toString())
  const second = (await refresh(first)).body.refresh_token
  const third = (await refresh(second)).body.refresh_token
  const events = () =>
    look(sql`select type from auth.events where user_id = ${user.id} order by created_at desc limit 1`)
  const warnings = () =>
    platform.logged.map(line => JSON.parse(line)).filter(({ session }) => session === session_id)
  assert.deepEqual([await events(), warnings()], [[{ type: 'user.signed_in' }], []])
  assert.equal((await refresh(first)).body.code, 'refresh_token_already_used')
  assert.deepEqual(await events(), [{ type: 'user.signed_out' }])
  assert.deepEqual(
    warnings().map(({ level, project }) => [level, project]),
    [['warn', project.id]],
  )
  assert.deepEqual(await look(sql`select id from auth.sessions where user_id = ${user.id}`), [])
  for (const token of [first, second, third, access_token])
    assert.ok(!platform.logged.some(line => line.includes(token)), 'no token is logged')
})

test('refresh tokens: the database stores no usable refresh token', async () => {
  const { refresh_token: first } = await project.signUp('bob@example.test')
  const { refresh_token: second } = (await refresh(first)).body
  const rows = await look(sql`
    select s::text as row from auth.sessions s union all select u::text from auth.users u
    union all select e::text from auth.events e`)
  assert.ok(rows.length > 2)
  for (const token of [first, second]) {
    assert.match(token, /^[\w-]{20,}$/)
    for (const { row } of rows) assert.ok(!row.includes(token))
  }
})
