// Ended sessions and banned or deleted users: the auth routes refuse them immediately, all other routes of every node
// within a second.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type AuthProject, authProject } from './auth-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let here: TestPlatform
let there: TestPlatform
let project: AuthProject
before(async () => {
  // The tests poll until a revocation takes effect.
  const settings = { PLATFORM_RATE_LIMIT_AUTHENTICATED: '0' }
  here = await startPlatform({ settings })
  there = await startPlatform({ beside: here, settings })
  project = await authProject(here)
})
after(async () => {
  await there.stop()
  await here.stop()
})

const whoami = (node: TestPlatform, token: string) =>
  node.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, token })

/** Calls continuously, so that the cache stays as fresh as possible, until the answer has the status. */
const reachesStatus = (node: TestPlatform, token: string, status: number) =>
  eventually(async () => (await whoami(node, token)).status === status, `status ${status}`)

async function somebody() {
  const made = await project.signUp(`${crypto.randomUUID()}@example.test`)
  for (const node of [here, there]) assert.equal((await whoami(node, made.access_token)).status, 200)
  return made as { access_token: string; user: { id: string } }
}

const asOwner = async (text: string) =>
  here.asSuperuser(await here.refOf(project.id), async session => session.run(raw(text)))

const acts: Record<string, (made: Awaited<ReturnType<typeof somebody>>) => Promise<unknown>> = {
  'signed out': ({ access_token }) => project.asUser(access_token, 'POST', '/logout'),
  banned: ({ user }) => project.asAdmin('PUT', `/admin/users/${user.id}`, { ban_duration: '1h' }),
  deleted: ({ user }) => project.asAdmin('DELETE', `/admin/users/${user.id}`, {}),
  'softly deleted': ({ user }) =>
    project.asAdmin('DELETE', `/admin/users/${user.id}`, { should_soft_delete: true }),
  'given another password by an administrator': ({ user }) =>
    project.asAdmin('PUT', `/admin/users/${user.id}`, { password: 'another horse' }),
  'deleted by a statement of the owner': ({ user }) =>
    asOwner(`delete from auth.users where id = '${user.id}'`),
  'banned by a statement of the owner': ({ user }) =>
    asOwner(`update auth.users set banned_until = 'infinity' where id = '${user.id}'`),
}
for (const [what, act] of Object.entries(acts))
  test(`revocation: the token of a user who was ${what} is rejected on both nodes`, async () => {
    const [made, other] = [await somebody(), await somebody()]
    await act(made)
    const auth = await project.asUser(made.access_token, 'GET', '/user')
    assert.equal(auth.status, 403, 'the auth routes reject it at once')
    await Promise.all([
      reachesStatus(here, made.access_token, 401),
      reachesStatus(there, made.access_token, 401),
    ])
    for (const node of [here, there])
      assert.equal((await whoami(node, other.access_token)).status, 200, 'other users are not affected')
  })

test('revocation: a node with a stale cache does not admit callers', async () => {
  const made = await somebody()
  await sleep(1000)
  await project.asUser(made.access_token, 'POST', '/logout')
  assert.equal((await whoami(there, made.access_token)).status, 401, 'the first call is rejected')
})

test('revocation: removing a ban takes effect on both nodes', async () => {
  const made = await somebody()
  await project.asAdmin('PUT', `/admin/users/${made.user.id}`, { ban_duration: '1h' })
  await reachesStatus(there, made.access_token, 401)
  await project.asAdmin('PUT', `/admin/users/${made.user.id}`, { ban_duration: 'none' })
  await Promise.all([
    reachesStatus(here, made.access_token, 200),
    reachesStatus(there, made.access_token, 200),
  ])
})

test('revocation: a late commit is not skipped', async () => {
  const made = await somebody()
  const database = await here.refOf(project.id)
  await here.asSuperuser(database, async slow => {
    await slow.script('begin')
    await slow.run(raw(`delete from auth.sessions where user_id = '${made.user.id}'`))
    for (let turn = 0; turn < 5; turn++) {
      const other = await somebody()
      await project.asUser(other.access_token, 'POST', '/logout')
      await reachesStatus(there, other.access_token, 401)
    }
    assert.equal((await whoami(there, made.access_token)).status, 200, 'not committed yet')
    await slow.script('commit')
  })
  await reachesStatus(there, made.access_token, 401)
})

test('revocation: a self-signed token without a session is valid until its user is banned', async () => {
  const made = await somebody()
  const token = signJwt(
    { role: 'authenticated', sub: made.user.id.toUpperCase(), exp: Date.now() / 1000 + 600 },
    project.jwt_secret,
  )
  assert.equal((await whoami(here, token)).status, 200)
  assert.equal((await project.asUser(token, 'GET', '/user')).body.code, 'session_not_found')
  await project.asAdmin('PUT', `/admin/users/${made.user.id}`, { ban_duration: '1h' })
  await reachesStatus(here, token, 401)
})

test('revocation: a revocation is deleted after its last token has expired', async () => {
  const made = await somebody()
  await asOwner(
    `update auth.sessions set tokens_until = now() - interval '2 minutes' where user_id = '${made.user.id}'`,
  )
  await asOwner(`delete from auth.sessions where user_id = '${made.user.id}'`)
  await asOwner(`insert into auth.revocations values (gen_random_uuid(), now() - interval '1 hour')`)
  const other = await somebody()
  await project.asUser(other.access_token, 'POST', '/logout')
  const rows = await here.asSuperuser(await here.refOf(project.id), session =>
    session.rows(raw('select from auth.revocations where until < now() - interval $$1 minute$$')),
  )
  assert.deepEqual(rows, [])
})
