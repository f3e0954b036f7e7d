// Row-level security is switched on for every table that comes into schema public (cases 12 and 13).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { identifier, raw } from '#src/kernel/postgres/sql.ts'
import { denied, tableDefaultsProject } from './table-defaults-project.ts'

const { stage, asOwner, asRole, asSuperuser, hasSecurity, assertSecured } = tableDefaultsProject()

describe('row-level security is on for a new table in public', () => {
  const ways: Record<string, { text: string; tables: string[] }> = {
    'CREATE TABLE': {
      text: 'create table plain (a int); insert into plain values (1)',
      tables: ['plain'],
    },
    'CREATE TABLE IF NOT EXISTS': {
      text: 'create table if not exists maybe (a int); create table if not exists maybe (a int); insert into maybe values (1)',
      tables: ['maybe'],
    },
    'CREATE TABLE LIKE': {
      text: 'create table alike (like plain including all); insert into alike values (1)',
      tables: ['alike'],
    },
    INHERITS: {
      text: 'create table parent (a int); create table child () inherits (parent); insert into child values (1)',
      tables: ['parent', 'child'],
    },
    'CREATE UNLOGGED TABLE': {
      text: 'create unlogged table unlogged (a int); insert into unlogged values (1)',
      tables: ['unlogged'],
    },
    'CREATE TABLE OF a composite type': {
      text: 'create type shape as (a int); create table typed of shape; insert into typed values (1)',
      tables: ['typed'],
    },
    'CREATE TABLE AS': { text: 'create table copied as select 1 as a', tables: ['copied'] },
    'CREATE TABLE AS EXECUTE': {
      text: 'prepare one as select 1 as a; create table executed as execute one',
      tables: ['executed'],
    },
    'SELECT INTO': { text: 'select 1 as a into selected', tables: ['selected'] },
    'CREATE TABLE inside DO': {
      text: `do $$ begin execute 'create table done (a int)'; insert into done values (1); end $$`,
      tables: ['done'],
    },
    'CREATE TABLE inside a function': {
      text: `create function make() returns void language plpgsql as
               $$ begin create table made (a int); insert into made values (1); end $$;
             select make()`,
      tables: ['made'],
    },
    'a partitioned table and each partition': {
      text: `create table whole (a int) partition by list (a);
             create table part partition of whole for values in (1);
             create table deep partition of whole for values in (2) partition by list (a);
             create table deepest partition of deep for values in (2);
             insert into whole values (1)`,
      tables: ['whole', 'part'],
    },
    'ATTACH PARTITION': {
      text: `create table host (a int) partition by list (a); create table guest (a int);
             alter table host attach partition guest for values in (1); insert into host values (1)`,
      tables: ['host', 'guest'],
    },
    'SET SCHEMA public': {
      text: `create schema elsewhere; create table elsewhere.moved (a int); insert into elsewhere.moved values (1);
             alter table elsewhere.moved set schema public`,
      tables: ['moved'],
    },
    'several tables in one transaction': {
      text: `begin; create table first (a int); create table second (a int); alter table first rename to third;
             insert into second values (1); insert into third values (1); commit`,
      tables: ['second', 'third'],
    },
  }
  for (const [way, { text, tables }] of Object.entries(ways))
    it(way, async () => {
      await asOwner(text)
      for (const table of tables) await assertSecured(table)
    })

  it('any table name', async () => {
    const names = [
      'select',
      'Mixed Case',
      `it's "quoted"`,
      '%I',
      '$$',
      'x"; drop table plain; --',
      'ÄÖ 表 🜁',
      'n'.repeat(63),
    ]
    for (const name of names) {
      await asOwner(`create table ${identifier(name)} (a int); insert into ${identifier(name)} values (1)`)
      await assertSecured(name)
    }
    await assertSecured('plain')
  })

  it('a table created by a security definer function that anon calls', async () => {
    await asOwner(`create function make_for_anon() returns void language plpgsql security definer as
      $$ begin create table by_anon (a int); insert into by_anon values (1); end $$`)
    await asRole('anon', 'select make_for_anon()')
    await assertSecured('by_anon')
  })

  it('a table that was opened, dropped and created again', async () => {
    await asOwner('create table reborn (a int); alter table reborn disable row level security')
    const [{ oid } = { oid: 0 }] = await asSuperuser<{ oid: number }>(
      `select 'public.reborn'::regclass::oid as oid`,
    )
    await asOwner('drop table reborn')
    assert.deepEqual(await asSuperuser(`select from platform.seen where relid = ${oid}`), [])
    await asOwner('create table reborn (a int); insert into reborn values (1)')
    await assertSecured('reborn')
  })

  it('not for a temporary table or a table in a schema of the platform', async () => {
    await stage.platform.app.databases.asOwner({ ref: stage.ref }, async session => {
      await session.script('create temp table short (a int); create table extensions.there (a int)')
      const on = await session.rows<{ on: boolean }>(
        raw(`select relrowsecurity as on from pg_class where relname in ('short', 'there')`),
      )
      assert.deepEqual(on, [{ on: false }, { on: false }])
    })
  })

  it('a table created with CREATE SCHEMA public', async () => {
    const to = await stage.platform.createProject()
    await asOwner(
      `drop schema public cascade;
       create schema public create table made_with (a int) create view seen_with as select a from made_with;
       insert into public.made_with values (1)`,
      await stage.platform.refOf(to.id),
    )
    await assertSecured('made_with', to)
    const options = await asSuperuser(
      `select reloptions from pg_class where relname = 'seen_with'`,
      await stage.platform.refOf(to.id),
    )
    assert.deepEqual(options, [{ reloptions: ['security_invoker=true'] }])
  })

  it('a table in a schema that is renamed to public', async () => {
    const to = await stage.platform.createProject()
    await asOwner(
      `alter schema public rename to old; create schema fresh; create table fresh.renamed (a int);
       insert into fresh.renamed values (1); create view fresh.looked as select a from fresh.renamed;
       create materialized view fresh.kept as select a from fresh.renamed;
       grant select on fresh.looked, fresh.kept to anon;
       alter schema fresh rename to public`,
      await stage.platform.refOf(to.id),
    )
    await assertSecured('renamed', to)
    assert.deepEqual(await asRole('anon', 'select a from looked', { to }), [])
    await assert.rejects(asRole('anon', 'select a from kept', { to }), { code: denied })
  })

  it('a table created after schema public was dropped and created again', async () => {
    const to = await stage.platform.createProject()
    const toRef = await stage.platform.refOf(to.id)
    await asOwner('create table before (a int); drop schema public cascade; create schema public', toRef)
    await asOwner(
      `create table reset (id serial, a int); insert into reset (a) values (1);
       create function answer() returns int language sql as 'select 42'`,
      toRef,
    )
    await assertSecured('reset', to)
    assert.deepEqual(await asRole('anon', 'select answer()', { to }), [['42']])
    assert.deepEqual(await asRole('service_role', 'insert into reset (a) values (2) returning id', { to }), [
      ['2'],
    ])
  })
})

describe('tables that the owner opens', () => {
  it('DISABLE ROW LEVEL SECURITY is kept in the same transaction and through later DDL', async () => {
    await asOwner(
      `begin; create table opened (a int); alter table opened disable row level security; commit;
       insert into opened values (1)`,
    )
    assert.deepEqual(await asRole('anon', 'select a from opened'), [['1']])
    await asOwner(
      `alter table opened add b text; alter table opened rename b to c; create index on opened (a);
       create table unrelated (a int); create schema passing; drop schema passing;
       alter table opened rename to opened_still; create schema aside;
       alter table opened_still set schema aside; alter table aside.opened_still set schema public`,
    )
    assert.equal(await hasSecurity('public.opened_still'), false)
    assert.deepEqual(await asRole('anon', 'select a from opened_still'), [['1']])
  })

  it('policies decide which rows a caller sees', async () => {
    await asOwner(
      `create table letters (a int, reader uuid);
       create policy own_letters on letters to authenticated using (reader = auth.uid());
       insert into letters values (1, '11111111-1111-4111-8111-111111111111'), (2, '22222222-2222-4222-8222-222222222222')`,
    )
    const reader = (sub: string) => ({ claims: { role: 'authenticated', sub } })
    assert.deepEqual(
      await asRole('authenticated', 'select a from letters', reader('22222222-2222-4222-8222-222222222222')),
      [['2']],
    )
    assert.deepEqual(await asRole('anon', 'select a from letters'), [])
    assert.equal((await asRole('service_role', 'select a from letters')).length, 2)
  })
})
