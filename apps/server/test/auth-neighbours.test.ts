// Data and SQL of one project in its auth schema must not affect the platform or other projects.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { hash as argon2 } from '@node-rs/argon2'
import { hash as bcrypt } from '@node-rs/bcrypt'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type AuthProject, authProject, password } from './auth-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { allowsLocalMail } from './mail/server.ts'
import { openMailbox } from './mailbox.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: allowsLocalMail })
})
after(() => platform?.stop())

const address = () => `${randomBytes(6).toString('hex')}@example.test`
let version = 0
const push = (project: AuthProject, text: string) =>
  platform.call('POST', `/api/v1/projects/${project.id}/db/push`, {
    token: platform.adminToken,
    body: { migrations: [{ version: String(++version), name: 'x', sql: text }] },
  })
const look = async <T = any>(project: AuthProject, text: string) =>
  platform.asSuperuser(await platform.refOf(project.id), session => session.rows<T>(raw(text)))

// Hashes

test('auth isolation: a stored hash with an excessive cost matches no password', async () => {
  const project = await authProject(platform)
  const hashes = [
    await bcrypt(password, 15),
    await argon2(password, { memoryCost: 128 * 1024, timeCost: 1 }),
    await argon2(password, { memoryCost: 1024, timeCost: 11 }),
  ]
  for (const stored of hashes) {
    const email = address()
    const seeded = await push(
      project,
      `insert into auth.users (email, encrypted_password, email_confirmed_at) values ('${email}', '${stored}', now())`,
    )
    assert.equal(seeded.status, 200, JSON.stringify(seeded.body))
    const signedIn = await project.signIn(email)
    assert.deepEqual([signedIn.status, signedIn.body.code], [400, 'invalid_credentials'], stored.slice(0, 30))
    const given = { email: address(), password_hash: stored }
    assert.equal((await project.asAdmin('POST', '/admin/users', given)).status, 400)
  }
  const email = address()
  await project.asAdmin('POST', '/admin/users', {
    email,
    email_confirm: true,
    password_hash: await argon2(password),
  })
  assert.equal((await project.signIn(email)).status, 200, 'a hash with a normal cost works')
})

// Sizes

test('auth isolation: user metadata is limited to the token size for every writer', async () => {
  const project = await authProject(platform)
  const { user } = await project.signUp(address())
  const large = `jsonb_build_object('a', repeat('x', 100000))`
  for (const statement of [
    `update auth.users set raw_user_meta_data = ${large}`,
    `update auth.users set raw_app_meta_data = ${large}`,
    `update auth.identities set identity_data = ${large}`,
    `insert into auth.users (email, raw_user_meta_data) values ('${address()}', ${large})`,
  ])
    assert.equal((await push(project, statement)).status, 400, statement)
  const many = await push(
    project,
    `insert into auth.identities (user_id, provider, provider_id, identity_data)
       select '${user.id}', 'p' || n, n::text, jsonb_build_object('a', repeat('x', 12000)) from generate_series(1, 2000) n`,
  )
  assert.equal(many.status, 200, JSON.stringify(many.body))
  const read = await project.asAdmin('GET', `/admin/users/${user.id}`)
  assert.ok(JSON.stringify(read.body).length < 1_000_000, 'a user object stays small')
})

test('auth isolation: SQL of the project cannot write revocations', async () => {
  const project = await authProject(platform)
  for (const statement of [
    `insert into auth.revocations (subject, until) select gen_random_uuid(), now() from generate_series(1, 10)`,
    'update auth.revocations set until = now()',
    'delete from auth.revocations',
    `create function public.f() returns trigger language plpgsql as 'begin return new; end';
     create trigger t before insert on auth.revocations for each row execute function public.f()`,
  ])
    assert.equal((await push(project, statement)).status, 400, statement)
})

test('auth isolation: more revocations than the cache holds still apply, and only to their sessions', async () => {
  const project = await authProject(platform)
  const [gone, there] = [await project.signUp(address()), await project.signUp(address())]
  const whoami = (token: string) =>
    platform.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, token })
  await look(
    project,
    `insert into auth.revocations (subject, until)
     select gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 30000)`,
  )
  await project.asUser(gone.access_token, 'POST', '/logout')
  assert.equal((await whoami(gone.access_token)).status, 401)
  assert.equal((await whoami(there.access_token)).status, 200)
})

// Revocations

test('auth isolation: a ban removed while a node did not poll no longer applies', async context => {
  const project = await authProject(platform)
  const { access_token: token, user } = await project.signUp(address())
  const whoami = () => platform.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, token })
  await project.asAdmin('PUT', `/admin/users/${user.id}`, { ban_duration: '24h' })
  while ((await whoami()).status !== 401) await sleep(50)
  await project.asAdmin('PUT', `/admin/users/${user.id}`, { ban_duration: 'none' })
  // After a minute the row about the removed ban is deleted.
  await look(project, `delete from auth.revocations where subject = '${user.id}'`)
  const now = performance.now.bind(performance)
  context.mock.method(performance, 'now', () => now() + 60_000)
  assert.equal((await whoami()).status, 200)
})

test('auth isolation: a new user with the id of a deleted one is admitted', async () => {
  const project = await authProject(platform)
  const email = address()
  const { user } = await project.signUp(email)
  for (const make of [
    () => project.asAdmin('POST', '/admin/users', { id: user.id, email, password, email_confirm: true }),
    () =>
      push(
        project,
        `insert into auth.users (id, email, email_confirmed_at) values ('${user.id}', '${email}', now())`,
      ),
  ]) {
    assert.equal((await project.asAdmin('DELETE', `/admin/users/${user.id}`, {})).status, 200)
    const made = await make()
    assert.equal(made.status, 200, JSON.stringify(made.body))
    await project.asAdmin('PUT', `/admin/users/${user.id}`, { password: 'another one' })
    const { body } = await project.signIn(email, 'another one')
    const rows = await platform.call('GET', `/v1/whoami/${project.id}`, {
      apikey: project.anon_key,
      token: body.access_token,
    })
    assert.equal(rows.status, 200)
  }
})

// Patterns

test('auth isolation: no redirect pattern uses excessive CPU time', async () => {
  const project = await authProject(platform, {
    redirect_allow_list: [
      `https://${'**a'.repeat(12)}**b`,
      ...Array.from({ length: 99 }, (_, n) => `h${'**a'.repeat(8)}${n}`),
    ],
  })
  const to = `https://x/${'a'.repeat(4000)}`
  const query = new URLSearchParams({ token: 'x', type: 'signup', redirect_to: to })
  // Any answer will do: exponential backtracking would take hours.
  const reply = await fetch(`${platform.url}/v1/${project.id}/auth/v1/verify?${query}`, {
    redirect: 'manual',
  })
  assert.equal(reply.status, 303)
  assert.ok(!reply.headers.get('location')!.startsWith('https://x/'))
})

// Rows that refer to users

test('auth isolation: deleting a user that rows of the project reference is refused with a conflict', async () => {
  const project = await authProject(platform)
  const { user } = await project.signUp(address())
  await push(
    project,
    `create table public.notes (owner uuid references auth.users); insert into public.notes values ('${user.id}')`,
  )
  const refused = await project.asAdmin('DELETE', `/admin/users/${user.id}`, {})
  assert.equal(refused.status, 409, JSON.stringify(refused.body))
  assert.equal((await project.asAdmin('GET', `/admin/users/${user.id}`)).status, 200)
})

// Connections

test('auth isolation: suspending a project with waiting requests leaks no connection', async () => {
  const small = await startPlatform({ settings: { PLATFORM_MAX_DB_CONNECTIONS: '4' } })
  try {
    const [held, waiting] = await Promise.all([authProject(small), authProject(small)])
    await small.asSuperuser(await small.refOf(held.id), async holder => {
      await holder.script('begin; lock table auth.users')
      const signingUp = Array.from({ length: 4 }, () => held.auth('POST', '/signup', {}))
      while (small.app.databases.connections() < 4) await sleep(10)
      const recoveries = Array.from({ length: 20 }, () =>
        waiting.auth('POST', '/recover', { email: address() }),
      )
      await sleep(200)
      await small.projects.suspend({ params: { id: waiting.id } })
      await holder.script('rollback')
      await Promise.all([...signingUp, ...recoveries])
    })
    for (const { id } of [held, waiting]) small.app.databases.disconnect(id)
    assert.equal(small.app.databases.connections(), 0)
  } finally {
    await small.stop()
  }
})

// Mail

test('auth isolation: SMTP servers that never answer do not delay mail of other projects', async () => {
  const open = new Set<Socket>()
  const pit = createServer(socket => {
    open.add(socket)
    const drip = setInterval(() => socket.write('250-wait\r\n'), 2000)
    socket.on('error', () => {})
    socket.on('close', () => {
      clearInterval(drip)
      open.delete(socket)
    })
    socket.write('220 hello\r\n')
  }).listen(0, '127.0.0.1')
  await once(pit, 'listening')
  const mailbox = await openMailbox()
  try {
    const { port } = pit.address() as AddressInfo
    const slow = await Promise.all(Array.from({ length: 4 }, () => authProject(platform)))
    for (const { id } of slow)
      await platform.call('PUT', `/api/v1/projects/${id}/email/smtp`, {
        token: platform.adminToken,
        body: { host: '127.0.0.1', port, from_email: 'a@example.test', encryption: 'none' },
      })
    await Promise.all(
      slow.flatMap(project =>
        Array.from({ length: 3 }, () => project.auth('POST', '/otp', { email: address() })),
      ),
    )
    while (open.size < 6) await sleep(50)
    const first = [...open].slice(0, 6)
    const neighbour = await authProject(platform)
    await mailbox.servedBy(platform, neighbour.id)
    const email = address()
    await neighbour.auth('POST', '/otp', { email })
    await mailbox.nextCode(email)
    assert.ok(
      first.every(socket => open.has(socket)),
      'the mail waited for the timeout of another one',
    )
  } finally {
    for (const socket of open) socket.destroy()
    pit.close()
    await mailbox.stop()
  }
})

// Triggers

const trigger = (when: string, body: string, table = 'auth.users') =>
  `create function public.t() returns trigger language plpgsql as $$ begin ${body} end $$;
   create trigger t ${when} on ${table} for each row execute function public.t()`
/** The message in the answer, for triggers that raise their own. */
const texts: Record<string, string> = {
  raises: 'no',
  'refuses sessions': 'no',
  'refuses events': 'no',
  'calls itself for ever': 'stack depth limit exceeded',
  'takes too long': 'canceling statement due to statement timeout',
  'divides by zero': 'division by zero',
  'raises a code of its own': 'not on Sundays',
}
const triggers: Record<string, string> = {
  'raises a code of its own': trigger(
    'before insert',
    `raise exception 'not on Sundays' using errcode = 'XX000', detail = 'hash: ' || new.encrypted_password; return new;`,
  ),
  'divides by zero': trigger('before insert', 'perform 1 / 0; return new;'),
  'takes too long': trigger('before insert', 'perform pg_sleep(60); return new;'),
  raises: trigger('before insert', `raise exception 'no'; return new;`),
  'leaves the user out': trigger('before insert', 'return null;'),
  'gives another id': trigger('before insert', 'new.id := gen_random_uuid(); return new;'),
  'deletes the user': trigger('after insert', 'delete from auth.users where id = new.id; return null;'),
  'leaves changes out': trigger('before update', 'return null;'),
  'calls itself for ever': trigger(
    'after update',
    'update auth.users set updated_at = now() where id = new.id; return null;',
  ),
  'wants to be somebody else': trigger('after insert', `execute 'set role service_role'; return null;`),
  'wants to commit': trigger('after insert', 'commit; return null;'),
  'ends its connection': trigger(
    'after insert',
    'perform pg_terminate_backend(pg_backend_pid()); return null;',
  ),
  'refuses sessions': trigger('before insert', `raise exception 'no'; return new;`, 'auth.sessions'),
  'leaves sessions out': trigger('before insert', 'return null;', 'auth.sessions'),
}
for (const [what, text] of Object.entries(triggers))
  test(`case 53: auth: a trigger that ${what} rolls back the sign-up and does not cause a 500`, async () => {
    const project = await authProject(platform)
    const pushed = await push(project, text)
    assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
    const reply = await project.auth('POST', '/signup', { email: address(), password })
    if (texts[what]) assert.deepEqual([reply.status, reply.body.msg], [400, texts[what]])
    // The detail of the error may show the row with the password hash.
    assert.equal(reply.body.details, '')
    const isEnded = what === 'ends its connection'
    assert.ok(isEnded ? reply.status === 503 : reply.status >= 400 && reply.status < 500, `${reply.status}`)
    const [left] = await look(
      project,
      `select (select count(*)::int from auth.users) as users, (select count(*)::int from auth.identities) as identities,
              (select count(*)::int from auth.sessions) as sessions, (select count(*)::int from auth.events) as events`,
    )
    assert.deepEqual(left, { users: 0, identities: 0, sessions: 0, events: 0 })
    await look(project, 'drop function public.t cascade')
    const mended = await project.auth('POST', '/signup', { email: address(), password })
    assert.equal(mended.status, 200, JSON.stringify(mended.body))
  })

test('auth isolation: the access token of a new user has the values that a trigger set', async () => {
  const project = await authProject(platform)
  await push(
    project,
    trigger(
      'before insert',
      `new.role := 'postgres'; new.raw_app_meta_data := '{"plan": "free"}'; return new;`,
    ),
  )
  const made = await project.signUp(address())
  const claims = JSON.parse(Buffer.from(made.access_token.split('.')[1], 'base64url').toString())
  assert.deepEqual([claims.role, claims.app_metadata], ['postgres', { plan: 'free' }])
  const rows = await platform.call('GET', `/v1/whoami/${project.id}`, {
    apikey: project.anon_key,
    token: made.access_token,
  })
  assert.equal(rows.status, 401, 'a token with an unknown role is rejected')
})

test('auth isolation: SQL of the project that runs as owner of the auth tables cannot create objects there', async () => {
  const project = await authProject(platform)
  const { user } = await project.signUp(address())
  const attempts = [
    'alter table auth.users drop constraint metadata_size',
    'alter table auth.users disable trigger note_banned',
    'alter table auth.identities add column mine text',
    'create trigger r before insert on auth.revocations for each row execute function public.r()',
    'grant all on auth.revocations to public',
    'drop table auth.revocations',
  ]
  const pushed = await push(
    project,
    `create table public.done (what text); alter table public.done disable row level security;
     grant all on public.done to public; grant usage on schema public to public;
     create type public.mine as (id uuid);
     create function public.r() returns trigger language plpgsql as 'begin return new; end';
     create function public.to_uuid(public.mine) returns uuid language plpgsql as $$
       declare attempt text;
       begin
         insert into public.done values ('ran as ' || current_user);
         foreach attempt in array array[${attempts.map(each => `'${each}'`).join(', ')}] loop
           begin
             execute attempt;
             insert into public.done values (attempt);
           exception when others then null;
           end;
         end loop;
         return ($1).id;
       end $$;
     create cast (public.mine as uuid) with function public.to_uuid(public.mine) as implicit;
     create table public.evil (id public.mine references auth.users);
     insert into public.evil values (row('${user.id}')::public.mine)`,
  )
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const done = await look<{ what: string }>(project, 'select distinct what from public.done')
  assert.deepEqual(
    done.map(({ what }) => what),
    ['ran as supabase_auth_admin'],
  )
})
