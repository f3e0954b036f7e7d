// Users and auth settings through the management API: rows in the databases, errors from the project's own triggers and
// foreign keys, concurrency and interruptions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { createImport } from '#src/services/auth/import/service.ts'
import { settingsContext } from '#src/tenancy/settings-secrets.ts'
import { type AuthProject, authProject, password } from './auth-project.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
/** A second node on the same control database. */
let beside: TestPlatform
before(async () => {
  // Some tests poll until a change takes effect.
  const settings = { PLATFORM_RATE_LIMIT_ANON: '0', PLATFORM_RATE_LIMIT_AUTHENTICATED: '0' }
  platform = await startPlatform({ settings })
  beside = await startPlatform({ beside: platform, settings })
})
after(async () => {
  await beside?.stop()
  await platform?.stop()
})

const manage = (project: AuthProject, method: string, path: string, body?: unknown): Promise<Reply> =>
  platform.call(method, `/api/v1/projects/${project.id}${path}`, {
    token: platform.adminToken,
    ...(body !== undefined && { body }),
  })
const importUsers = (project: AuthProject, users: unknown[]) =>
  manage(project, 'POST', '/users/import', { users })

async function create(project: AuthProject, email = address()): Promise<any> {
  const { status, body } = await manage(project, 'POST', '/users', { email, password })
  assert.equal(status, 201, JSON.stringify(body))
  return body
}

const address = () => `${crypto.randomUUID()}@example.test`
const record = (email = address()) => ({ id: crypto.randomUUID(), email, raw_user_meta_data: { a: 1 } })

/** Statements as superuser. */
const look = async <T>(project: AuthProject, text: string): Promise<T[]> => {
  const ref = await platform.refOf(project.id)
  return platform.asSuperuser(ref, session => session.rows<T>(raw(text)))
}
/** Runs a statement as a migration of the project. */
async function push(project: AuthProject, text: string): Promise<void> {
  const { status, body } = await manage(project, 'POST', '/db/push', {
    migrations: [{ version: String(Date.now()), name: 'step', sql: text }],
  })
  assert.equal(status, 200, JSON.stringify(body))
}
const eventsOf = async (project: AuthProject, userId: string) =>
  (
    await look<{ type: string }>(
      project,
      `select type from auth.events where user_id = '${userId}' order by created_at`,
    )
  ).map(({ type }) => type)

test('users: every change emits one event, and a call that changes nothing emits none', async () => {
  const project = await authProject(platform)
  const { id, email } = await create(project)
  assert.deepEqual(await eventsOf(project, id), ['user.created'])
  await manage(project, 'POST', `/users/${id}/unban`)
  await manage(project, 'DELETE', `/users/${id}/sessions`)
  await manage(project, 'DELETE', `/users/${id}/sessions/${crypto.randomUUID()}`)
  assert.deepEqual(await eventsOf(project, id), ['user.created'], 'only the creation emits an event')
  await manage(project, 'POST', `/users/${id}/ban`, { reason: 'x' })
  await manage(project, 'POST', `/users/${id}/unban`)
  await project.signIn(email)
  await project.signIn(email)
  const [session] = (await manage(project, 'GET', `/users/${id}/sessions`)).body.sessions
  await manage(project, 'DELETE', `/users/${id}/sessions/${session.id}`)
  await manage(project, 'DELETE', `/users/${id}/sessions`)
  await manage(project, 'DELETE', `/users/${id}`)
  assert.deepEqual(await eventsOf(project, id), [
    'user.created',
    'user.updated',
    'user.updated',
    'user.signed_in',
    'user.signed_in',
    'user.signed_out',
    'user.signed_out',
    'user.deleted',
  ])
})

test('users: a session that can no longer be refreshed is not listed', async () => {
  const project = await authProject(platform, { refresh_token_duration_seconds: 3600 })
  const { id, email } = await create(project)
  for (let n = 0; n < 3; n++) await project.signIn(email)
  const listed = async () => (await manage(project, 'GET', `/users/${id}/sessions`)).body
  const [first, second, third] = (await listed()).sessions
  await look(
    project,
    `update auth.sessions set created_at = now() - interval '61 minutes' where id = '${first.id}' returning id`,
  )
  await look(
    project,
    `update auth.sessions set not_after = now() - interval '1 second' where id = '${second.id}' returning id`,
  )
  const left = await listed()
  assert.deepEqual([left.total, left.sessions.map((each: any) => each.id)], [1, [third.id]])
})

test('users: a user banned until infinity by SQL is listed', async () => {
  const project = await authProject(platform)
  const { id } = await create(project)
  await look(project, `update auth.users set banned_until = 'infinity' where id = '${id}' returning id`)
  const { status, body } = await manage(project, 'GET', '/users')
  assert.equal(status, 200)
  assert.deepEqual([body.users[0].is_banned, body.users[0].banned_until], [true, '9999-01-01T00:00:00.000Z'])
})

test('users: a client secret is always stored sealed, and a request without it keeps it', async () => {
  const project = await authProject(platform)
  const sealer = createSealer(keyring(platform.controlPlaneSecret)('sealed'))
  const stored = async () =>
    (await platform.app.control.row<{ settings: any }>(
      sql`select settings from projects where id = ${project.id}`,
    ))!.settings.auth.providers.github
  const put = (body: object) =>
    manage(project, 'PUT', '/auth/providers', { provider: 'github', client_id: 'c', ...body })
  for (const secret of ['an ordinary secret', 'sealed:v1:bm90LXNlYWxlZC1hdC1hbGw']) {
    assert.equal((await put({ client_secret: secret })).status, 200)
    const { client_secret: first } = await stored()
    assert.ok(first.startsWith('sealed:v1:') && first !== secret)
    assert.equal(sealer.open(first, settingsContext(project.id)), secret)
    for (const body of [{}, { client_secret: '[redacted]' }, { enabled: false }]) {
      await put(body)
      assert.equal((await stored()).client_secret, first)
    }
  }
  await put({ client_secret: '' })
  assert.deepEqual(await stored(), { enabled: true, client_id: 'c' })
})

test('users: concurrent changes of the project settings are not lost', async () => {
  const project = await authProject(platform)
  const known = { token: platform.adminToken }
  await eventually(
    async () => (await beside.call('GET', `/api/v1/projects/${project.id}/auth`, known)).status === 200,
    'the other node serves the project',
  )
  await Promise.all(
    Array.from({ length: 12 }, (_, n) =>
      (n % 2 === 0 ? platform : beside).call(
        'PATCH',
        `/api/v1/projects/${project.id}${n % 3 ? '/auth' : ''}`,
        {
          token: platform.adminToken,
          body: n % 3 ? { rate_limits: { [limitNames[n % 7]!]: 100 + n } } : { settings: { [`key${n}`]: n } },
        },
      ),
    ),
  )
  const { settings } = (await platform.projects.read({ params: { id: project.id } })) as any
  for (let n = 0; n < 12; n++)
    if (n % 3 === 0) assert.equal(settings[`key${n}`], n)
    else assert.ok(settings.auth.rate_limits[limitNames[n % 7]!] >= 100, `write ${n} is lost`)
})
const limitNames = ['token', 'verify', 'email', 'anonymous', 'mfa', 'mail', 'mail_interval_seconds']

test('users: a change of the settings takes effect on another node', async () => {
  const project = await authProject(platform, {}, beside)
  const signUp = () => project.auth('POST', '/signup', { email: address(), password })
  await eventually(async () => (await signUp()).status === 200, 'the other node serves the project')
  await manage(project, 'PATCH', '/auth', { signup_enabled: false })
  await eventually(
    async () => (await signUp()).body.code === 'signup_disabled',
    'the other node rejects sign-ups',
  )
})

test('users: a user banned, deleted or signed out is refused by the row API of every node within a second', async () => {
  const project = await authProject(platform)
  await push(
    project,
    'create table notes (id int); create policy all_of_them on notes for select using (true)',
  )
  const rows = (node: TestPlatform, token: string) =>
    node.call('GET', `/v1/rest/${project.id}/notes`, { apikey: project.anon_key, token })
  const acts: Record<string, (id: string) => Promise<unknown>> = {
    banned: id => manage(project, 'POST', `/users/${id}/ban`, {}),
    deleted: id => manage(project, 'DELETE', `/users/${id}`),
    'signed out': id => manage(project, 'DELETE', `/users/${id}/sessions`),
    'signed out of one session': async id => {
      const [session] = (await manage(project, 'GET', `/users/${id}/sessions`)).body.sessions
      return manage(project, 'DELETE', `/users/${id}/sessions/${session.id}`)
    },
  }
  const other = await project.signUp(address())
  for (const [what, act] of Object.entries(acts)) {
    const { access_token: token, user } = await project.signUp(address())
    for (const node of [platform, beside])
      await eventually(
        async () => (await rows(node, token)).status === 200,
        `${what}: the user is admitted at first`,
      )
    await act(user.id)
    assert.equal((await project.asUser(token, 'GET', '/user')).status, 403, `${what}: at once here`)
    for (const node of [platform, beside])
      await eventually(
        async () => [401, 403].includes((await rows(node, token)).status),
        `${what}: the user is refused`,
      )
    assert.equal((await rows(beside, other.access_token)).status, 200, 'other users are not affected')
  }
})

test('users: a trigger error of the project is reported, and nothing is created', async () => {
  const project = await authProject(platform)
  await push(
    project,
    `create function refuse() returns trigger language plpgsql as $$
       begin
         if new.email like 'no%' then raise exception 'not in our house'; end if;
         return new;
       end $$;
     create trigger refuse before insert on auth.users for each row execute function refuse()`,
  )
  const refused = await manage(project, 'POST', '/users', { email: 'nobody@example.test' })
  assert.deepEqual([refused.status, refused.body.error.code], [400, 'sql_error'])
  assert.match(refused.body.error.message, /not in our house/)
  await create(project, 'yes@example.test')
  const [left] = await look(
    project,
    'select (select count(*)::int from auth.events) as events, (select count(*)::int from auth.users) as users',
  )
  assert.deepEqual(left, { events: 1, users: 1 })
})

test('users: a user that rows of the project reference is not deleted, and the error names the table', async () => {
  const project = await authProject(platform)
  await push(project, 'create table notes (id int, owner uuid not null references auth.users)')
  const { id, email } = await create(project)
  const { body: session } = await project.signIn(email)
  await look(project, `insert into public.notes values (1, '${id}') returning id`)
  const refused = await manage(project, 'DELETE', `/users/${id}`)
  assert.deepEqual([refused.status, refused.body.error.code], [409, 'constraint_violated'])
  assert.match(refused.body.error.message, /notes/)
  assert.equal((await project.asUser(session.access_token, 'GET', '/user')).status, 200)
  await look(project, 'delete from public.notes returning id')
  assert.equal((await manage(project, 'DELETE', `/users/${id}`)).status, 204)
})

/** Records how many rows each statement on auth.users inserted; refuses or skips some of them. */
const watching = `
  create table statements (n serial, number int);
  create table brake (is_on boolean);
  create function count_rows() returns trigger language plpgsql security definer set search_path = public as $$
    begin insert into statements (number) select count(*) from made; return null; end $$;
  create trigger count_rows after insert on auth.users referencing new table as made
    for each statement execute function count_rows();
  create function judge() returns trigger language plpgsql security definer set search_path = public as $$
    begin
      if new.email like 'refused%' then raise exception 'refused by hand'; end if;
      if new.email like 'busy%' then raise exception 'busy by hand' using errcode = '55P03'; end if;
      if new.email like 'left-out%' then return null; end if;
      if new.email like 'slow%' and exists (select from brake) then perform pg_sleep(7); end if;
      return new;
    end $$;
  create trigger judge before insert on auth.users for each row execute function judge()`

const whole = `
  select count(*)::int as users,
         count(*) filter (where exists (select from auth.identities i where i.user_id = u.id
                                          and i.provider = 'email' and i.email = u.email))::int as identities,
         count(*) filter (where exists (select from auth.events e where e.user_id = u.id
                                          and e.type = 'user.created'))::int as events
    from auth.users u`

test('user import: a thousand records are one statement, each user with identity and event', async () => {
  const project = await authProject(platform)
  await push(project, watching)
  const { body } = await importUsers(
    project,
    Array.from({ length: 1000 }, () => record()),
  )
  assert.equal(body.imported, 1000)
  assert.deepEqual(await look(project, 'select number from public.statements'), [{ number: 1000 }])
  assert.deepEqual(await look(project, whole), [{ users: 1000, identities: 1000, events: 1000 }])
})

test('user import: records that triggers refuse or skip are errors, all others are imported in few statements', async () => {
  const project = await authProject(platform)
  await push(project, watching)
  const bad = new Map([
    [17, 'refused@example.test'],
    [99, 'left-out@example.test'],
    [150, 'busy@example.test'],
  ])
  const records = Array.from({ length: 200 }, (_, n) => record(bad.get(n)))
  const { body } = await importUsers(project, records)
  assert.deepEqual([body.imported, body.failed], [197, 3])
  assert.match(body.results[17].reason, /refused by hand.*P0001/)
  assert.match(body.results[150].reason, /busy by hand.*55P03/)
  assert.match(body.results[99].reason, /trigger/)
  for (const [n, result] of body.results.entries())
    assert.deepEqual([result.id, result.status], [records[n]!.id, bad.has(n) ? 'error' : 'created'])
  assert.deepEqual(await look(project, whole), [{ users: 197, identities: 197, events: 197 }])
  const statements = await look(project, 'select number from public.statements')
  assert.ok(statements.length <= 20, `${statements.length} statements`)
})

test('user import: an interrupted import leaves no incomplete user and can be repeated', async () => {
  const project = await authProject(platform)
  await push(project, watching)
  // The first record is refused, so that the batch is halved; the last one blocks the import.
  const records = [
    record('refused@example.test'),
    ...Array.from({ length: 60 }, () => record()),
    record('slow@example.test'),
  ]
  await look(project, 'insert into public.brake values (true) returning is_on')
  const running = importUsers(project, records)
  const sleepers = `select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`
  const committed = async () => (await look<{ users: number }>(project, whole))[0]!.users
  await eventually(
    async () => (await committed()) > 0 && (await look(project, sleepers)).length > 0,
    'the import blocks',
  )
  await look(project, `select pg_terminate_backend(pid) from (${sleepers}) as sleeping`)
  const cut = await running
  assert.equal(cut.status, 503, JSON.stringify(cut.body))
  const [left] = await look<Record<string, number>>(project, whole)
  assert.ok(left!['users']! > 0 && left!['users']! < 61)
  assert.deepEqual(left, { users: left!['users'], identities: left!['users'], events: left!['users'] })

  await look(project, 'delete from public.brake returning is_on')
  const { body } = await importUsers(project, records)
  assert.deepEqual([body.imported, body.skipped, body.failed], [61 - left!['users']!, left!['users'], 1])
  assert.deepEqual(await look(project, whole), [{ users: 61, identities: 61, events: 61 }])
})

test('user import: after its timeout the remaining records fail with a reason', async () => {
  const project = await authProject(platform)
  await push(project, watching)
  const tenant = (await platform.app.directory.find(project.id))!
  const hasty = createImport(platform.app.databases, 0)
  const { results, failed } = await hasty(tenant, [record(), record()])
  assert.equal(failed, 2)
  for (const { reason } of results) assert.match(reason!, /took too long; import this record again/)
  assert.deepEqual(await look(project, whole), [{ users: 0, identities: 0, events: 0 }])
})

test('user import: two concurrent imports of the same records create each user once', async () => {
  const project = await authProject(platform)
  const records = Array.from({ length: 300 }, () => record())
  const replies = await Promise.all([
    importUsers(project, records),
    importUsers(project, records.toReversed()),
    importUsers(
      project,
      records.map(each => ({ ...each, id: crypto.randomUUID() })),
    ),
  ])
  const statuses = replies.map(({ status }) => status)
  assert.deepEqual(statuses, [200, 200, 200])
  const total = (field: string) => replies.reduce((sum, { body }) => sum + body[field], 0)
  assert.deepEqual(
    [total('imported'), total('failed')],
    [300, 0],
    JSON.stringify(replies[0]!.body).slice(0, 500),
  )
  assert.deepEqual(await look(project, whole), [{ users: 300, identities: 300, events: 300 }])
})

test('user import: times keep microseconds', async () => {
  const project = await authProject(platform)
  const given = { ...record(), created_at: '2020-01-02 03:04:05.678901+02' }
  assert.equal((await importUsers(project, [given])).body.imported, 1)
  const rows = await look(project, `select (created_at at time zone 'UTC')::text as at from auth.users`)
  assert.deepEqual(rows, [{ at: '2020-01-02 01:04:05.678901' }])
})
