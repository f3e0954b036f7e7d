// Row-level security is switched on for every table of the project, in any schema, exposed or not.
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { platformSchemas } from '@plinth/contract/platform-schemas.ts'
import { literal, sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, untilUpgraded } from './harness.ts'
import { denied, tableDefaultsProject } from './table-defaults-project.ts'

const { stage, asOwner, asRole, asSuperuser, hasSecurity } = tableDefaultsProject()

/** Grants as they are usual for an exposed schema. */
const opened = (schema: string) => `
  grant usage on schema ${schema} to anon, authenticated, service_role;
  grant select on all tables in schema ${schema} to anon, authenticated, service_role`

async function assertSecured(table: string): Promise<void> {
  assert.equal(await hasSecurity(table), true, `row-level security of ${table}`)
  assert.deepEqual(await asRole('service_role', `select a from ${table}`), [['1']], table)
  for (const role of ['anon', 'authenticated'] as const)
    assert.deepEqual(await asRole(role, `select a from ${table}`), [], `${role} reads ${table}`)
}

describe('row-level security is on for a new table in any schema', () => {
  before(() => asOwner('create schema api'))

  const ways: Record<string, { text: string; tables: string[] }> = {
    'CREATE TABLE': {
      text: 'create table api.plain (a int); insert into api.plain values (1)',
      tables: ['plain'],
    },
    'CREATE UNLOGGED TABLE': {
      text: 'create unlogged table api.unlogged (a int); insert into api.unlogged values (1)',
      tables: ['unlogged'],
    },
    'CREATE TABLE AS': { text: 'create table api.copied as select 1 as a', tables: ['copied'] },
    'SELECT INTO': { text: 'select 1 as a into api.selected', tables: ['selected'] },
    'CREATE TABLE inside DO': {
      text: `do $$ begin execute 'create table api.done (a int)'; insert into api.done values (1); end $$`,
      tables: ['done'],
    },
    'a partitioned table, its partitions and an attached one': {
      text: `create table api.whole (a int, b int) partition by list (b);
             create table api.part partition of api.whole for values in (1);
             create table api.guest (a int, b int); alter table api.whole attach partition api.guest for values in (2);
             insert into api.whole values (1, 1); insert into api.guest values (1, 2);
             create policy none on api.whole using (b = 2)`,
      tables: ['part', 'guest'],
    },
    'SET SCHEMA from public, after a rename and as a copy': {
      text: `create table leaving (a int); insert into leaving values (1); alter table leaving set schema api;
             create table api.before (like api.leaving); alter table api.before rename to named;
             insert into api.named values (1)`,
      tables: ['leaving', 'named'],
    },
    'a table that was marked as seen while it was created': {
      text: `create function api.mark() returns int language plpgsql as
               $$ begin perform platform.first_time('api.marked'::regclass); return 1; end $$;
             create table api.marked as select api.mark() as a`,
      tables: ['marked'],
    },
    'a table that was opened, dropped and created again': {
      text: `create table api.reborn (a int); alter table api.reborn disable row level security; drop table api.reborn;
             create table api.reborn (a int); insert into api.reborn values (1)`,
      tables: ['reborn'],
    },
  }
  for (const [way, { text, tables }] of Object.entries(ways))
    it(way, async () => {
      await asOwner(text)
      await asOwner(opened('api'))
      for (const table of tables) await assertSecured(`api.${table}`)
    })

  it('a schema and its table in one transaction', async () => {
    await asOwner(
      `begin; create schema at_once; create table at_once.t (a int); insert into at_once.t values (1); commit;
       ${opened('at_once')}`,
    )
    await assertSecured('at_once.t')
  })

  it('CREATE SCHEMA … CREATE TABLE, also under a new name', async () => {
    await asOwner(
      `create schema made_with create table t (a int);
       insert into made_with.t values (1); alter schema made_with rename to renamed; ${opened('renamed')}`,
    )
    await assertSecured('renamed.t')
  })

  it('a schema of the platform’s name that is renamed', async () => {
    const to = await stage.platform.createProject()
    const ref = await stage.platform.refOf(to.id)
    await asOwner(
      `create schema supabase_migrations; create table supabase_migrations.t (a int);
       alter schema supabase_migrations rename to api`,
      ref,
    )
    assert.equal(await hasSecurity('api.t', ref), true)
  })

  it('a table that service_role creates in a schema where it may', async () => {
    await asOwner(
      `create schema workshop; grant usage, create on schema workshop to service_role;
       grant usage on schema workshop to anon, authenticated`,
    )
    await asRole('service_role', 'create table workshop.own as select 1 as a')
    await asRole('service_role', 'grant select on workshop.own to anon, authenticated')
    await assertSecured('workshop.own')
    await asRole('service_role', 'drop table workshop.own')
  })

  it('anon cannot create a table in a schema that it only uses', async () => {
    await assert.rejects(asRole('anon', 'create table api.by_anon (a int)'), { code: denied })
  })

  it('over REST, anon sees no rows of an exposed schema until a policy allows them', async () => {
    await asOwner(
      `create schema shop; create table shop.items (a int); insert into shop.items values (1); ${opened('shop')}`,
    )
    const { platform, project } = stage
    const patched = await platform.call('PATCH', `/api/v1/projects/${project.id}`, {
      token: platform.adminToken,
      body: { settings: { exposed_schemas: ['public', 'shop'] } },
    })
    assert.equal(patched.status, 200)
    const items = () =>
      platform.call('GET', `/v1/rest/${project.id}/items`, {
        apikey: project.anon_key,
        headers: { 'accept-profile': 'shop' },
      })
    assert.deepEqual((await items()).body, [])
    await asOwner('create policy all_rows on shop.items for select using (true)')
    assert.deepEqual((await items()).body, [{ a: 1 }])
  })
})

describe('what a new relation in another schema does not grant', () => {
  before(() =>
    asOwner(
      `create schema wide; grant usage on schema wide to anon, authenticated, service_role;
       alter default privileges in schema wide grant all on tables to public, anon, authenticated, service_role`,
    ),
  )

  it('TRUNCATE and other privileges that policies do not limit, even by default privileges', async () => {
    await asOwner('create table wide.t (a int); insert into wide.t values (1)')
    await assertSecured('wide.t')
    const held = await asSuperuser<{ role: string; privileges: string }>(
      `select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as role,
              string_agg(a.privilege_type, ',' order by a.privilege_type) as privileges
         from pg_class c, aclexplode(c.relacl) a where c.oid = 'wide.t'::regclass
          and (a.grantee = 0 or a.grantee in ('anon'::regrole, 'authenticated'::regrole)) group by a.grantee order by 1`,
    )
    assert.deepEqual(
      held,
      ['anon', 'authenticated', 'public'].map(role => ({ role, privileges: 'DELETE,INSERT,SELECT,UPDATE' })),
    )
    await assert.rejects(asRole('anon', 'truncate wide.t'), { code: denied })
    await asRole('service_role', 'truncate wide.t')
  })

  it('a materialized view or foreign table, until it is granted on purpose', async () => {
    await stage.platform.asSuperuser(stage.ref, session =>
      session.script(
        `create foreign data wrapper far; grant usage on foreign data wrapper far to ${stage.ref}_owner`,
      ),
    )
    await asOwner(
      `create materialized view wide.kept as select 1 as a; create server away foreign data wrapper far;
       create foreign table wide.distant (a int) server away`,
    )
    const readable = await asSuperuser<{ name: string; role: string }>(
      `select c.relname as name, r.role from pg_class c, unnest(array['anon', 'authenticated', 'service_role']) r(role)
        where c.relname in ('kept', 'distant') and has_table_privilege(r.role, c.oid, 'SELECT, INSERT, UPDATE, DELETE')
        order by 1`,
    )
    assert.deepEqual(readable, [
      { name: 'distant', role: 'service_role' },
      { name: 'kept', role: 'service_role' },
    ])
    assert.deepEqual(await asRole('service_role', 'select a from wide.kept'), [['1']])
    await asOwner(
      'grant select on wide.kept to anon; alter materialized view wide.kept set (fillfactor = 90)',
    )
    assert.deepEqual(await asRole('anon', 'select a from wide.kept'), [['1']])
  })

  it('a view shows rows only after a GRANT, and then runs as its owner', async () => {
    await asOwner(
      `create schema facade; grant usage on schema facade to anon; create table wide.rows (a int);
       insert into wide.rows values (1); create view facade.through as select a from wide.rows`,
    )
    await assert.rejects(asRole('anon', 'select a from facade.through'), { code: denied })
    await asOwner('grant select on facade.through to anon')
    assert.deepEqual(await asRole('anon', 'select a from facade.through'), [['1']])
    await asOwner('alter view facade.through set schema public')
    assert.deepEqual(await asRole('anon', 'select a from public.through'), [])
  })

  it('anything in public, once the project has revoked its default privileges there', async () => {
    const to = await stage.platform.createProject()
    await asOwner(
      `alter default privileges in schema public revoke all on tables from anon, authenticated, service_role;
       create table ungranted (a int)`,
      await stage.platform.refOf(to.id),
    )
    await assert.rejects(asRole('service_role', 'select a from ungranted', { to }), { code: denied })
  })
})

describe('tables that the owner opens in another schema', () => {
  it('DISABLE ROW LEVEL SECURITY is kept through later DDL, and ends when the table comes into public', async () => {
    await asOwner(
      `create schema mine; create table mine.t (a int); insert into mine.t values (1);
       alter table mine.t disable row level security; alter table mine.t add b int;
       create table if not exists mine.t (a int); create table if not exists mine.t as select 1 as a;
       alter schema mine rename to yours;
       create schema theirs; alter table yours.t set schema theirs`,
    )
    assert.equal(await hasSecurity('theirs.t'), false)
    await asOwner('alter table theirs.t set schema public')
    assert.equal(await hasSecurity('public.t'), true)
    await asOwner(
      'alter table t disable row level security; alter table t set schema theirs; alter table theirs.t set schema public',
    )
    assert.equal(await hasSecurity('public.t'), false)
  })
})

describe('the marks of treated relations', () => {
  it('calling the marker functions neither exempts a table nor forgets one', async () => {
    await asOwner(
      'create schema marked; create table marked.open (a int); alter table marked.open disable row level security',
    )
    const [open] = await asSuperuser<{ oid: number }>(`select 'marked.open'::regclass::oid as oid`)
    for (const role of ['anon', 'service_role'] as const) {
      // The next tables have higher numbers.
      await asRole(role, `select count(platform.first_time(${open!.oid} + n)) from generate_series(1, 200) n`)
      await asRole(role, `select platform.forget(${open!.oid})`)
    }
    await asOwner('alter table marked.open add b int; create table marked.next (a int)')
    assert.equal(await hasSecurity('marked.open'), false)
    assert.equal(await hasSecurity('marked.next'), true)
  })

  it('the owner cannot switch off event triggers', async () => {
    for (const text of [
      'drop event trigger platform_ddl',
      'alter event trigger platform_ddl disable',
      `set session_replication_role = 'replica'`,
      ...((await hasEventTriggerSetting()) ? ['set event_triggers = off'] : []),
    ])
      await assert.rejects(asOwner(text), { code: denied }, text)
  })

  const hasEventTriggerSetting = async () =>
    (await asSuperuser(`select from pg_settings where name = 'event_triggers'`)).length > 0

  it('the reserved schemas of the database are those of the contract', async () => {
    const names = [...platformSchemas, 'pg_catalog', 'pg_temp_3', 'public', 'api', 'pgmq_public', 'Auth']
    const reserved = await asSuperuser<{ name: string }>(
      `select name from unnest(array[${names.map(literal).join(', ')}]) name where platform.is_reserved(name)`,
    )
    assert.deepEqual(
      reserved.map(({ name }) => name),
      [...platformSchemas, 'pg_catalog', 'pg_temp_3'],
    )
  })
})

describe('a project from before this rule', () => {
  it('keeps the open tables and views of its other schemas until they come into public', async () => {
    const project = await stage.platform.createProject()
    const ref = await stage.platform.refOf(project.id)
    const to = project
    // As the earlier release left it: no columns in platform.seen, and nothing done in other schemas.
    await stage.platform.asSuperuser(ref, session =>
      session.script(
        `alter event trigger platform_ddl disable;
         set role ${ref}_owner;
         create schema legacy; create table legacy.t (a int); insert into legacy.t values (1);
         create view legacy.v as select a from legacy.t; create materialized view legacy.m as select a from legacy.t;
         grant usage on schema legacy to anon; grant select on all tables in schema legacy to anon;
         reset role;
         alter event trigger platform_ddl enable always;
         alter table platform.seen drop column is_public;
         delete from platform.migrations where name in ('0008_every_schema', 'table_treatment')`,
      ),
    )
    await stage.platform.app.control.run(
      sql`update projects set schema_version = 'old' where id = ${project.id}`,
    )
    const node = await startPlatform({ beside: stage.platform })
    await untilUpgraded(node).finally(() => node.stop())

    await asOwner(
      `alter table legacy.t add b int; alter view legacy.v alter a set default 1;
       create or replace view legacy.v as select a, 1 as b from legacy.t; alter materialized view legacy.m rename to n;
       create table legacy.later (a int); grant select on legacy.later to anon; insert into legacy.later values (1)`,
      ref,
    )
    for (const relation of ['t', 'v', 'n'])
      assert.deepEqual(await asRole('anon', `select a from legacy.${relation}`, { to }), [['1']], relation)
    assert.deepEqual(await asRole('anon', 'select a from legacy.later', { to }), [])

    await asOwner('alter table legacy.t set schema public; alter view legacy.v set schema public', ref)
    for (const relation of ['t', 'v'])
      assert.deepEqual(await asRole('anon', `select a from public.${relation}`, { to }), [], relation)
  })
})
