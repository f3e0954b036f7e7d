// The project's owner drops, disables, comments on, renames and replaces own triggers on auth tables with the
// statements that existing migrations contain. The platform's triggers cannot be changed.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { raw } from '#src/kernel/postgres/sql.ts'
import { CronProject } from './cron-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

interface Trigger {
  name: string
  state: string
  comment: string | null
}

/** A project with the function that new triggers call, and its statements over each route. */
class Tenant extends Project {
  #version = 0
  key = ''
  anonKey = ''
  static async open(): Promise<Tenant> {
    const { id, service_role_key, anon_key } = await platform.createProject()
    const tenant = new Tenant(platform, id, await platform.refOf(id))
    tenant.key = service_role_key
    tenant.anonKey = anon_key
    const made = await tenant.exec(
      `create function public.hook() returns trigger language plpgsql security definer as
         $$ begin return new; end $$`,
    )
    assert.equal(made.status, 200, JSON.stringify(made.body))
    return tenant
  }
  exec = (sql: string) =>
    platform.call('POST', `/v1/rest/${this.id}/rpc/exec_sql`, { token: this.key, body: { sql } })
  migrate = (sql: string) => this.push({ version: String(++this.#version), sql })
  /** Over a direct connection, like psql. */
  direct = (sql: string) => this.asOwner(session => session.script(sql))
  triggers = (table = 'auth.users') =>
    this.look<Trigger>(
      raw(`select t.tgname as name, t.tgenabled as state, obj_description(t.oid, 'pg_trigger') as comment
             from pg_trigger t join pg_proc p on p.oid = t.tgfoid
            where t.tgrelid = '${table}'::regclass and not t.tgisinternal and p.pronamespace <> 'auth'::regnamespace
            order by 1`),
    )
  /** The platform's triggers, with all properties that could be changed. */
  platformTriggers = () =>
    this.look(
      raw(`select tgname, tgenabled, tgfoid::regprocedure::text, obj_description(oid, 'pg_trigger'), tgtype
             from pg_trigger where tgrelid in ('auth.users'::regclass, 'auth.sessions'::regclass)
              and (tgisinternal or tgfoid in (select oid from pg_proc where pronamespace = 'auth'::regnamespace))
            order by tgrelid, tgname`),
    )
}

const create = (name: string, table = 'auth.users') =>
  `create trigger ${name} after insert on ${table} for each row execute function public.hook();`

const statements: [text: string, expected: Trigger[]][] = [
  ['alter table auth.users disable trigger t', [{ name: 't', state: 'D', comment: null }]],
  [
    'ALTER TABLE IF EXISTS ONLY "auth"."users" ENABLE ALWAYS TRIGGER "t"',
    [{ name: 't', state: 'A', comment: null }],
  ],
  ['alter table auth.users enable replica trigger T', [{ name: 't', state: 'R', comment: null }]],
  ['alter table auth.users disable trigger t, enable trigger t', [{ name: 't', state: 'O', comment: null }]],
  [
    `comment on trigger t on auth.users is 'it''s \\ mine'`,
    [{ name: 't', state: 'O', comment: `it's \\ mine` }],
  ],
  ['comment on trigger t on auth.users is null', [{ name: 't', state: 'O', comment: null }]],
  [
    'alter trigger t on auth.users rename to "Odd ""name"',
    [{ name: 'Odd "name', state: 'O', comment: null }],
  ],
  [
    '-- a comment\nalter /* another */ trigger "Odd ""name" on auth . users rename to t -- the end',
    [{ name: 't', state: 'O', comment: null }],
  ],
  [
    'create or replace trigger t before update on auth.users for each row execute function public.hook()',
    [{ name: 't', state: 'O', comment: null }],
  ],
  ['drop trigger if exists absent on auth.users', [{ name: 't', state: 'O', comment: null }]],
  ['drop trigger if exists absent on auth.absent', [{ name: 't', state: 'O', comment: null }]],
  ['drop trigger t on auth.users cascade', []],
]

for (const route of ['exec', 'migrate'] as const)
  test(`auth triggers: statements about the project’s triggers on auth.users work over ${route === 'exec' ? 'exec_sql' : 'db push'}`, async () => {
    const tenant = await Tenant.open()
    const before = await tenant.platformTriggers()
    assert.equal((await tenant[route](create('t'))).status, 200)
    for (const [text, expected] of statements) {
      const reply = await tenant[route](text)
      assert.equal(reply.status, 200, `${text}: ${JSON.stringify(reply.body)}`)
      assert.deepEqual(await tenant.triggers(), expected, text)
    }
    assert.deepEqual(await tenant.platformTriggers(), before)
  })

test('auth triggers: exec_sql returns the command tag of the original statement', async () => {
  const tenant = await Tenant.open()
  await tenant.exec(create('t'))
  const reply = await tenant.exec('select 1; drop trigger t on auth.users;')
  assert.deepEqual([reply.headers.get('x-command-tag'), reply.body], ['DROP TRIGGER', []])
})

test('auth triggers: with other statements they run in one transaction, and errors keep their line', async () => {
  const tenant = await Tenant.open()
  await tenant.exec(create('t'))
  const text = `begin;
drop trigger if exists t on auth.users;
${create('t')}
alter table auth.users disable trigger t;
commit;
create table public.made (a int);`
  const pushed = await tenant.migrate(text)
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  assert.deepEqual(await tenant.triggers(), [{ name: 't', state: 'D', comment: null }])
  const failed = await tenant.migrate(`drop trigger t on auth.users;
select 1;
select
  nonsense;`)
  assert.equal(failed.status, 400)
  assert.match(failed.body.error.message, /line 4/)
  const undone = await tenant.exec('drop trigger t on auth.users; select nonsense')
  assert.equal(undone.body.code, '42703')
  assert.deepEqual(await tenant.triggers(), [{ name: 't', state: 'D', comment: null }])
  const absent = await tenant.migrate('select 1;\n\ndrop trigger absent on auth.users')
  assert.equal(absent.status, 400)
  assert.match(absent.body.error.message, /line 3.*trigger "absent" for table "users" does not exist/s)
  assert.equal((await tenant.exec('drop trigger absent on auth.users')).body.code, '42704')
  assert.equal((await tenant.exec('drop trigger t on auth.absent')).body.code, '42P01')
})

test('auth triggers: a reset replays the recorded migrations', async () => {
  const tenant = await Tenant.open()
  const hook =
    'create or replace function public.hook() returns trigger language plpgsql as $$ begin return new; end $$;'
  await tenant.migrate(`${hook} ${create('t')} alter table auth.users disable trigger t`)
  const reset = await tenant.reset({ reapply: true })
  assert.equal(reset.status, 200, JSON.stringify(reset.body))
  assert.deepEqual(await tenant.triggers(), [{ name: 't', state: 'D', comment: null }])
})

test('auth triggers: a cron job can run such a statement', async () => {
  const project = await CronProject.create(platform)
  const tenant = new Tenant(platform, project.id, project.ref)
  tenant.key = project.key
  await tenant.exec(
    `create function public.hook() returns trigger language plpgsql as $$ begin return new; end $$; ${create('t')}`,
  )
  await project.schedule('off', 'alter table auth.users disable trigger t')
  assert.equal((await project.run('off')).status, 'succeeded')
  assert.deepEqual(await tenant.triggers(), [{ name: 't', state: 'D', comment: null }])
})

test('auth triggers: over a direct connection the procedures create and drop triggers', async () => {
  const tenant = await Tenant.open()
  await tenant.direct(`${create('t')}
    call platform.set_auth_trigger('users', 't', 'disable');
    call platform.comment_on_auth_trigger('users', 't', 'mine');
    call platform.rename_auth_trigger('users', 't', 'u')`)
  assert.deepEqual(await tenant.triggers(), [{ name: 'u', state: 'D', comment: 'mine' }])
  await tenant.direct(`do $$ begin call platform.drop_auth_trigger('users', 'u'); end $$`)
  assert.deepEqual(await tenant.triggers(), [])
})

test('auth triggers: the owner can create triggers on storage and realtime tables directly', async () => {
  const tenant = await Tenant.open()
  for (const table of ['storage.objects', 'storage.buckets', 'realtime.messages']) {
    const reply = await tenant.exec(`${create('t', table)}
      alter table ${table} disable trigger t; comment on trigger t on ${table} is 'x'; drop trigger t on ${table}`)
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
  }
})

test('auth triggers: the platform’s own triggers and tables cannot be changed', async () => {
  const tenant = await Tenant.open()
  const before = await tenant.platformTriggers()
  await tenant.exec(create('t'))
  const internal = await tenant.look<{ tgname: string }>(
    raw(`select tgname from pg_trigger where tgrelid = 'auth.users'::regclass and tgisinternal limit 1`),
  )
  const own = ['note_banned', 'note_new', 'note_deleted', internal[0]!.tgname]
  const attempts = [
    ...own.flatMap(name => [
      `drop trigger "${name}" on auth.users`,
      `drop trigger if exists "${name}" on auth.users cascade`,
      `alter table auth.users disable trigger "${name}"`,
      `alter table auth.users disable trigger t, disable trigger "${name}"`,
      `alter trigger "${name}" on auth.users rename to mine`,
      `comment on trigger "${name}" on auth.users is 'mine'`,
      `create or replace trigger "${name}" after insert on auth.users for each statement execute function public.hook()`,
      `create or replace trigger "${name}" after update of phone on auth.users referencing old table as before
         new table as changed for each statement execute function auth.note_banned_users()`,
      `call platform.drop_auth_trigger('users', '${name}')`,
      `call platform.set_auth_trigger('users', '${name}', 'disable')`,
      `call platform.rename_auth_trigger('users', '${name}', 'mine')`,
      `call platform.comment_on_auth_trigger('users', '${name}', 'mine')`,
    ]),
    'alter table auth.users disable trigger user',
    'alter table auth.users disable trigger all',
    'alter table auth.users disable trigger t, disable trigger all',
    'alter table auth.users disable trigger t, drop constraint metadata_size',
    'alter table auth.users disable trigger t, owner to current_user',
    'alter table auth.users disable row level security',
    'alter table auth.users disable rule t',
    'alter trigger t on auth.users rename to note_banned',
    'alter trigger t on auth.users depends on extension plpgsql',
    `call platform.set_auth_trigger('users', 't', 'disable trigger all, enable')`,
    `call platform.set_auth_trigger('users', 't', 'disable trigger note_banned, disable')`,
    `call platform.drop_auth_trigger('users"; drop table auth.users; --', 't')`,
    `call platform.drop_auth_trigger('users', 't" on auth.users; drop table auth.sessions; --')`,
    `call platform.rename_auth_trigger('users', 't', 'x" ; drop table auth.sessions; --')`,
  ]
  for (const text of attempts) {
    const reply = await tenant.exec(text)
    const isHarmless = text.includes('x" ;') // a name like any other
    assert.equal(reply.status >= 400, !isHarmless, `${text}: ${reply.status} ${JSON.stringify(reply.body)}`)
    if (isHarmless)
      await tenant.exec(`alter trigger "x"" ; drop table auth.sessions; --" on auth.users rename to t`)
    await assert.rejects(tenant.direct(isHarmless ? 'select nonsense' : text), text)
  }
  assert.deepEqual(await tenant.platformTriggers(), before)
  assert.deepEqual(await tenant.triggers(), [{ name: 't', state: 'O', comment: null }])
})

test('auth triggers: a table that is only named like auth.users is not rewritten', async () => {
  const tenant = await Tenant.open()
  await tenant.exec(
    `${create('t')} create schema "Auth"; create table "Auth".users (a int); create table public.users (a int)`,
  )
  const other = `create trigger t after insert on`
  const call = 'for each row execute function public.hook()'
  const reply = await tenant.exec(`
    ${other} "Auth".users ${call}; ${other} public.users ${call};
    set search_path = public; drop trigger t on users; drop trigger t on "Auth".users;
    create temp table users (a int); ${other} pg_temp.users ${call}; drop trigger t on users`)
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  assert.deepEqual(await tenant.triggers(), [{ name: 't', state: 'O', comment: null }])
  // Without the schema the statement is not rewritten, and the owner does not own the table.
  assert.equal((await tenant.exec('set search_path = auth; drop trigger t on users')).body.code, '42501')
})

test('auth triggers: only the owner may call the procedures', async () => {
  const tenant = await Tenant.open()
  await tenant.exec(`${create('t')}
    create function public.try() returns void language plpgsql as
      $$ begin call platform.drop_auth_trigger('users', 't'); end $$;
    create function public.hook_and_drop() returns trigger language plpgsql as
      $$ begin call platform.drop_auth_trigger('users', 't'); return new; end $$;
    create trigger drops after insert on auth.users for each row execute function public.hook_and_drop()`)
  for (const token of [tenant.key, tenant.anonKey]) {
    const reply = await platform.call('POST', `/v1/rest/${tenant.id}/rpc/try`, { token, body: {} })
    assert.equal(reply.body.code, '42501', JSON.stringify(reply.body))
  }
  assert.equal((await tenant.triggers()).length, 2)
})
