// Concurrent flows on one user or one address: conflicts are reported, no request gets a 500, and no change is partial.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type AuthProject, authProject, password } from './auth-project.ts'
import { lastLink } from './caught-mail.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { newPkce } from './oauth-setup.ts'

let platform: TestPlatform
let project: AuthProject
before(async () => {
  // With the real cost of hashing, which widens the races.
  platform = await startPlatform({ bcryptCost: 10 })
  project = await authProject(platform)
})
after(() => platform?.stop())

const address = () => `${randomBytes(6).toString('hex')}@example.test`
const look = async <T = any>(text: string, at = project) =>
  platform.asSuperuser(await platform.refOf(at.id), session => session.rows<T>(raw(text)))
const times = <T>(count: number, work: (n: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, n) => work(n)))

/** Rate limit errors are allowed, other failures are not. */
function noneFailed(replies: readonly Reply[]): void {
  const failed = replies.filter(({ status }) => status >= 500)
  assert.deepEqual(
    failed.map(({ status, body }) => `${status} ${body.code}`),
    [],
  )
}
const count = (replies: readonly Reply[], status: number) =>
  replies.filter(reply => reply.status === status).length

async function made(): Promise<{ id: string; email: string }> {
  const email = address()
  const { body } = await project.asAdmin('POST', '/admin/users', { email, password, email_confirm: true })
  return { id: body.id, email }
}

// One user

test('auth concurrency: following a link while a new one is requested: exactly one of them works', async () => {
  for (let round = 0; round < 8; round++) {
    const { email } = await made()
    await project.auth('POST', '/otp', { email })
    const { token } = await lastLink(platform, project.id, email)
    const verify = () => project.auth('POST', '/verify', { type: 'magiclink', token_hash: token })
    const replies = await Promise.all([
      verify(),
      project.auth('POST', '/otp', { email }),
      verify(),
      project.auth('POST', '/recover', { email }),
      project.auth('POST', '/otp', { email }),
    ])
    noneFailed(replies)
    assert.ok(count([replies[0]!, replies[2]!], 200) <= 1)
    for (const reply of [replies[1]!, replies[3]!, replies[4]!]) assert.equal(reply.status, 200)
  }
})

test('auth concurrency: exchanging a code while its user is deleted leaves no valid session', async () => {
  for (let round = 0; round < 6; round++) {
    const { id, email } = await made()
    const { verifier, query } = newPkce()
    await project.auth('POST', '/otp', { email, ...query })
    const { link } = await lastLink(platform, project.id, email)
    const landed = await fetch(link, { redirect: 'manual' })
    const code = new URL(landed.headers.get('location')!).searchParams.get('code')
    const body = { auth_code: code, code_verifier: verifier }
    const replies = await Promise.all([
      project.auth('POST', '/token?grant_type=pkce', body),
      project.asAdmin('DELETE', `/admin/users/${id}`, { should_soft_delete: round % 2 === 0 }),
      project.auth('POST', '/token?grant_type=pkce', body),
    ])
    noneFailed(replies)
    assert.equal(replies[1]!.status, 200)
    for (const { body: session } of [replies[0]!, replies[2]!])
      if (session.access_token)
        assert.equal((await project.asUser(session.access_token, 'GET', '/user')).status, 403)
  }
})

test('auth concurrency: all flows on one user at the same time cause no deadlock or 500', async () => {
  const { id, email } = await made()
  const sessions = (await times(5, () => project.signIn(email))).map(({ body }) => body)
  const acts: (() => Promise<Reply>)[] = []
  for (let round = 0; round < 5; round++)
    for (const { access_token, refresh_token } of sessions) {
      const as = (method: string, path: string, body?: unknown) => () =>
        project.asUser(access_token, method, path, body)
      acts.push(
        as('PUT', '/user', { data: { round } }),
        as('GET', '/user'),
        as('POST', '/factors', { factor_type: 'totp', friendly_name: `phone ${round}` }),
        () => project.auth('POST', '/token?grant_type=refresh_token', { refresh_token }),
        () => project.auth('POST', '/recover', { email }),
        () => project.asAdmin('PUT', `/admin/users/${id}`, { user_metadata: { admin: round } }),
        () => project.asAdmin('POST', '/admin/generate_link', { type: 'recovery', email }),
      )
      if (round === 3) acts.push(as('POST', '/logout?scope=local'), as('POST', '/logout?scope=others'))
    }
  const replies: Reply[] = []
  for (let at = 0; at < acts.length; at += 25)
    replies.push(...(await Promise.all(acts.slice(at, at + 25).map(act => act()))))
  noneFailed(replies)
})

const ends: Record<string, (user: { id: string }) => Promise<Reply>> = {
  banned: ({ id }) => project.asAdmin('PUT', `/admin/users/${id}`, { ban_duration: '1h' }),
  deleted: ({ id }) => project.asAdmin('DELETE', `/admin/users/${id}`, {}),
  'softly deleted': ({ id }) => project.asAdmin('DELETE', `/admin/users/${id}`, { should_soft_delete: true }),
  'given another password': ({ id }) =>
    project.asAdmin('PUT', `/admin/users/${id}`, { password: 'another one' }),
}
for (const [what, end] of Object.entries(ends))
  test(`auth concurrency: a pending sign-in leaves no valid session when its user is ${what}`, async () => {
    for (let round = 0; round < 4; round++) {
      const user = await made()
      const signingIn = times(3, () => project.signIn(user.email))
      await sleep(round * 40)
      const ended = await end(user)
      assert.equal(ended.status, 200, JSON.stringify(ended.body))
      const replies = await signingIn
      noneFailed(replies)
      for (const { body } of replies)
        if (body.access_token)
          assert.equal((await project.asUser(body.access_token, 'GET', '/user')).status, 403)
    }
  })

test('auth concurrency: a sign-in with the old password leaves no session after a password change', async () => {
  for (let round = 0; round < 6; round++) {
    const { email } = await made()
    const { body: own } = await project.signIn(email)
    const changing = project.asUser(own.access_token, 'PUT', '/user', { password: 'a newer one' })
    await sleep(round * 40)
    const others = await times(3, () => project.signIn(email))
    const changed = await changing
    assert.equal(changed.status, 200, JSON.stringify(changed.body))
    noneFailed(others)
    for (const { body } of others)
      if (body.access_token)
        assert.equal((await project.asUser(body.access_token, 'GET', '/user')).status, 403)
  }
})

test('auth concurrency: of two concurrent password changes one succeeds, the other gets a conflict', async () => {
  const { email } = await made()
  const { body: own } = await project.signIn(email)
  const wanted = ['first new one', 'second new one', 'third new one']
  const replies = await Promise.all(
    wanted.map(each => project.asUser(own.access_token, 'PUT', '/user', { password: each })),
  )
  noneFailed(replies)
  assert.equal(count(replies, 200), 1)
  const [set] = wanted.filter((_, n) => replies[n]!.status === 200)
  for (const each of wanted)
    assert.equal((await project.signIn(email, each)).status, each === set ? 200 : 400)
})

test('auth concurrency: a lock timeout is a conflict, not a 500', async () => {
  const { email } = await made()
  const { body: own } = await project.signIn(email)
  await platform.asSuperuser(await platform.refOf(project.id), async holder => {
    await holder.script('begin')
    await holder.rows(raw(`select from auth.users where email = '${email}' for update`))
    const replies = await Promise.all([
      project.signIn(email),
      project.asUser(own.access_token, 'PUT', '/user', { data: { a: 1 } }),
      project.auth('POST', '/recover', { email }),
      project.asUser(own.access_token, 'POST', '/logout'),
    ])
    await holder.script('rollback')
    assert.deepEqual(
      replies.map(({ status, body }) => [status, body.code]),
      replies.map(() => [409, 'conflict']),
    )
  })
})

test('auth concurrency: a revocation lasts as long as the last token of its session', async () => {
  const { email } = await made()
  const signedIn = await platform.asSuperuser(await platform.refOf(project.id), async holder => {
    await holder.script('begin')
    await holder.rows(raw(`select from auth.users where email = '${email}' for update`))
    const signingIn = project.signIn(email)
    const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    while ((await look(waits)).length === 0) await sleep(20)
    await sleep(1500)
    await holder.script('commit')
    return signingIn
  })
  const { access_token } = signedIn.body
  const { exp } = JSON.parse(Buffer.from(access_token.split('.')[1], 'base64url').toString())
  await project.asUser(access_token, 'POST', '/logout')
  const [{ until }] = await look(
    `select extract(epoch from r.until)::float8 as until from auth.revocations r order by xid desc limit 1`,
  )
  assert.ok(until >= exp, `revoked until ${until}, valid until ${exp}`)
})

// One address

test('auth concurrency: of many concurrent changes to one address one succeeds, the others get an error', async () => {
  for (let round = 0; round < 4; round++) {
    const email = address()
    const anonymous = await times(4, () => project.auth('POST', '/signup', {}))
    const replies = await Promise.all(
      anonymous.map(({ body }) => project.asUser(body.access_token, 'PUT', '/user', { email })),
    )
    assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 422, 422, 422])
  }
  const users = await times(4, made)
  for (let round = 0; round < 4; round++) {
    const email = address()
    const replies = await Promise.all(
      users.map(({ id }) => project.asAdmin('PUT', `/admin/users/${id}`, { email })),
    )
    assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 422, 422, 422])
  }
})

const waysIn: Record<string, (email: string, n: number) => Promise<Reply>> = {
  'invited at once': email => project.asAdmin('POST', '/invite', { email }),
  'given links of all kinds at once': (email, n) =>
    project.asAdmin('POST', '/admin/generate_link', {
      type: ['invite', 'magiclink', 'signup'][n % 3],
      email,
      password,
    }),
  'requested by mail concurrently': email => project.auth('POST', '/otp', { email }),
  'signed up at once': email => project.auth('POST', '/signup', { email, password }),
  'created at once': email => project.asAdmin('POST', '/admin/users', { email }),
}
for (const [what, way] of Object.entries(waysIn))
  test(`auth concurrency: one address that is ${what} becomes one user`, async () => {
    for (let round = 0; round < 4; round++) {
      const email = address()
      noneFailed(await times(5, n => way(email, n)))
      const users = await look(`
        select (select count(*)::int from auth.identities i where i.user_id = u.id) as identities,
               (select count(*)::int from auth.events e where e.user_id = u.id and type = 'user.created') as events
          from auth.users u where email = '${email}'`)
      assert.deepEqual(users, [{ identities: 1, events: 1 }])
    }
  })

// Terminated connections

test('auth concurrency: terminated connections leave no user without identity and event', async () => {
  const own = await authProject(platform)
  const storm = times(24, async n => {
    await sleep(n * 10)
    const email = address()
    const signedUp = await own.auth('POST', '/signup', { email, password })
    return [signedUp, await own.signIn(email), await own.auth('POST', '/otp', { email: address() })]
  })
  let isOver = false
  const cutting = (async () => {
    while (!isOver) {
      await look(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and usename like '%\\_auth' and random() < 0.3`,
        own,
      )
      await sleep(60)
    }
  })()
  const replies = (await storm).flat()
  isOver = true
  await cutting
  const strange = replies.filter(({ status }) => ![200, 400, 409, 422, 429, 503].includes(status))
  assert.deepEqual(
    strange.map(({ status, body }) => `${status} ${body.code}`),
    [],
  )
  const [wrong] = await look(
    `select (select count(*)::int from auth.users u where not exists (select from auth.identities i where i.user_id = u.id)) as "no identity",
            (select count(*)::int from auth.users u where not exists (
               select from auth.events e where e.user_id = u.id and type = 'user.created')) as "no event",
            (select count(*)::int from auth.sessions) - (
               select count(*)::int from auth.events where type = 'user.signed_in') as "sessions less sign-ins"`,
    own,
  )
  assert.deepEqual(wrong, { 'no identity': 0, 'no event': 0, 'sessions less sign-ins': 0 })
  assert.equal((await own.auth('POST', '/signup', { email: address(), password })).status, 200)
})
