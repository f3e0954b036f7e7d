// Grants on new relations, sequences and functions, and the functions of schema auth.
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { raw } from '#src/kernel/postgres/sql.ts'
import { denied, roles, tableDefaultsProject } from './table-defaults-project.ts'

const { stage, asOwner, asRole, asSuperuser } = tableDefaultsProject()

describe('grants on new objects', () => {
  it('all roles have select, insert, update and delete on a new table, limited by its policies', async () => {
    await asOwner('create table granted (a int)')
    const privileges = await asSuperuser<{ role: string; privileges: string }>(
      `select r.role, string_agg(p.privilege, ',' order by p.privilege) as privileges
         from unnest(array['anon', 'authenticated', 'service_role']) r(role),
              unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN']) p(privilege)
        where has_table_privilege(r.role, 'public.granted', p.privilege) group by r.role order by r.role`,
    )
    assert.deepEqual(
      privileges,
      roles.map(role => ({ role, privileges: 'DELETE,INSERT,SELECT,UPDATE' })),
    )
    for (const role of roles) await assert.rejects(asRole(role, 'truncate granted'), { code: denied })
    for (const role of ['anon', 'authenticated'] as const)
      await assert.rejects(asRole(role, 'insert into granted values (1)'), { code: denied })
    assert.deepEqual(await asRole('service_role', 'insert into granted values (1) returning a'), [['1']])
  })

  it('all roles can use sequences and call functions', async () => {
    await asOwner(
      `create table counted (id serial, made bigint generated always as identity, a int);
       create policy anyone on counted using (true) with check (true); create sequence tickets;
       create function twice(n int) returns int language sql as 'select n * 2'`,
    )
    for (const role of roles) {
      assert.deepEqual(await asRole(role, 'insert into counted (a) values (1) returning a'), [['1']])
      assert.deepEqual(await asRole(role, `select nextval('tickets') > 0, twice(21)`), [['t', '42']])
      await assert.rejects(asRole(role, `select setval('tickets', 1)`), { code: denied })
    }
  })

  it('service_role can insert into a table with a serial column that was moved to public', async () => {
    await asOwner(
      `create schema outside; create table outside.serial_moved (id serial, a int);
       alter table outside.serial_moved set schema public`,
    )
    assert.deepEqual(await asRole('service_role', 'insert into serial_moved (a) values (1) returning id'), [
      ['1'],
    ])
  })
})

describe('relations without row-level security', () => {
  before(() => asOwner('create table source (a int); insert into source values (1)'))

  it('a materialized view is not granted to anon and authenticated', async () => {
    await asOwner('create materialized view summary as select a from source')
    for (const role of ['anon', 'authenticated'] as const)
      await assert.rejects(asRole(role, 'select a from summary'), { code: denied })
    assert.deepEqual(await asRole('service_role', 'select a from summary'), [['1']])
  })

  it('a materialized view moved to public loses its grant to anon', async () => {
    await asOwner(
      `create schema store; create materialized view store.arriving as select 1 as a;
       grant select on store.arriving to anon; alter materialized view store.arriving set schema public`,
    )
    await assert.rejects(asRole('anon', 'select a from arriving'), { code: denied })
  })

  it('a foreign table is not granted to anon and authenticated', async () => {
    await stage.platform.asSuperuser(stage.ref, session =>
      session.script(
        `create foreign data wrapper far; grant usage on foreign data wrapper far to ${stage.ref}_owner`,
      ),
    )
    await asOwner(
      'create server away foreign data wrapper far; create foreign table distant (a int) server away',
    )
    const readable = await asSuperuser<{ role: string }>(
      `select r.role from unnest(array['anon', 'authenticated', 'service_role']) r(role)
        where has_table_privilege(r.role, 'public.distant', 'SELECT, INSERT, UPDATE, DELETE')`,
    )
    assert.deepEqual(readable, [{ role: 'service_role' }])
  })

  it('a granted materialized view stays readable after an index and a refresh', async () => {
    await asOwner('create materialized view shared as select a from source; grant select on shared to anon')
    await asOwner('create unique index on shared (a); refresh materialized view concurrently shared')
    assert.deepEqual(await asRole('anon', 'select a from shared'), [['1']])
  })

  it('a granted materialized view stays readable after other DDL', async () => {
    await asOwner(
      'create materialized view published as select a from source; grant select on published to anon',
    )
    await asOwner('alter materialized view published set (fillfactor = 90)')
    assert.deepEqual(await asRole('anon', 'select a from published'), [['1']])
    await asOwner('create schema unrelated_schema')
    assert.deepEqual(await asRole('anon', 'select a from published'), [['1']])
  })
})

describe('auth functions', () => {
  const seen = `select auth.uid(), auth.role(), auth.email(), auth.jwt() -> 'app_metadata' ->> 'team'`
  const sub = '33333333-3333-4333-8333-333333333333'

  it('auth.uid(), auth.role(), auth.email() and auth.jwt() return the claims of the request', async () => {
    const claims = { sub, role: 'authenticated', email: 'o@example.com', app_metadata: { team: 'blue' } }
    assert.deepEqual(await asRole('authenticated', seen, { claims }), [
      [sub, 'authenticated', 'o@example.com', 'blue'],
    ])
    assert.deepEqual(await asRole('anon', seen), [[null, 'anon', null, null]])
  })

  it('return null or an empty object outside a request', async () => {
    await stage.platform.app.databases.asOwner({ ref: stage.ref }, async session => {
      const row = await session.row(
        raw('select auth.uid() as uid, auth.role() as role, auth.email() as email, auth.jwt() as jwt'),
      )
      assert.deepEqual(row, { uid: null, role: null, email: null, jwt: {} })
    })
  })

  it('do not use functions in the search_path of the caller', async () => {
    await asOwner(
      `create schema shadow; create function shadow.current_setting(text, boolean) returns text language sql as
         $$ select '{"sub":"${sub}","role":"service_role"}' $$;
       grant usage on schema shadow to anon;
       create function asks() returns text language sql set search_path = shadow, pg_catalog as
         $$ select concat_ws(',', auth.role(), auth.uid()::text, auth.jwt() ->> 'role') $$`,
    )
    assert.deepEqual(await asRole('anon', 'select asks()'), [['anon,anon']])
  })
})

it('default privileges exist for the owner only, so objects of extensions are not granted', async () => {
  const grantors = await asSuperuser<{ name: string }>(
    `select distinct pg_get_userbyid(defaclrole) as name from pg_default_acl`,
  )
  assert.deepEqual(grantors, [{ name: `${stage.ref}_owner` }])
})

it('a view dropped by CASCADE is removed from platform.seen', async () => {
  await asOwner(
    `create function one() returns int language sql as 'select 1'; create view on_one as select one() as n`,
  )
  const [view] = await asSuperuser<{ oid: number }>(`select 'public.on_one'::regclass::oid as oid`)
  await asOwner('drop function one() cascade')
  assert.deepEqual(await asSuperuser(`select 1 from platform.seen where relid = ${view!.oid}`), [])
})

it('the owner can create and drop extensions', async () => {
  const names = ['hstore', 'ltree', 'btree_gist', 'intarray', 'tablefunc', 'unaccent']
  for (const name of names) await asOwner(`create extension ${name}`)
  await asOwner('create extension citext schema extensions')
  assert.deepEqual(await asRole('anon', `select 'a=>1'::hstore -> 'a', 'A'::citext = 'a'`), [['1', 't']])
  for (const name of [...names, 'citext']) await asOwner(`drop extension ${name}`)
})
