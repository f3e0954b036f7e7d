// A refresh token that comes back long after it was replaced is in the wrong hands (faults-and-attacks 19): what of that
// is told, to the log and in the outbox of events, and what the database would give a thief.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type AuthProject, authProject } from './signed-up.ts'

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

test('reuse ends the session, is logged with the project and the session, and is told as a sign-out', async () => {
  const { refresh_token: first, access_token, user } = await project.signUp('ada@example.test')
  const { session_id } = JSON.parse(Buffer.from(access_token.split('.')[1], 'base64url').toString())
  const second = (await refresh(first)).body.refresh_token
  const third = (await refresh(second)).body.refresh_token
  const told = () =>
    look(sql`select type from auth.events where user_id = ${user.id} order by created_at desc limit 1`)
  const warnings = () =>
    platform.logged.map(line => JSON.parse(line)).filter(({ session }) => session === session_id)
  assert.deepEqual([await told(), warnings()], [[{ type: 'user.signed_in' }], []])
  assert.equal((await refresh(first)).body.code, 'refresh_token_already_used')
  assert.deepEqual(await told(), [{ type: 'user.signed_out' }])
  assert.deepEqual(
    warnings().map(({ level, project }) => [level, project]),
    [['warn', project.id]],
  )
  assert.deepEqual(await look(sql`select id from auth.sessions where user_id = ${user.id}`), [])
  for (const token of [first, second, third, access_token])
    assert.ok(!platform.logged.some(line => line.includes(token)), 'no token is logged')
})

test('the database holds nothing that refreshes', async () => {
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
