// What a tenant's SQL cannot reach, run as each of the four roles a project's statements can run as, on the
// logins they really use. Cases 1 to 3 of the faults and attacks; the battery of the tenancy experiments.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Role } from '@plinth/contract/route.ts'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type Caller, statement } from '#src/tenancy/databases.ts'
import { createLogins, type Login, type Logins } from '#src/tenancy/logins.ts'
import { startPlatform, type TestPlatform, untilUpgraded } from './harness.ts'
import { promptly } from './promptly.ts'

type Who = 'owner' | Role
const everyone: readonly Who[] = ['owner', 'anon', 'authenticated', 'service_role']
const loginOf: Record<Who, Login> = {
  owner: 'owner',
  anon: 'api',
  authenticated: 'api',
  service_role: 'svc',
}
const refused = '42501'

let platform: TestPlatform
let logins: Logins
let mine: CreatedProject
let other: CreatedProject
let own: string
let foreign: string
let sessions: Record<Who, pg.Client>
/** Sessions that must survive, by whose they are. */
let bystanders: { foreignOwner: pg.Client; foreignApi: pg.Client; superuser: pg.Client; ownApi: pg.Client }

before(async () => {
  platform = await startPlatform()
  logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  mine = await platform.createProject('First of two')
  other = await platform.createProject('Kassandra Reederei')
  own = await platform.refOf(mine.id)
  foreign = await platform.refOf(other.id)
  await platform.app.databases.asOwner({ ref: own }, session =>
    session.script('create table notes (a text); alter table notes disable row level security'),
  )
  const [owner, anon, authenticated, service_role, foreignOwner, foreignApi, superuser, ownApi] =
    await Promise.all([
      ...everyone.map(who => logIn(own, loginOf[who])),
      logIn(foreign, 'owner'),
      logIn(foreign, 'api'),
      connect(platform.address, own),
      logIn(own, 'api'),
    ])
  sessions = { owner: owner!, anon: anon!, authenticated: authenticated!, service_role: service_role! }
  bystanders = {
    foreignOwner: foreignOwner!,
    foreignApi: foreignApi!,
    superuser: superuser!,
    ownApi: ownApi!,
  }
})

after(async () => {
  const open = [...Object.values(sessions ?? {}), ...Object.values(bystanders ?? {})]
  await Promise.all(open.map(client => client.end().catch(() => {})))
  await platform?.stop()
})

const logIn = (ref: string, login: Login, database = ref) => connect(logins.address(ref, login), database)

async function connect(
  { host, port, user, password }: TestPlatform['address'],
  database: string,
): Promise<pg.Client> {
  const client = new pg.Client({ host, port, user, password, database })
  client.on('error', () => {}) // some are ended on purpose
  await client.connect()
  return client
}

const codeOf = (error: unknown) => (error as { code?: string }).code ?? String(error)
const pidOf = (client: pg.Client) => (client as pg.Client & { processID: number }).processID

/** What becomes of a statement: 'allowed' or the SQLSTATE. Nothing of it stays. */
async function outcome(who: Who, text: string): Promise<string> {
  const client = sessions[who]
  const isAlone = /^(alter system|(create|drop) (database|tablespace))/.test(text)
  try {
    if (!isAlone) await client.query('begin')
    if (who !== 'owner') await client.query(`set ${isAlone ? '' : 'local'} role ${who}`)
    await client.query(text)
    return 'allowed'
  } catch (error) {
    return codeOf(error)
  } finally {
    await client.query(isAlone ? 'reset role' : 'rollback')
  }
}

async function outcomes(who: Who, statements: readonly string[]): Promise<Record<string, string>> {
  const seen: Record<string, string> = {}
  for (const text of statements) seen[text] = await outcome(who, text)
  return seen
}

async function asCaller(project: CreatedProject, role: Role, text: string, values: string[] = []) {
  const tenant = (await platform.app.directory.find(project.id))!
  const caller: Caller = { tenant, role, claims: JSON.stringify({ role }), userId: '', sessionId: '' }
  const facts = { method: 'GET', path: '/', headers: '{}' }
  const { rows } = await platform.app.databases.asCaller(caller, facts, statement(text, false), values)
  return rows.map(row => row.map(cell => cell?.toString() ?? null))
}
const asOwner = (ref: string, text: string) =>
  platform.app.databases.asOwner({ ref }, session => session.script(text))
const asSuperuser = <T>(database: string, text: string) =>
  platform.asSuperuser(database, session => session.rows<T>(raw(text)))

const everyOf = (list: string, text: (name: string) => string) =>
  list
    .trim()
    .split(/\s*\n\s*/)
    .map(text)

/** What nobody may do, by what it would reach. A function, because it names databases and sessions. */
const battery: Record<string, () => string[]> = {
  'files of the server': () => [
    "copy (select 1) to '/tmp/plinth-escaped'",
    "copy notes from '/etc/passwd'",
    ...everyOf(
      `pg_read_file('/etc/passwd')
       pg_read_file('PG_VERSION')
       pg_read_binary_file('PG_VERSION')
       pg_ls_dir('.')
       pg_ls_tmpdir()
       pg_ls_logdir()
       pg_ls_waldir()
       pg_stat_file('PG_VERSION')
       pg_current_logfile()
       lo_import('/etc/passwd')
       lo_export(1, '/tmp/plinth-escaped')
       pg_hba_file_rules()
       pg_show_all_file_settings()`,
      call => `select ${call}`,
    ),
  ],
  'programs and libraries': () => [
    "copy (select 1) to program 'id'",
    "copy notes from program 'id'",
    "load 'plpgsql'",
    "load 'auto_explain'",
    "load '/tmp/evil.so'",
    "create function evil() returns int language c as 'evil', 'evil'",
    "create function evil(text) returns text language internal as 'pg_read_file_all'",
    "alter role current_user set session_preload_libraries = 'auto_explain'",
  ],
  'settings of the server': () => [
    "alter system set work_mem = '1GB'",
    "alter role all set work_mem = '1GB'",
    'alter role current_user set session_replication_role = replica',
    ...everyOf(
      `temp_file_limit = -1
       log_statement = 'all'
       log_min_duration_statement = 0
       session_replication_role = replica
       event_triggers = off
       zero_damaged_pages = on
       ignore_checksum_failure = on
       allow_system_table_mods = on
       dynamic_library_path = '/tmp'
       session_preload_libraries = 'auto_explain'
       lc_messages = 'C'
       track_activities = off
       deadlock_timeout = 1`,
      setting => `set ${setting}`,
    ),
  ],
  'roles that are not its own': () => [
    ...everyOf(
      `${foreign}_owner
       ${foreign}_api
       ${foreign}_svc
       ${foreign}_auth
       supabase_auth_admin
       ${platform.address.user}
       pg_read_all_data
       pg_monitor
       pg_database_owner`,
      role => `set role ${role}`,
    ),
    `set session authorization ${platform.address.user}`,
    `set session authorization ${foreign}_owner`,
    `grant service_role to ${own}_owner`,
    `grant service_role to ${own}_api`,
    `grant anon to ${own}_owner`,
    `grant ${own}_owner to ${own}_api`,
    `grant ${own}_owner to ${foreign}_owner`,
    'grant pg_read_server_files to current_user',
    'grant pg_signal_backend to current_user',
    'create role evil',
    'drop role anon',
    `drop role ${foreign}_owner`,
    `alter role ${foreign}_owner password 'known'`,
    `alter role ${foreign}_api set statement_timeout = 1`,
    `alter role ${platform.address.user} password null`,
    ...everyOf(
      `superuser
       createdb
       createrole
       replication
       bypassrls
       connection limit -1
       valid until 'infinity'`,
      attribute => `alter role current_user ${attribute}`,
    ),
    "comment on role anon is 'mine'",
  ],
  'databases, its own included': () => [
    'create database evil',
    `drop database ${foreign}`,
    `alter database ${foreign} set work_mem = '1GB'`,
    `alter database ${own} set role = '${own}_owner'`,
    `alter database ${own} set local_preload_libraries = 'nosuch'`,
    `alter database ${own} connection limit -1`,
    `alter database ${own} is_template true`,
    `alter database ${own} rename to evil`,
    `alter database ${own} owner to current_user`,
    `comment on database ${own} is 'mine'`,
    `select pg_database_size('${foreign}')`,
  ],
  'sessions of others': () => [
    ...Object.values(bystanders).flatMap(client => [
      `select pg_terminate_backend(${pidOf(client)})`,
      `select pg_cancel_backend(${pidOf(client)})`,
    ]),
    `select pg_log_backend_memory_contexts(${pidOf(bystanders.foreignOwner)})`,
  ],
  'the running of the server': () => [
    'checkpoint',
    ...everyOf(
      `pg_reload_conf()
       pg_rotate_logfile()
       pg_switch_wal()
       pg_promote()
       pg_create_restore_point('evil')
       pg_backup_start('evil')
       pg_create_physical_replication_slot('evil')
       pg_create_logical_replication_slot('evil', 'pgoutput')
       pg_replication_origin_create('evil')
       pg_stat_reset()
       pg_stat_reset_shared('bgwriter')`,
      call => `select ${call}`,
    ),
    'create publication evil for all tables',
    'create publication evil for tables in schema public',
    "create subscription evil connection 'host=127.0.0.1' publication p with (connect = false)",
    'create event trigger evil on ddl_command_start execute function platform.on_ddl()',
    "create tablespace evil location '/tmp'",
    'create foreign data wrapper evil',
    'create access method evil type index handler bthandler',
    'create text search template evil (lexize = dsimple_lexize)',
    'create cast (text as int) with inout',
    'create operator class evil for type int using btree as operator 1 <',
  ],
  'catalogs and what they tell of the cluster': () => [
    ...everyOf(
      `pg_authid
       pg_shadow
       pg_stat_activity
       pg_stat_database
       pg_stat_database_conflicts
       pg_stat_ssl
       pg_stat_gssapi
       pg_stat_replication
       pg_stat_wal_receiver
       pg_stat_subscription
       pg_replication_slots
       pg_prepared_xacts
       pg_db_role_setting
       pg_shdescription
       pg_shseclabel
       pg_hba_file_rules
       pg_ident_file_mappings
       pg_file_settings
       pg_config
       pg_shmem_allocations
       pg_backend_memory_contexts
       pg_stat_get_activity(null)
       pg_stat_get_backend_idset()
       pg_stat_get_backend_activity(1)`,
      relation => `select * from ${relation}`,
    ),
    'update pg_proc set proname = proname',
    'delete from pg_authid',
    'truncate pg_statistic',
    'alter table pg_class add evil int',
    'create table pg_catalog.evil (a int)',
    "create function pg_catalog.evil() returns int language sql as 'select 1'",
    'lock table pg_class in access exclusive mode',
    'lock table pg_database in access exclusive mode',
    'reindex table pg_class',
  ],
  "the platform's own objects": () => [
    'drop event trigger platform_ddl',
    'alter event trigger platform_ddl disable',
    'alter event trigger platform_drop rename to evil',
    'alter event trigger platform_ddl owner to current_user',
    'drop schema platform cascade',
    'drop schema auth cascade',
    'drop schema extensions cascade',
    'alter schema platform rename to evil',
    'alter schema auth owner to current_user',
    'drop function platform.on_ddl() cascade',
    'alter function platform.on_ddl() rename to evil',
    'alter function platform.first_time(oid) set search_path = public',
    "create or replace function platform.first_time(rel oid) returns boolean language sql as 'select true'",
    "create or replace function auth.uid() returns uuid language sql as 'select null::uuid'",
    "create function auth.evil() returns int language sql as 'select 1'",
    'create table platform.evil (a int)',
    'create table auth.evil (a int)',
    'insert into platform.seen values (1)',
    'delete from platform.seen',
    'truncate platform.seen',
    "update platform.migrations set hash = ''",
    'drop table platform.migrations',
    'create index on platform.seen (relid)',
    'create policy evil on platform.seen using (true)',
    'create rule evil as on insert to platform.migrations do nothing',
    'create trigger evil before insert on platform.migrations for each statement execute function platform.on_ddl()',
    'create table evil () inherits (platform.seen)',
    'create table evil (a oid references platform.seen)',
    `alter default privileges for role ${platform.address.user} grant all on tables to anon`,
    `reassign owned by ${platform.address.user} to current_user`,
    `drop owned by ${platform.address.user}`,
    'drop extension plpgsql cascade',
    'alter extension plpgsql add table notes',
    "comment on schema platform is 'mine'",
  ],
}

describe('the isolation battery', () => {
  for (const [what, statements] of Object.entries(battery))
    for (const who of everyone)
      it(`keeps ${what} from ${who}`, async () => {
        const expected = Object.fromEntries(statements().map(text => [text, refused]))
        assert.deepEqual(await outcomes(who, statements()), expected)
      })

  it('offers no two-phase commit, which would outlive its session', async () => {
    for (const who of everyone) assert.equal(await outcome(who, "prepare transaction 'evil'"), '55000')
  })

  it('installs no untrusted extension for anybody', async () => {
    const untrusted = await asSuperuser<{ name: string }>(
      own,
      'select distinct name from pg_available_extension_versions where not trusted order by name',
    )
    const names = untrusted.map(({ name }) => name)
    for (const name of ['dblink', 'postgres_fdw', 'file_fdw']) assert.ok(names.includes(name), name)
    for (const who of everyone) {
      const seen = await outcomes(
        who,
        names.map(name => `create extension "${name}" cascade`),
      )
      // 58P01: it needs another one whose library this server does not have.
      const installed = Object.entries(seen).filter(([, code]) => code !== refused && code !== '58P01')
      assert.deepEqual(installed, [], who)
    }
  })

  it('lets grants of what is not the tenant’s come to nothing', async () => {
    const acls = `select (select datacl::text from pg_database where datname = '${own}') as database,
      (select nspacl::text from pg_namespace where nspname = 'platform') as schema,
      (select relacl::text from pg_class where oid = 'platform.seen'::regclass) as seen,
      (select proacl::text from pg_proc where oid = 'platform.on_ddl()'::regprocedure) as function`
    const before = await asSuperuser(own, acls)
    const owner = await logIn(own, 'owner')
    for (const grant of [
      `grant connect on database ${own} to public`,
      `grant all on database ${own} to ${foreign}_owner`,
      `revoke all on database ${own} from ${own}_api`,
      `grant all on schema platform to ${own}_owner`,
      'grant all on platform.seen to anon',
      'grant all on function platform.on_ddl() to anon',
    ])
      await owner.query(grant).catch(error => assert.equal(codeOf(error), refused, grant))
    await owner.end()
    assert.deepEqual(await asSuperuser(own, acls), before)
  })

  it('has left every session of others alive', async () => {
    for (const [whose, client] of Object.entries(bystanders))
      assert.equal((await client.query('select 1 as alive')).rows[0].alive, 1, whose)
  })
})

describe('the logins of a project', () => {
  it('reach no database but their own', async () => {
    const databases = [
      foreign,
      'postgres',
      'template0',
      'template1',
      platform.control,
      `${platform.control}_template`,
    ]
    for (const login of ['owner', 'api', 'svc'] as const)
      for (const database of databases) {
        const code = await logIn(own, login, database).then(() => 'connected', codeOf)
        // 55000: templates take no connections at all.
        const expected = database.includes('template') && database !== 'template1' ? '55000' : refused
        assert.equal(code, expected, `${login} to ${database}`)
      }
  })

  it('become the roles they are for and no other', async () => {
    const reachable = async (login: Login) => {
      const client = await logIn(own, login)
      const roles: string[] = []
      for (const role of [
        'anon',
        'authenticated',
        'service_role',
        `${own}_owner`,
        `${own}_api`,
        `${own}_svc`,
        `${own}_auth`,
        'supabase_auth_admin',
      ])
        await client.query(`set role ${role}`).then(
          () => roles.push(role),
          error => assert.equal(codeOf(error), refused),
        )
      await client.end()
      return roles
    }
    assert.deepEqual(await reachable('owner'), [`${own}_owner`])
    assert.deepEqual(await reachable('api'), ['anon', 'authenticated', `${own}_api`])
    assert.deepEqual(await reachable('svc'), ['service_role', `${own}_svc`])
    assert.deepEqual(await reachable('auth'), [`${own}_auth`])
  })

  it('have no rights of their own beside the roles they become', async () => {
    for (const login of ['api', 'svc', 'auth'] as const) {
      const client = await logIn(own, login)
      await assert.rejects(client.query('select * from public.notes'), { code: refused })
      await client.end()
    }
  })

  it('cannot make temporary objects, except the owner', async () => {
    const temporary = [
      'create temp table t (a int)',
      "create function pg_temp.f() returns int language sql as 'select 1'",
    ]
    for (const who of everyone) {
      const expected = who === 'owner' ? 'allowed' : refused
      for (const text of temporary) assert.equal(await outcome(who, text), expected, `${who}: ${text}`)
    }
  })

  it('let only the owner create anything', async () => {
    const creations = [
      'create table public.made (a int)',
      'create schema made',
      'create table extensions.made (a int)',
      "create function public.made() returns int language sql as 'select 1'",
      'create publication made',
      'create extension citext',
    ]
    for (const who of everyone) {
      const expected = who === 'owner' ? 'allowed' : refused
      for (const text of creations) assert.equal(await outcome(who, text), expected, `${who}: ${text}`)
    }
  })

  it('keep their advisory locks to their own database', async () => {
    const lock = 'select pg_try_advisory_lock(4711) as got'
    assert.equal((await sessions.owner.query(lock)).rows[0].got, true)
    assert.equal((await bystanders.foreignOwner.query(lock)).rows[0].got, true)
    for (const client of [sessions.owner, bystanders.foreignOwner])
      await client.query('select pg_advisory_unlock_all()')
  })

  it('hear no notification of another project', async () => {
    const heard: string[] = []
    bystanders.foreignOwner.on('notification', ({ payload }) => heard.push(payload ?? ''))
    await bystanders.foreignOwner.query('listen news')
    await sessions.owner.query("notify news, 'mine'")
    await bystanders.foreignOwner.query("notify news, 'theirs'")
    await bystanders.foreignOwner.query('unlisten *')
    assert.deepEqual(heard, ['theirs'])
  })
})

describe('a function that a caller calls', () => {
  it('cannot climb from anon to service_role or to the owner, whatever it tries', async () => {
    const climb = (name: string, body: string, security = 'invoker') =>
      `create function ${name}() returns text language plpgsql security ${security}
         as $$ begin ${body}; return current_user; end $$;`
    const attempts = {
      climb_set: 'set local role service_role',
      climb_reset: 'reset role; set role service_role',
      climb_config: "perform set_config('role', 'service_role', false)",
      climb_owner: `execute 'set role ${own}_owner'`,
      climb_session: `execute 'set session authorization ${own}_owner'`,
    }
    await asOwner(
      own,
      Object.entries(attempts)
        .flatMap(([name, body]) => [climb(name, body), climb(`${name}_definer`, body, 'definer')])
        .join('\n'),
    )
    for (const name of Object.keys(attempts))
      for (const role of ['anon', 'authenticated'] as const)
        for (const call of [`select ${name}()`, `select ${name}_definer()`])
          await assert.rejects(asCaller(mine, role, call), { code: refused }, `${role}: ${call}`)
    await assert.rejects(asCaller(mine, 'service_role', 'select climb_owner()'), { code: refused })
  })

  it('cannot commit and go on with the rights of the login', async () => {
    await asOwner(own, 'create procedure commits() language plpgsql as $$ begin commit; end $$')
    await assert.rejects(asCaller(mine, 'anon', 'call commits()'), { code: '2D000' })
  })
})

describe('what a tenant can see of the others', () => {
  const marks = ['kassandra', 'odysseus_app', 'penelope_query', 'argos_table', 'ithaka_note']

  before(async () => {
    const { foreignOwner } = bystanders
    await foreignOwner.query(`set application_name = 'odysseus_app'`)
    await foreignOwner.query('create table argos_table (a int)')
    await foreignOwner.query(`comment on table argos_table is 'ithaka_note'`)
    await foreignOwner.query('begin')
    await foreignOwner.query(`select 'penelope_query'`)
  })
  after(() => bystanders.foreignOwner.query('rollback; drop table argos_table'))

  /** Every relation of the catalogs in which any of the words can be read. */
  async function relationsShowing(client: pg.Client, words: readonly string[]): Promise<string[]> {
    const { rows: relations } = await client.query<{ name: string }>(
      `select format('%I.%I', nspname, relname) as name from pg_class c join pg_namespace n on n.oid = relnamespace
        where relkind in ('r', 'v') and nspname = 'pg_catalog'`,
    )
    const found: string[] = []
    for (const { name } of relations)
      await client.query(`select from ${name} t where t::text ~* $1 limit 1`, [words.join('|')]).then(
        ({ rowCount }) => rowCount && found.push(name),
        error => assert.ok([refused, '55000'].includes(codeOf(error)), `${name}: ${error}`),
      )
    return found
  }

  it('is no slug, name, key, id, application name, object or query of theirs, in any catalog', async () => {
    const words = [...marks, other.slug, other.id, other.anon_key, other.service_role_key, other.jwt_secret]
    await Promise.all(
      everyone.map(async who => {
        const client = await logIn(own, loginOf[who])
        if (who !== 'owner') await client.query(`set role ${who}`)
        assert.deepEqual(await relationsShowing(client, words), [], who)
        await client.end()
      }),
    )
    // The search does find what is there to be found.
    const theirs = await logIn(foreign, 'owner')
    const found = await relationsShowing(theirs, words)
    assert.ok(found.includes('pg_catalog.pg_class') && found.includes('pg_catalog.pg_description'))
    await theirs.end()
  })

  it('is an opaque name in pg_database and pg_roles', async () => {
    const names = async (text: string) => (await sessions.owner.query<{ name: string }>(text)).rows
    const databases = await names('select datname as name from pg_database')
    const roles = await names(`select rolname as name from pg_roles where rolcanlogin and not rolsuper`)
    assert.ok(databases.some(({ name }) => name === foreign))
    assert.match(foreign, /^p_[a-z2-7]{20}$/)
    for (const { name } of roles) assert.match(name, /^p_[a-z2-7]{20}_(owner|api|svc|auth)$/)
  })

  it('is not what they store for their roles', async () => {
    await bystanders.foreignOwner.query('rollback; alter role current_user set search_path = telemachos')
    const shown = await relationsShowing(sessions.owner, ['telemachos'])
    await bystanders.foreignOwner.query('alter role current_user reset search_path; begin')
    assert.deepEqual(shown, [])
  })

  it('is not how much they do', async () => {
    const counters = await asSuperuser<{ name: string }>(
      own,
      `select oid::regprocedure::text as name from pg_proc where proname like 'pg_stat_get_db_%'`,
    )
    const open: string[] = []
    for (const { name } of counters) {
      const call = `select ${name} from pg_database where datname = '${foreign}'`
      if ((await outcome('anon', call)) === 'allowed') open.push(name)
    }
    assert.deepEqual(open, [])
  })

  it('is not the keys of their advisory locks', async () => {
    await bystanders.foreignOwner.query('select pg_advisory_xact_lock(31337)')
    const shown = await sessions.owner.query('select from pg_locks where objid = 31337').then(
      ({ rows }) => rows.length,
      error => assert.equal(codeOf(error), refused),
    )
    assert.ok(!shown)
  })
})

describe('trusted extensions', () => {
  it('are installed by the owner into schema extensions and used by every role', async () => {
    await asOwner(
      own,
      `create extension pg_trgm schema extensions; create extension citext schema extensions;
       create extension pgcrypto schema extensions; create extension "uuid-ossp" schema extensions`,
    )
    for (const role of ['anon', 'authenticated', 'service_role'] as const)
      assert.deepEqual(
        await asCaller(
          mine,
          role,
          `select similarity('plinth', 'plinth'), 'A'::citext = 'a', length(crypt('x', gen_salt('bf', 4))), length(uuid_generate_v4()::text)`,
        ),
        [['1', 't', '60', '36']],
      )
  })

  it('give the tenant nothing of the superuser who owns their objects', async () => {
    const functions = await asSuperuser<{ owner: string }>(
      own,
      `select distinct pg_get_userbyid(proowner) as owner from pg_proc where pronamespace = 'extensions'::regnamespace`,
    )
    assert.deepEqual(functions, [{ owner: platform.address.user }])
    const text =
      "create or replace function extensions.similarity(text, text) returns real language sql as 'select 1'"
    assert.equal(await outcome('owner', text), refused)
  })

  it('include no language whose loops nobody can interrupt', async () => {
    for (const language of ['pltcl', 'plperl'])
      assert.notEqual(await outcome('owner', `create extension ${language}`), 'allowed', language)
  })
})

describe('tricks against the sessions of the platform’s superuser', () => {
  const shadows = (role: string) => `
    create function public.trap() returns boolean language plpgsql as $$
      begin execute 'alter role ${role} superuser'; return true;
      exception when insufficient_privilege then return false; end $$;
    create function public.same(text, text) returns boolean language plpgsql as
      $$ begin perform public.trap(); return $1 operator(pg_catalog.=) $2; end $$;
    create operator public.= (leftarg = text, rightarg = text, function = public.same);
    create function public.format(text, name, name) returns text language plpgsql as
      $$ begin perform public.trap(); return pg_catalog.format($1, $2, $3); end $$;
    create function public.now() returns timestamptz language plpgsql as
      $$ begin perform public.trap(); return pg_catalog.now(); end $$;
    create function public.pg_has_role(oid, text) returns boolean language plpgsql as
      $$ begin perform public.trap(); return true; end $$;
    create function public.to_regnamespace(text) returns regnamespace language plpgsql as
      $$ begin perform public.trap(); return pg_catalog.to_regnamespace($1); end $$;
    create table public.migrations (name text, hash text);
    create table public.pg_class (oid oid, relname name);
    create table public.pg_namespace (oid oid, nspname name);
    create view public.watched as select public.trap();`
  const isSuperuser = async (role: string) =>
    (
      await asSuperuser<{ rolsuper: boolean }>(
        'postgres',
        `select rolsuper from pg_roles where rolname = '${role}'`,
      )
    )[0]?.rolsuper

  it('an upgrade picks up nothing that shadows the names it uses', async () => {
    const project = await platform.createProject()
    const ref = await platform.refOf(project.id)
    const role = `${ref}_owner`
    await asOwner(ref, shadows(role))

    // The trap is armed: a superuser's session that looks names up in public falls into it.
    await platform.asSuperuser(ref, async session => {
      await session.script(`begin; set search_path = "$user", public`)
      await session.rows(sql`select format('%I.%I', 'a'::name, 'b'::name)`)
      const fallen = await session.row(sql`select rolsuper from pg_catalog.pg_roles where rolname = ${role}`)
      assert.deepEqual(fallen, { rolsuper: true })
      await session.script('rollback')
    })

    await platform.asSuperuser(ref, session => session.script(`update platform.migrations set hash = ''`))
    await platform.app.control.run(sql`update projects set schema_version = '' where id = ${project.id}`)
    const second = await startPlatform({ beside: platform })
    await untilUpgraded(second)
    await second.stop()

    assert.equal(await isSuperuser(role), false)
    const { schema_version } = (await platform.app.control.row<{ schema_version: string }>(
      sql`select schema_version from projects where id = ${project.id}`,
    ))!
    assert.equal(schema_version, platform.app.cluster.projectVersion)
    const replaced = await asSuperuser<{ name: string }>(
      ref,
      `select name from platform.migrations where hash <> '' order by name`,
    )
    const repeatable = platform.app.cluster.projectMigrations.filter(({ isRepeatable }) => isRepeatable)
    assert.deepEqual(
      replaced.map(({ name }) => name),
      repeatable.map(({ name }) => name).sort(),
    )
    assert.deepEqual(
      second.logged.filter(line => line.includes('could not be brought up to date')),
      [],
    )
  })

  it('neither its DDL nor its extensions run anything of the tenant’s as superuser', async () => {
    const project = await platform.createProject()
    const ref = await platform.refOf(project.id)
    await asOwner(ref, shadows(`${ref}_owner`))
    await asOwner(
      ref,
      `create table made (a int); create table copied as select 1 as a; create view shown as select 1 as a;
       create schema later; drop schema later; drop table made; create extension hstore; create extension citext schema extensions`,
    )
    assert.equal(await isSuperuser(`${ref}_owner`), false)
    assert.deepEqual(
      (
        await asSuperuser<{ on: boolean }>(
          ref,
          `select relrowsecurity as on from pg_class where relname = 'copied'`,
        )
      )[0],
      { on: true },
    )
  })
})

describe('what a tenant holds on to', () => {
  const remove = ({ id, slug }: CreatedProject) =>
    platform.call('DELETE', `/api/v1/projects/${id}?confirm=${slug}`, { token: platform.adminToken })

  it('does not keep a project from being deleted', async () => {
    const [doomed, holder] = await Promise.all([platform.createProject(), platform.createProject()])
    const ref = await platform.refOf(doomed.id)
    const inside = await logIn(ref, 'owner')
    const outside = await logIn(await platform.refOf(holder.id), 'owner')
    await inside.query(`begin; alter role current_user password 'known'`)
    await outside.query(`begin; alter role current_user in database ${ref} set work_mem = '1MB'`)
    const removing = remove(doomed)
    const first = await Promise.race([removing, sleep(20_000, 'still waiting')])
    await Promise.all([inside.end(), outside.end()].map(ending => ending.catch(() => {})))
    await removing
    assert.notEqual(first, 'still waiting')
  })

  it('does not keep the platform from its control database', async () => {
    await promptly(1500, async () => {
      const project = await platform.createProject()
      const ref = await platform.refOf(project.id)
      const holders = await Promise.all([logIn(ref, 'api'), logIn(ref, 'svc')])
      for (const holder of holders) {
        await holder.query(`alter role current_user password 'known'`)
        await holder.query(`begin; alter role current_user password 'better known'`)
      }
      // Every connection these need finds the password changed, and its row held.
      const callers = (['anon', 'service_role'] as const).flatMap(role =>
        Array.from({ length: 20 }, () => asCaller(project, role, 'select 1').catch(() => {})),
      )
      await sleep(200)
      const asked = performance.now()
      const { status } = await platform.call('GET', '/api/v1/projects', { token: platform.adminToken })
      const ms = performance.now() - asked
      await Promise.all(callers.concat(holders.map(holder => holder.end())) as Promise<unknown>[])
      assert.equal(status, 200)
      assert.deepEqual(await asCaller(project, 'anon', 'select 1'), [['1']])
      return ms
    })
  })
})

describe('a login that the tenant has broken', () => {
  const broken = async (work: (ref: string, project: CreatedProject) => Promise<void>) => {
    const project = await platform.createProject()
    await work(await platform.refOf(project.id), project)
  }
  /** A function that speaks for the login itself, as an injection into a tenant's function could. */
  const speaking = `create function as_login(command text) returns void language plpgsql as
    $$ begin reset role; execute command; end $$`
  const reconnect = async ({ id }: CreatedProject) => {
    platform.app.databases.disconnect(id)
    await sleep(50)
  }

  it('by a new password works again for the next owner session', () =>
    broken(async ref => {
      await asOwner(ref, `alter role current_user password 'known to the tenant'`)
      await asOwner(ref, 'create table after_healing (a int)')
      await asOwner(ref, 'alter role current_user password null')
      await asOwner(ref, 'drop table after_healing')
    }))

  it('by a new password works again for the next caller', () =>
    broken(async (ref, project) => {
      await asOwner(ref, speaking)
      for (const role of ['anon', 'service_role'] as const) {
        await asCaller(project, role, 'select as_login($1)', [`alter role current_user password 'known'`])
        await reconnect(project)
        assert.deepEqual(await asCaller(project, role, 'select current_user'), [[role]])
      }
    }))

  it('by settings stored for its role serves as before', () =>
    broken(async (ref, project) => {
      await asOwner(ref, `${speaking}; create table kept (a text)`)
      for (const setting of [
        `local_preload_libraries = 'nosuch'`,
        'search_path = nowhere',
        'statement_timeout = 1',
        `client_encoding = 'LATIN1'`,
        `"DateStyle" = 'German'`,
        `"TimeZone" = 'Asia/Tokyo'`,
        `role = 'authenticated'`,
      ])
        await asCaller(project, 'anon', 'select as_login($1)', [`alter role current_user set ${setting}`])
      await reconnect(project)
      const seen = `select current_user, (select count(*) from kept), 'ä', make_date(2026, 1, 2), current_setting('timezone')`
      assert.deepEqual(await asCaller(project, 'anon', seen), [['anon', '0', 'ä', '2026-01-02', 'UTC']])

      await asOwner(ref, `alter role current_user set local_preload_libraries = 'nosuch'`)
      await asOwner(ref, `alter role current_user set role = 'anon'`)
      await asOwner(ref, `alter role current_user set client_encoding = 'LATIN1'`)
      await asOwner(ref, 'create table after_healing (a int)')
    }))

  it('by settings that end or forbid every transaction serves as before', async () => {
    for (const setting of [
      'default_transaction_read_only = on',
      'transaction_timeout = 1',
      'idle_session_timeout = 1',
      `bytea_output = 'escape'`,
    ])
      await broken(async (ref, project) => {
        await asOwner(ref, `${speaking}; create table kept (a bytea); grant all on kept to service_role`)
        await asCaller(project, 'service_role', 'select as_login($1)', [
          `alter role current_user set ${setting}`,
        ])
        await reconnect(project)
        await asCaller(project, 'service_role', 'select 1')
        await sleep(20)
        const insert = `insert into kept values ('\\x41') returning a`
        assert.deepEqual(await asCaller(project, 'service_role', insert), [['\\x41']], setting)
      })
  })

  it('by settings that end or forbid every transaction serves the owner as before', async () => {
    for (const setting of [
      'default_transaction_read_only = on',
      'transaction_timeout = 1',
      'statement_timeout = 1',
    ])
      await broken(async ref => {
        await asOwner(ref, `alter role current_user set ${setting}`)
        await asOwner(ref, 'create table made (a int); select pg_sleep(0.05)')
      })
  })

  it('is put right once, not at every login, when it has stored settings for another database', () =>
    broken(async (ref, project) => {
      await asOwner(ref, speaking)
      const command = `alter role current_user in database ${foreign} set work_mem = '1MB'`
      await asCaller(project, 'anon', 'select as_login($1)', [command])
      const written = async () => {
        await reconnect(project)
        await asCaller(project, 'anon', 'select 1')
        return asSuperuser('postgres', `select xmin::text from pg_authid where rolname = '${ref}_api'`)
      }
      assert.deepEqual(await written(), await written())
    }))

  it('keeps its limits when it is put right', () =>
    broken(async (ref, project) => {
      await asOwner(ref, speaking)
      const limit = `select current_setting('temp_file_limit')`
      assert.deepEqual(await asCaller(project, 'anon', limit), [['256MB']])
      await asCaller(project, 'anon', 'select as_login($1)', [`alter role current_user password 'known'`])
      await reconnect(project)
      assert.deepEqual(await asCaller(project, 'anon', limit), [['256MB']])
    }))
})
