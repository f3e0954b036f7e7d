// SQL of a project as each of its roles, on the logins it really uses: it reaches neither the server nor other tenants nor
// the platform (faults and attacks 1 to 3).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Login } from '#src/tenancy/logins.ts'
import { codeOf, denied, isolatedProjects, pidOf, projectRoles } from './isolated-projects.ts'
import { deniedStatements } from './isolation-statements.ts'

const { tenants, logIn, asSuperuser, outcome, outcomes } = isolatedProjects()

const targets = () => ({
  ownRef: tenants.ownRef,
  otherRef: tenants.otherRef,
  superuser: tenants.platform.address.user,
  otherPids: Object.values(tenants.otherSessions).map(pidOf),
})

describe('isolation', () => {
  for (const [what, statements] of Object.entries(deniedStatements))
    for (const role of projectRoles)
      it(`${role} is denied access to ${what}`, async () => {
        const expected = Object.fromEntries(statements(targets()).map(text => [text, denied]))
        assert.deepEqual(await outcomes(role, statements(targets())), expected)
      })

  it('PREPARE TRANSACTION is disabled', async () => {
    for (const role of projectRoles) assert.equal(await outcome(role, "prepare transaction 'evil'"), '55000')
  })

  it('no role can install an untrusted extension', async () => {
    const untrusted = await asSuperuser<{ name: string }>(
      tenants.ownRef,
      'select distinct name from pg_available_extension_versions where not trusted order by name',
    )
    const names = untrusted.map(({ name }) => name)
    for (const name of ['dblink', 'postgres_fdw', 'file_fdw']) assert.ok(names.includes(name), name)
    for (const role of projectRoles) {
      const seen = await outcomes(
        role,
        names.map(name => `create extension "${name}" cascade`),
      )
      // 58P01: it requires an extension whose library this server does not have.
      const installed = Object.entries(seen).filter(([, code]) => code !== denied && code !== '58P01')
      assert.deepEqual(installed, [], role)
    }
  })

  it('grants on objects of the platform have no effect', async () => {
    const acls = `select (select datacl::text from pg_database where datname = '${tenants.ownRef}') as database,
      (select nspacl::text from pg_namespace where nspname = 'platform') as schema,
      (select relacl::text from pg_class where oid = 'platform.seen'::regclass) as seen,
      (select proacl::text from pg_proc where oid = 'platform.on_ddl()'::regprocedure) as function`
    const before = await asSuperuser(tenants.ownRef, acls)
    const owner = await logIn(tenants.ownRef, 'owner')
    for (const grant of [
      `grant connect on database ${tenants.ownRef} to public`,
      `grant all on database ${tenants.ownRef} to ${tenants.otherRef}_owner`,
      `revoke all on database ${tenants.ownRef} from ${tenants.ownRef}_api`,
      `grant all on schema platform to ${tenants.ownRef}_owner`,
      'grant all on platform.seen to anon',
      'grant all on function platform.on_ddl() to anon',
    ])
      await owner.query(grant).catch(error => assert.equal(codeOf(error), denied, grant))
    await owner.end()
    assert.deepEqual(await asSuperuser(tenants.ownRef, acls), before)
  })

  it('all other sessions are still open', async () => {
    for (const [whose, client] of Object.entries(tenants.otherSessions))
      assert.equal((await client.query('select 1 as alive')).rows[0].alive, 1, whose)
  })
})

describe('logins of a project', () => {
  it('can connect only to the database of the project', async () => {
    const databases = [
      tenants.otherRef,
      'postgres',
      'template0',
      'template1',
      tenants.platform.control,
      `${tenants.platform.control}_template`,
    ]
    for (const login of ['owner', 'api', 'svc'] as const)
      for (const database of databases) {
        const code = await logIn(tenants.ownRef, login, database).then(() => 'connected', codeOf)
        // 55000: templates accept no connections.
        const expected = database.includes('template') && database !== 'template1' ? '55000' : denied
        assert.equal(code, expected, `${login} to ${database}`)
      }
  })

  it('can set only the roles they are for', async () => {
    const reachable = async (login: Login) => {
      const client = await logIn(tenants.ownRef, login)
      const roles: string[] = []
      for (const role of [
        'anon',
        'authenticated',
        'service_role',
        `${tenants.ownRef}_owner`,
        `${tenants.ownRef}_api`,
        `${tenants.ownRef}_svc`,
        `${tenants.ownRef}_auth`,
        'supabase_auth_admin',
      ])
        await client.query(`set role ${role}`).then(
          () => roles.push(role),
          error => assert.equal(codeOf(error), denied),
        )
      await client.end()
      return roles
    }
    assert.deepEqual(await reachable('owner'), [`${tenants.ownRef}_owner`])
    assert.deepEqual(await reachable('api'), ['anon', 'authenticated', `${tenants.ownRef}_api`])
    assert.deepEqual(await reachable('svc'), ['service_role', `${tenants.ownRef}_svc`])
    assert.deepEqual(await reachable('auth'), [`${tenants.ownRef}_auth`])
  })

  it('have no privileges without a role', async () => {
    for (const login of ['api', 'svc', 'auth'] as const) {
      const client = await logIn(tenants.ownRef, login)
      await assert.rejects(client.query('select * from public.notes'), { code: denied })
      await client.end()
    }
  })

  it('only the owner can create temporary objects', async () => {
    const temporary = [
      'create temp table t (a int)',
      "create function pg_temp.f() returns int language sql as 'select 1'",
    ]
    for (const role of projectRoles) {
      const expected = role === 'owner' ? 'allowed' : denied
      for (const text of temporary) assert.equal(await outcome(role, text), expected, `${role}: ${text}`)
    }
  })

  it('only the owner can create objects', async () => {
    const creates = [
      'create table public.made (a int)',
      'create schema made',
      'create table extensions.made (a int)',
      "create function public.made() returns int language sql as 'select 1'",
      'create publication made',
      'create extension citext',
    ]
    for (const role of projectRoles) {
      const expected = role === 'owner' ? 'allowed' : denied
      for (const text of creates) assert.equal(await outcome(role, text), expected, `${role}: ${text}`)
    }
  })

  it('advisory locks do not conflict with those of another project', async () => {
    const lock = 'select pg_try_advisory_lock(4711) as got'
    assert.equal((await tenants.sessions.owner.query(lock)).rows[0].got, true)
    assert.equal((await tenants.otherSessions.otherOwner.query(lock)).rows[0].got, true)
    for (const client of [tenants.sessions.owner, tenants.otherSessions.otherOwner])
      await client.query('select pg_advisory_unlock_all()')
  })

  it('receive no notification of another project', async () => {
    const received: string[] = []
    tenants.otherSessions.otherOwner.on('notification', ({ payload }) => received.push(payload ?? ''))
    await tenants.otherSessions.otherOwner.query('listen news')
    await tenants.sessions.owner.query("notify news, 'mine'")
    await tenants.otherSessions.otherOwner.query("notify news, 'theirs'")
    await tenants.otherSessions.otherOwner.query('unlisten *')
    assert.deepEqual(received, ['theirs'])
  })
})
