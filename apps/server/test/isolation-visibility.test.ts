// What functions and catalogs let a tenant do and see, and trusted extensions.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type pg from 'pg'
import { codeOf, denied, isolatedProjects, loginOf, projectRoles } from './isolated-projects.ts'

const { tenants, logIn, asOwner, asCaller, asSuperuser, outcome } = isolatedProjects()

describe('functions called by a caller', () => {
  it('cannot switch from anon to service_role or to the owner', async () => {
    const roleSwitch = (name: string, body: string, security = 'invoker') =>
      `create function ${name}() returns text language plpgsql security ${security}
         as $$ begin ${body}; return current_user; end $$;`
    const attempts = {
      switch_set: 'set local role service_role',
      switch_reset: 'reset role; set role service_role',
      switch_config: "perform set_config('role', 'service_role', false)",
      switch_owner: `execute 'set role ${tenants.ownRef}_owner'`,
      switch_session: `execute 'set session authorization ${tenants.ownRef}_owner'`,
    }
    await asOwner(
      tenants.ownRef,
      Object.entries(attempts)
        .flatMap(([name, body]) => [roleSwitch(name, body), roleSwitch(`${name}_definer`, body, 'definer')])
        .join('\n'),
    )
    for (const name of Object.keys(attempts))
      for (const role of ['anon', 'authenticated'] as const)
        for (const call of [`select ${name}()`, `select ${name}_definer()`])
          await assert.rejects(asCaller(tenants.project, role, call), { code: denied }, `${role}: ${call}`)
    await assert.rejects(asCaller(tenants.project, 'service_role', 'select switch_owner()'), { code: denied })
  })

  it('cannot commit and continue with the privileges of the login', async () => {
    await asOwner(tenants.ownRef, 'create procedure commits() language plpgsql as $$ begin commit; end $$')
    await assert.rejects(asCaller(tenants.project, 'anon', 'call commits()'), { code: '2D000' })
  })
})

describe('visibility of other tenants', () => {
  const marks = ['kassandra', 'odysseus_app', 'penelope_query', 'argos_table', 'ithaka_note']

  before(async () => {
    const { otherOwner } = tenants.otherSessions
    await otherOwner.query(`set application_name = 'odysseus_app'`)
    await otherOwner.query('create table argos_table (a int)')
    await otherOwner.query(`comment on table argos_table is 'ithaka_note'`)
    await otherOwner.query('begin')
    await otherOwner.query(`select 'penelope_query'`)
  })
  after(() => tenants.otherSessions.otherOwner.query('rollback; drop table argos_table'))

  /** The catalog relations that show any of the words. */
  async function relationsShowing(client: pg.Client, words: readonly string[]): Promise<string[]> {
    const { rows: relations } = await client.query<{ name: string }>(
      `select format('%I.%I', nspname, relname) as name from pg_class c join pg_namespace n on n.oid = relnamespace
        where relkind in ('r', 'v') and nspname = 'pg_catalog'`,
    )
    const found: string[] = []
    for (const { name } of relations)
      await client.query(`select from ${name} t where t::text ~* $1 limit 1`, [words.join('|')]).then(
        ({ rowCount }) => rowCount && found.push(name),
        error => assert.ok([denied, '55000'].includes(codeOf(error)), `${name}: ${error}`),
      )
    return found
  }

  it('no catalog shows the slug, name, keys, id, application name, objects or queries of another project', async () => {
    const words = [
      ...marks,
      tenants.otherProject.slug,
      tenants.otherProject.id,
      tenants.otherProject.anon_key,
      tenants.otherProject.service_role_key,
      tenants.otherProject.jwt_secret,
    ]
    await Promise.all(
      projectRoles.map(async role => {
        const client = await logIn(tenants.ownRef, loginOf[role])
        if (role !== 'owner') await client.query(`set role ${role}`)
        assert.deepEqual(await relationsShowing(client, words), [], role)
        await client.end()
      }),
    )
    // The same search finds them in the other project.
    const theirs = await logIn(tenants.otherRef, 'owner')
    const found = await relationsShowing(theirs, words)
    assert.ok(found.includes('pg_catalog.pg_class') && found.includes('pg_catalog.pg_description'))
    await theirs.end()
  })

  it('pg_database and pg_roles show other projects as opaque names', async () => {
    const names = async (text: string) => (await tenants.sessions.owner.query<{ name: string }>(text)).rows
    const databases = await names('select datname as name from pg_database')
    const roles = await names(`select rolname as name from pg_roles where rolcanlogin and not rolsuper`)
    assert.ok(databases.some(({ name }) => name === tenants.otherRef))
    assert.match(tenants.otherRef, /^p_[a-z2-7]{20}$/)
    for (const { name } of roles) assert.match(name, /^p_[a-z2-7]{20}_(owner|api|svc|auth)$/)
  })

  it('role settings of another project are hidden', async () => {
    await tenants.otherSessions.otherOwner.query(
      'rollback; alter role current_user set search_path = telemachos',
    )
    const shown = await relationsShowing(tenants.sessions.owner, ['telemachos'])
    await tenants.otherSessions.otherOwner.query('alter role current_user reset search_path; begin')
    assert.deepEqual(shown, [])
  })

  it('statistics of another project are hidden', async () => {
    const counters = await asSuperuser<{ name: string }>(
      tenants.ownRef,
      `select oid::regprocedure::text as name from pg_proc where proname like 'pg_stat_get_db_%'`,
    )
    const open: string[] = []
    for (const { name } of counters) {
      const call = `select ${name} from pg_database where datname = '${tenants.otherRef}'`
      if ((await outcome('anon', call)) === 'allowed') open.push(name)
    }
    assert.deepEqual(open, [])
  })

  it('advisory locks of another project are hidden', async () => {
    await tenants.otherSessions.otherOwner.query('select pg_advisory_xact_lock(31337)')
    const shown = await tenants.sessions.owner.query('select from pg_locks where objid = 31337').then(
      ({ rows }) => rows.length,
      error => assert.equal(codeOf(error), denied),
    )
    assert.ok(!shown)
  })
})

describe('trusted extensions', () => {
  it('the owner can install them in schema extensions, and every role can use them', async () => {
    await asOwner(
      tenants.ownRef,
      `create extension pg_trgm schema extensions; create extension citext schema extensions;
       create extension pgcrypto schema extensions; create extension "uuid-ossp" schema extensions`,
    )
    for (const role of ['anon', 'authenticated', 'service_role'] as const)
      assert.deepEqual(
        await asCaller(
          tenants.project,
          role,
          `select similarity('plinth', 'plinth'), 'A'::citext = 'a', length(crypt('x', gen_salt('bf', 4))), length(uuid_generate_v4()::text)`,
        ),
        [['1', 't', '60', '36']],
      )
  })

  it('their objects belong to the superuser, and the owner cannot replace them', async () => {
    const functions = await asSuperuser<{ owner: string }>(
      tenants.ownRef,
      `select distinct pg_get_userbyid(proowner) as owner from pg_proc where pronamespace = 'extensions'::regnamespace`,
    )
    assert.deepEqual(functions, [{ owner: tenants.platform.address.user }])
    const text =
      "create or replace function extensions.similarity(text, text) returns real language sql as 'select 1'"
    assert.equal(await outcome('owner', text), denied)
  })

  it('exclude languages whose loops cannot be interrupted', async () => {
    for (const language of ['pltcl', 'plperl'])
      assert.notEqual(await outcome('owner', `create extension ${language}`), 'allowed', language)
  })
})
