// Users are stored in the project's own database, where the project's owner adds tables and triggers. The platform uses
// its own login and does not trust what it finds there.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type AuthProject, authProject } from './auth-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'

let platform: TestPlatform
let project: AuthProject
let ref: string
before(async () => {
  platform = await startPlatform()
  project = await authProject(platform)
  ref = await platform.refOf(project.id)
})
after(() => platform.stop())

const push = (version: string, text: string, id = project.id) =>
  platform.call('POST', `/api/v1/projects/${id}/db/push`, {
    token: platform.adminToken,
    body: { migrations: [{ version, name: 'x', sql: text }] },
  })
const look = <T>(text: string, database = ref) =>
  platform.asSuperuser(database, session => session.rows<T>(raw(text)))

test('auth database: a profiles table that a trigger on auth.users fills works after migration', async () => {
  const pushed = await push(
    '1',
    `create table public.profiles (id uuid primary key references auth.users on delete cascade, name text);
     create policy own on public.profiles for select using (auth.uid() = id);
     create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as
       $$ begin insert into public.profiles values (new.id, new.raw_user_meta_data ->> 'full_name'); return new; end $$;
     create trigger on_auth_user_created after insert on auth.users
       for each row execute function public.handle_new_user();`,
  )
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const { access_token, user } = await project.signUp('ada@example.test', undefined, { full_name: 'Ada' })
  const rows = await platform.call('GET', `/v1/rest/${project.id}/profiles`, {
    apikey: project.anon_key,
    token: access_token,
  })
  assert.deepEqual(rows.body, [{ id: user.id, name: 'Ada' }])
  assert.equal((await project.asAdmin('DELETE', `/admin/users/${user.id}`, {})).status, 200)
  assert.deepEqual(await look('select * from public.profiles'), [], 'the row is deleted with the user')
})

test('auth database: users inserted by a seed with bcrypt hashes can sign in', async () => {
  const pushed = await push(
    '2',
    `create extension if not exists pgcrypto with schema extensions;
     insert into auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at,
         raw_app_meta_data, raw_user_meta_data, created_at, updated_at, confirmation_token, email_change,
         email_change_token_new, recovery_token)
       values ('00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'authenticated', 'authenticated',
         'seeded@example.test', extensions.crypt('password123', extensions.gen_salt('bf')), now(),
         '{"provider":"email","providers":["email"]}', '{}', now(), now(), '', '', '', '')`,
  )
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const reply = await project.signIn('seeded@example.test', 'password123')
  assert.equal(reply.status, 200)
  assert.equal(reply.body.user.new_email, undefined)
})

test('auth database: request roles cannot read tables or call functions of the auth schema', async () => {
  const tables = await look<{ relname: string }>(
    `select relname from pg_class where relnamespace = 'auth'::regnamespace and relkind in ('r', 'v')`,
  )
  assert.ok(tables.length >= 9)
  for (const role of ['anon', 'authenticated', 'service_role'])
    assert.deepEqual(
      await look(
        `select relname from pg_class where relnamespace = 'auth'::regnamespace and relkind in ('r', 'v')
            and has_table_privilege('${role}', oid, 'select, insert, update, delete, truncate, references, trigger')`,
      ),
      [],
      role,
    )
  const stolen = await push(
    '3',
    `create function public.peek() returns setof auth.users language sql as 'select * from auth.users'`,
  )
  assert.equal(stolen.status, 200)
  for (const apikey of [project.anon_key, project.service_role_key]) {
    const reply = await platform.call('POST', `/v1/rest/${project.id}/rpc/peek`, { apikey, body: {} })
    assert.ok(reply.status === 403 || reply.status === 401, `${reply.status} ${JSON.stringify(reply.body)}`)
  }
  const exposed = await platform.call('PATCH', `/api/v1/projects/${project.id}`, {
    token: platform.adminToken,
    body: { settings: { exposed_schemas: ['public', 'auth'] } },
  })
  assert.equal(exposed.status, 400)
})

test('auth database: no auth table belongs to a superuser, because foreign key checks run as the table owner', async () => {
  const owners = await look<{ rolname: string }>(
    `select distinct r.rolname from pg_class c join pg_roles r on r.oid = c.relowner
      where c.relnamespace = 'auth'::regnamespace and c.relkind = 'r'`,
  )
  assert.deepEqual(owners, [{ rolname: 'supabase_auth_admin' }])
})

test('auth database: session state set by a trigger of the project does not leak into the next sign-in', async () => {
  const own = await authProject(platform)
  const pushed = await push(
    '1',
    `create function public.leave_traces() returns trigger language plpgsql as $$ begin
       perform set_config('search_path', 'public, pg_catalog', false);
       perform set_config('default_transaction_read_only', 'on', false);
       perform pg_advisory_lock(42);
       return new; end $$;
     create trigger traces after insert on auth.users for each row execute function public.leave_traces();
     create function public.now() returns timestamptz language sql as 'select timestamptz ''epoch''';`,
    own.id,
  )
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  for (let turn = 0; turn < 12; turn++) {
    const made = await own.signUp(`u${turn}@example.test`)
    assert.ok(Date.parse(made.user.created_at) > 1e12, 'now() is that of Postgres')
    assert.equal((await own.signIn(`u${turn}@example.test`)).status, 200)
  }
})

test('auth database: a trigger error rolls back the sign-up and is answered with 400 and its message', async () => {
  const own = await authProject(platform)
  await push(
    '1',
    `create function public.refuse() returns trigger language plpgsql as
       $$ begin raise exception 'only our own people: %', new.email; end $$;
     create trigger guard before insert on auth.users for each row execute function public.refuse();`,
    own.id,
  )
  const reply = await own.auth('POST', '/signup', { email: 'x@example.test', password: 'correct horse' })
  assert.equal(reply.status, 400)
  assert.equal(reply.body.code, 'P0001')
  assert.equal(reply.body.msg, 'only our own people: x@example.test')
  const database = await platform.refOf(own.id)
  for (const table of ['users', 'identities', 'sessions', 'events'])
    assert.deepEqual(await look(`select * from auth.${table}`, database), [], table)
})

test('auth database: the auth login has no permissions outside the auth schema', async () => {
  const { user, password } = await authLogin()
  await withClient({ ...platform.address, user, password }, ref, guardedSettings, async session => {
    for (const statement of [
      'select * from public.profiles',
      'create table public.x ()',
      'create table auth.x ()',
      'drop table auth.users',
      'alter table auth.users add column x int',
      'set role service_role',
      'set role supabase_auth_admin',
      'create schema x',
      'create temp table x ()',
    ])
      await assert.rejects(session.script(statement), { code: '42501' }, statement)
  })
})

async function authLogin() {
  const { createLogins } = await import('#src/tenancy/logins.ts')
  const { keyring } = await import('#src/kernel/crypto/keys.ts')
  const address = createLogins(platform.address, keyring(platform.controlPlaneSecret)).address(ref, 'auth')
  return address as { user: string; password: string }
}

test('auth database: a login that the project has altered is repaired', async () => {
  const own = await authProject(platform)
  const { user } = await own.signUp('a@example.test')
  assert.ok(user.id)
  platform.app.databases.disconnect(own.id)
  const database = await platform.refOf(own.id)
  await platform.asSuperuser('postgres', session =>
    session.script(`alter role ${database}_auth password 'x'`),
  )
  assert.equal((await own.signIn('a@example.test')).status, 200)
  platform.app.databases.disconnect(own.id)
  await platform.asSuperuser('postgres', session =>
    session.script(`alter role ${database}_auth password 'x'`),
  )
  const refreshed = await own.auth('POST', '/token?grant_type=refresh_token', { refresh_token: 'AAAA' })
  assert.equal(refreshed.body.code, 'refresh_token_not_found')
})

test('auth database: a project of an older version gets login and tables at the next start', async () => {
  const old = await platform.createProject()
  const database = await platform.refOf(old.id)
  await platform.asSuperuser(database, async session => {
    await session.script(`drop schema auth cascade; create schema auth; grant usage on schema auth to public`)
    await session.script(`drop owned by ${database}_auth`)
    await session.script(`drop role ${database}_auth`)
    await session.script('drop table platform.events')
    await session.run(
      sql`delete from platform.migrations where name in ('0003_auth', '0007_outbox') or name like 'auth%'`,
    )
  })
  await platform.asSuperuser(platform.control, session =>
    session.run(sql`update public.projects set schema_version = 'older' where id = ${old.id}`),
  )
  const next = await startPlatform({ beside: platform })
  await untilUpgraded(next)
  try {
    const reply = await next.call('POST', `/v1/auth/${old.id}/sign-up`, {
      apikey: old.anon_key,
      body: { email: 'a@example.test', password: 'correct horse' },
    })
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    assert.ok(reply.body.access_token)
  } finally {
    await next.stop()
  }
})

test('auth database: prune deletes only auth events older than the given days, in every project', async () => {
  const [one, two] = [await authProject(platform), await authProject(platform)]
  for (const own of [one, two]) {
    await own.signUp('a@example.test')
    const database = await platform.refOf(own.id)
    await platform.asSuperuser(database, session =>
      session.script(
        `update platform.events set created_at = now() - interval '40 days' where kind = 'user.created'`,
      ),
    )
  }
  // Suspending a project closes its connections, and so ends a deletion that waits for a lock.
  const database = await platform.refOf(two.id)
  const waiting = async () =>
    (
      await look<{ pid: number }>(
        `select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = '${database}'`,
      )
    ).map(({ pid }) => pid)
  const pruned = await platform.asSuperuser(database, async session => {
    await session.script('begin; lock table platform.events')
    const pruning = platform.admin.pruneAudit({ query: { days: 30 } })
    const first = await eventually(async () => (await waiting())[0], 'the deletion waits for the lock')
    await platform.projects.suspend({ params: { id: two.id } })
    await eventually(async () => !(await waiting()).includes(first), 'the suspension ends the deletion')
    await session.script('rollback')
    return pruning
  })
  assert.equal(pruned.deleted_auth_events, 2)
  for (const own of [one, two])
    assert.deepEqual(await look('select type from auth.events', await platform.refOf(own.id)), [
      { type: 'user.signed_in' },
    ])
})
