// A session that has ended and a user who is banned or gone: refused at once by the auth routes, within a second by
// everything else, on every node, whoever ended it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type AuthProject, authProject } from './signed-up.ts'

let here: TestPlatform
let there: TestPlatform
let project: AuthProject
before(async () => {
  here = await startPlatform()
  there = await startPlatform({ beside: here })
  project = await authProject(here)
})
after(async () => {
  await there.stop()
  await here.stop()
})

const whoami = (node: TestPlatform, token: string) =>
  node.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, token })

/** Calls all the time, so that what is remembered is as fresh as it gets, until the answer has the status. */
async function eventually(node: TestPlatform, token: string, status: number): Promise<void> {
  const begun = performance.now()
  for (;;) {
    const reply = await whoami(node, token)
    if (reply.status === status) return
    assert.ok(performance.now() - begun < 20_000, `${status}, not ${reply.status}`)
    await sleep(20)
  }
}

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
  test(`the token of a user who was ${what} stops counting on both nodes`, async () => {
    const [made, other] = [await somebody(), await somebody()]
    await act(made)
    const auth = await project.asUser(made.access_token, 'GET', '/user')
    assert.equal(auth.status, 403, 'at once here')
    await Promise.all([eventually(here, made.access_token, 401), eventually(there, made.access_token, 401)])
    for (const node of [here, there])
      assert.equal((await whoami(node, other.access_token)).status, 200, 'others are not concerned')
  })

test('a node that has heard nothing for a while does not admit on what it knew', async () => {
  const made = await somebody()
  await sleep(1000)
  await project.asUser(made.access_token, 'POST', '/logout')
  assert.equal((await whoami(there, made.access_token)).status, 401, 'the very first call')
})

test('a lifted ban counts on both nodes, too', async () => {
  const made = await somebody()
  await project.asAdmin('PUT', `/admin/users/${made.user.id}`, { ban_duration: '1h' })
  await eventually(there, made.access_token, 401)
  await project.asAdmin('PUT', `/admin/users/${made.user.id}`, { ban_duration: 'none' })
  await Promise.all([eventually(here, made.access_token, 200), eventually(there, made.access_token, 200)])
})

test('a change that commits long after others began is not missed', async () => {
  const made = await somebody()
  const database = await here.refOf(project.id)
  await here.asSuperuser(database, async slow => {
    await slow.script('begin')
    await slow.run(raw(`delete from auth.sessions where user_id = '${made.user.id}'`))
    for (let turn = 0; turn < 5; turn++) {
      const other = await somebody()
      await project.asUser(other.access_token, 'POST', '/logout')
      await eventually(there, other.access_token, 401)
    }
    assert.equal((await whoami(there, made.access_token)).status, 200, 'not committed yet')
    await slow.script('commit')
  })
  await eventually(there, made.access_token, 401)
})

test('a token made by hand without a session is admitted, and refused once its user is banned', async () => {
  const made = await somebody()
  const token = signJwt(
    { role: 'authenticated', sub: made.user.id.toUpperCase(), exp: Date.now() / 1000 + 600 },
    project.jwt_secret,
  )
  assert.equal((await whoami(here, token)).status, 200)
  assert.equal((await project.asUser(token, 'GET', '/user')).body.code, 'session_not_found')
  await project.asAdmin('PUT', `/admin/users/${made.user.id}`, { ban_duration: '1h' })
  await eventually(here, token, 401)
})

test('what is noted goes once no token can be about any more', async () => {
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
