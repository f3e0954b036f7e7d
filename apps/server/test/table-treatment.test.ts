// Whatever way a relation comes into schema public, it is closed to rows and open to questions: row-level
// security is on, and the three roles get an answer instead of a permission error. Cases 12 and 13.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Role } from '@plinth/contract/route.ts'
import { identifier, literal, raw } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const roles: readonly Role[] = ['anon', 'authenticated', 'service_role']
const refused = '42501'

let platform: TestPlatform
let project: CreatedProject
let ref: string

before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
  ref = await platform.refOf(project.id)
})
after(() => platform?.stop())

const asOwner = (text: string, to = ref) =>
  platform.app.databases.asOwner({ ref: to }, session => session.script(text))

async function asRole(
  role: Role,
  text: string,
  { to = project, claims = { role } as object, values = [] as string[] } = {},
) {
  const tenant = (await platform.app.directory.find(to.id))!
  const { rows } = await platform.app.databases.asCaller(
    { tenant, role, claims: JSON.stringify(claims), userId: '', sessionId: '' },
    { method: 'GET', path: '/', headers: '{}' },
    statement(text, false),
    values,
  )
  return rows.map(row => row.map(cell => cell?.toString() ?? null))
}

const look = <T>(text: string, to = ref) => platform.asSuperuser(to, session => session.rows<T>(raw(text)))

const hasSecurity = async (table: string, to = ref) =>
  (
    await look<{ on: boolean }>(
      `select relrowsecurity as on from pg_class where oid = ${literal(table)}::regclass`,
      to,
    )
  )[0]!.on

/** One row is in it: the service sees that row, everybody else an empty set, and nobody a permission error. */
async function assertTreated(table: string, to = project): Promise<void> {
  const name = `public.${identifier(table)}`
  assert.equal(await hasSecurity(name, await platform.refOf(to.id)), true, `row-level security of ${name}`)
  for (const role of roles) {
    const rows = await asRole(role, `select a from ${name}`, { to })
    assert.deepEqual(rows, role === 'service_role' ? [['1']] : [], `${role} reads ${name}`)
  }
}

describe('row-level security is on for a table', () => {
  const ways: Record<string, { text: string; tables: string[] }> = {
    'of CREATE TABLE': {
      text: 'create table plain (a int); insert into plain values (1)',
      tables: ['plain'],
    },
    'of CREATE TABLE IF NOT EXISTS': {
      text: 'create table if not exists maybe (a int); create table if not exists maybe (a int); insert into maybe values (1)',
      tables: ['maybe'],
    },
    'made LIKE another': {
      text: 'create table alike (like plain including all); insert into alike values (1)',
      tables: ['alike'],
    },
    'that INHERITS from another': {
      text: 'create table parent (a int); create table child () inherits (parent); insert into child values (1)',
      tables: ['parent', 'child'],
    },
    'that is UNLOGGED': {
      text: 'create unlogged table unlogged (a int); insert into unlogged values (1)',
      tables: ['unlogged'],
    },
    'of a composite type': {
      text: 'create type shape as (a int); create table typed of shape; insert into typed values (1)',
      tables: ['typed'],
    },
    'of CREATE TABLE AS': { text: 'create table copied as select 1 as a', tables: ['copied'] },
    'of CREATE TABLE AS EXECUTE': {
      text: 'prepare one as select 1 as a; create table executed as execute one',
      tables: ['executed'],
    },
    'of SELECT INTO': { text: 'select 1 as a into selected', tables: ['selected'] },
    'made inside DO': {
      text: `do $$ begin execute 'create table done (a int)'; insert into done values (1); end $$`,
      tables: ['done'],
    },
    'made inside a function': {
      text: `create function make() returns void language plpgsql as
               $$ begin create table made (a int); insert into made values (1); end $$;
             select make()`,
      tables: ['made'],
    },
    'made of partitions, and for each partition': {
      text: `create table whole (a int) partition by list (a);
             create table part partition of whole for values in (1);
             create table deep partition of whole for values in (2) partition by list (a);
             create table deepest partition of deep for values in (2);
             insert into whole values (1)`,
      tables: ['whole', 'part'],
    },
    'attached as a partition later': {
      text: `create table host (a int) partition by list (a); create table guest (a int);
             alter table host attach partition guest for values in (1); insert into host values (1)`,
      tables: ['host', 'guest'],
    },
    'moved in by SET SCHEMA': {
      text: `create schema elsewhere; create table elsewhere.moved (a int); insert into elsewhere.moved values (1);
             alter table elsewhere.moved set schema public`,
      tables: ['moved'],
    },
    'among several of one transaction': {
      text: `begin; create table first (a int); create table second (a int); alter table first rename to third;
             insert into second values (1); insert into third values (1); commit`,
      tables: ['second', 'third'],
    },
  }
  for (const [way, { text, tables }] of Object.entries(ways))
    it(way, async () => {
      await asOwner(text)
      for (const table of tables) await assertTreated(table)
    })

  it('with any name at all', async () => {
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
      await assertTreated(name)
    }
    await assertTreated('plain')
  })

  it('made by a function of the owner that anon calls', async () => {
    await asOwner(`create function make_for_anon() returns void language plpgsql security definer as
      $$ begin create table by_anon (a int); insert into by_anon values (1); end $$`)
    await asRole('anon', 'select make_for_anon()')
    await assertTreated('by_anon')
  })

  it('again after it was dropped and made anew, and nothing is remembered of the old one', async () => {
    await asOwner('create table reborn (a int); alter table reborn disable row level security')
    const [{ oid } = { oid: 0 }] = await look<{ oid: number }>(`select 'public.reborn'::regclass::oid as oid`)
    await asOwner('drop table reborn')
    assert.deepEqual(await look(`select from platform.seen where relid = ${oid}`), [])
    await asOwner('create table reborn (a int); insert into reborn values (1)')
    await assertTreated('reborn')
  })

  it('but not for a temporary table or one in another schema', async () => {
    await platform.app.databases.asOwner({ ref }, async session => {
      await session.script(
        'create temp table short (a int); create schema apart; create table apart.there (a int)',
      )
      const on = await session.rows<{ on: boolean }>(
        raw(`select relrowsecurity as on from pg_class where relname in ('short', 'there')`),
      )
      assert.deepEqual(on, [{ on: false }, { on: false }])
    })
  })

  it('that came with a new schema public', async () => {
    const to = await platform.createProject()
    await asOwner(
      `drop schema public cascade;
       create schema public create table made_with (a int) create view seen_with as select a from made_with;
       insert into public.made_with values (1)`,
      await platform.refOf(to.id),
    )
    await assertTreated('made_with', to)
    const options = await look(
      `select reloptions from pg_class where relname = 'seen_with'`,
      await platform.refOf(to.id),
    )
    assert.deepEqual(options, [{ reloptions: ['security_invoker=true'] }])
  })

  it('that came with a schema renamed to public', async () => {
    const to = await platform.createProject()
    await asOwner(
      `alter schema public rename to old; create schema fresh; create table fresh.renamed (a int);
       insert into fresh.renamed values (1); create view fresh.looked as select a from fresh.renamed;
       create materialized view fresh.kept as select a from fresh.renamed;
       grant select on fresh.looked, fresh.kept to anon;
       alter schema fresh rename to public`,
      await platform.refOf(to.id),
    )
    await assertTreated('renamed', to)
    assert.deepEqual(await asRole('anon', 'select a from looked', { to }), [])
    await assert.rejects(asRole('anon', 'select a from kept', { to }), { code: refused })
  })

  it('made after schema public was dropped and made anew, with sequences and functions', async () => {
    const to = await platform.createProject()
    const toRef = await platform.refOf(to.id)
    await asOwner('create table before (a int); drop schema public cascade; create schema public', toRef)
    await asOwner(
      `create table reset (id serial, a int); insert into reset (a) values (1);
       create function answer() returns int language sql as 'select 42'`,
      toRef,
    )
    await assertTreated('reset', to)
    assert.deepEqual(await asRole('anon', 'select answer()', { to }), [['42']])
    assert.deepEqual(await asRole('service_role', 'insert into reset (a) values (2) returning id', { to }), [
      ['2'],
    ])
  })
})

describe('a table opened on purpose', () => {
  it('stays open: DISABLE holds in the same transaction and through every later DDL', async () => {
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

  it('answers by its policies', async () => {
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

describe('the three roles', () => {
  it('may read and write a new table as far as its policies go, and nothing beyond', async () => {
    await asOwner('create table granted (a int)')
    const held = await look<{ role: string; privileges: string }>(
      `select r.role, string_agg(p.privilege, ',' order by p.privilege) as privileges
         from unnest(array['anon', 'authenticated', 'service_role']) r(role),
              unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN']) p(privilege)
        where has_table_privilege(r.role, 'public.granted', p.privilege) group by r.role order by r.role`,
    )
    assert.deepEqual(
      held,
      roles.map(role => ({ role, privileges: 'DELETE,INSERT,SELECT,UPDATE' })),
    )
    for (const role of roles) await assert.rejects(asRole(role, 'truncate granted'), { code: refused })
    for (const role of ['anon', 'authenticated'] as const)
      await assert.rejects(asRole(role, 'insert into granted values (1)'), { code: refused })
    assert.deepEqual(await asRole('service_role', 'insert into granted values (1) returning a'), [['1']])
  })

  it('may use sequences and functions', async () => {
    await asOwner(
      `create table counted (id serial, made bigint generated always as identity, a int);
       create policy anyone on counted using (true) with check (true); create sequence tickets;
       create function twice(n int) returns int language sql as 'select n * 2'`,
    )
    for (const role of roles) {
      assert.deepEqual(await asRole(role, 'insert into counted (a) values (1) returning a'), [['1']])
      assert.deepEqual(await asRole(role, `select nextval('tickets') > 0, twice(21)`), [['t', '42']])
      await assert.rejects(asRole(role, `select setval('tickets', 1)`), { code: refused })
    }
  })

  it('may insert into a table with a serial column that was moved in', async () => {
    await asOwner(
      `create schema outside; create table outside.serial_moved (id serial, a int);
       alter table outside.serial_moved set schema public`,
    )
    assert.deepEqual(await asRole('service_role', 'insert into serial_moved (a) values (1) returning id'), [
      ['1'],
    ])
  })
})

describe('a view', () => {
  before(() => asOwner('create table hidden (a int); insert into hidden values (1)'))

  it('shows the caller what the caller may see', async () => {
    await asOwner(
      `create view through as select a from hidden;
       create recursive view again (a) as select a from hidden;
       create view updatable as select a from hidden with check option;
       create view nested as select a from through`,
    )
    for (const view of ['through', 'again', 'updatable', 'nested']) {
      assert.deepEqual(await asRole('anon', `select a from ${view}`), [], view)
      assert.deepEqual(await asRole('service_role', `select a from ${view}`), [['1']], view)
    }
  })

  it('still does once it is replaced', async () => {
    await asOwner('create view replaced as select a from hidden')
    await asOwner('create or replace view replaced as select a, a + 1 as b from hidden')
    assert.deepEqual(await asRole('anon', 'select a from replaced'), [])
    await asOwner(
      'create or replace view replaced with (security_barrier) as select a, a + 1 as b from hidden',
    )
    assert.deepEqual(await asRole('anon', 'select a from replaced'), [])
  })

  it('does so when it was moved in', async () => {
    await asOwner(
      `create schema drafts; create view drafts.by_view as select a from hidden;
       create view drafts.by_table as select a from hidden;
       alter view drafts.by_view set schema public; alter table drafts.by_table set schema public;
       grant select on by_view, by_table to anon, service_role`,
    )
    for (const view of ['by_view', 'by_table']) {
      assert.deepEqual(await asRole('anon', `select a from ${view}`), [], view)
      assert.deepEqual(await asRole('service_role', `select a from ${view}`), [['1']], view)
    }
  })

  it('runs as its owner only when that was said, and then keeps doing so', async () => {
    await asOwner('create view deliberate with (security_invoker = false) as select a from hidden')
    assert.deepEqual(await asRole('anon', 'select a from deliberate'), [['1']])
    await asOwner(
      'alter view deliberate rename to on_purpose; create schema meanwhile; create view through_later as select 1 as a',
    )
    assert.deepEqual(await asRole('anon', 'select a from on_purpose'), [['1']])
  })
})

describe('rows are not exposed quietly: anon over REST sees none', () => {
  before(() =>
    asOwner(`create table secrets (a int); insert into secrets values (1); create schema side;
             create table side.secrets (a int); insert into side.secrets values (1)`),
  )
  const asked = (relation: string) =>
    platform.call('GET', `/v1/rest/${project.id}/${relation}`, { apikey: project.anon_key })
  const view = (name: string) => `create view ${name} as select a from secrets;`

  const ways: Record<string, string> = {
    'after ALTER VIEW … RESET (security_invoker)': `${view('x')} alter view x reset (security_invoker)`,
    'after ALTER TABLE … RESET (security_invoker) on a view': `${view('x')} alter table x reset (security_invoker)`,
    'after RESET inside a function': `${view('x')} do $$ begin execute 'alter view x reset (security_invoker)'; end $$`,
    'after RESET of all options': `create view x with (security_invoker, security_barrier) as select a from secrets;
      alter view x reset (security_invoker, security_barrier)`,
    'after RESET of a deliberate choice': `create view x with (security_invoker = false) as select a from secrets;
      alter view x reset (security_invoker)`,
    'after a RESET in another schema and SET SCHEMA': `create view side.x as select a from secrets;
      alter view side.x reset (security_invoker); alter view side.x set schema public; grant select on x to anon, service_role`,
    'after it was moved out, RESET and moved back': `${view('x')} alter view x set schema side;
      alter view side.x reset (security_invoker); alter table side.x set schema public`,
    'after SET (security_barrier) alone': `${view('x')} alter view x set (security_barrier = true)`,
    'after RESET (security_barrier) alone': `${view('x')} alter view x reset (security_barrier)`,
    'after CREATE OR REPLACE without options': `${view('x')} create or replace view x as select a, a + 1 as b from secrets`,
    'after CREATE OR REPLACE with another option': `${view('x')}
      create or replace view x with (security_barrier) as select a from secrets`,
    'after CREATE OR REPLACE of a view that was opened': `create view x with (security_invoker = false) as select a from secrets;
      create or replace view x as select a from secrets`,
    'after DROP and CREATE': `create view x with (security_invoker = false) as select a from secrets; drop view x; ${view('x')}`,
    'after its rule was replaced': `${view('x')} create or replace rule "_RETURN" as on select to x do instead select a from secrets`,
    'after RENAME, ALTER COLUMN and OWNER TO': `${view('y')} alter view y rename to x; alter view x alter a set default 1;
      alter view x owner to current_user`,
    'through a view on a view': `${view('y')} alter view y reset (security_invoker); create view x as select a from y`,
    'in a table that was moved in': `create table side.x (a int); insert into side.x values (1);
      alter table side.x set schema public`,
    'in a partition that was detached': `create table whole_x (a int) partition by list (a);
      create table x partition of whole_x for values in (1); insert into whole_x values (1);
      alter table whole_x detach partition x`,
    'in a table that a partition was attached to': `create table x (a int) partition by list (a);
      create table side.part_x (a int); insert into side.part_x values (1);
      alter table x attach partition side.part_x for values in (1)`,
    'in a table that inherits from another schema':
      'create table x () inherits (side.secrets); insert into x values (1)',
    'in a table that was dropped and made again': `create table x (a int); alter table x disable row level security; drop table x;
      create table x (a int); insert into x values (1)`,
  }
  /** Each case has relations of its own. */
  const named = (text: string, name: string) =>
    text.replace(/\bx\b/g, name).replace(/\by\b/g, `${name}_below`)
  for (const [place, [way, text]] of Object.entries(ways).entries())
    it(way, async () => {
      const name = `quiet_${place}`
      await asOwner(named(text, name))
      const reply = await asked(`${name}?select=a`)
      assert.deepEqual([reply.status, reply.body], [200, []])
      assert.deepEqual(await asRole('service_role', `select a from ${name}`), [['1']])
    })

  const closed: Record<string, string> = {
    'a materialized view after REFRESH, ALTER and a new index': `create materialized view x as select a from secrets;
      create unique index on x (a); refresh materialized view x; alter materialized view x set (fillfactor = 90);
      alter materialized view x rename to y; alter materialized view y rename to x`,
    'a materialized view that was dropped and made again': `create materialized view x as select a from secrets;
      grant select on x to anon; drop materialized view x; create materialized view x as select a from secrets`,
    'a materialized view moved in by ALTER TABLE': `create materialized view side.x as select a from secrets;
      grant select on side.x to anon; alter table side.x set schema public`,
    'a view on a table of another schema':
      'create view x as select a from side.secrets; alter view x reset (security_invoker)',
    'a view on the users':
      'create view x as select id as a from auth.users; alter view x reset (security_invoker)',
  }
  for (const [place, [way, text]] of Object.entries(closed).entries())
    it(`and a refusal: ${way}`, async () => {
      const name = `refused_${place}`
      await asOwner(named(text, name))
      const reply = await asked(`${name}?select=a`)
      assert.deepEqual([reply.status, reply.body.code], [403, refused], JSON.stringify(reply.body))
    })

  it('a table cannot be turned into a view, or the view is closed', async () => {
    const turned = asOwner(
      `create table turned (a int); create rule "_RETURN" as on select to turned do instead select a from secrets`,
    )
    // Postgres 15 allows it; newer ones refuse.
    if (
      await turned.then(
        () => true,
        () => false,
      )
    )
      assert.deepEqual((await asked('turned?select=a')).body, [])
  })

  it('but shows what the owner has opened with security_invoker = false, through every other ALTER', async () => {
    await asOwner(`${view('open_view')} alter view open_view set (security_invoker = false)`)
    await asOwner(`alter view open_view set (security_barrier = true); alter view open_view rename to opened_view;
                   alter view opened_view alter a set default 1; alter view opened_view reset (security_barrier)`)
    assert.deepEqual((await asked('opened_view?select=a')).body, [{ a: 1 }])
  })
})

describe('what cannot have row-level security', () => {
  before(() => asOwner('create table source (a int); insert into source values (1)'))

  it('is closed to anon and authenticated: a materialized view', async () => {
    await asOwner('create materialized view summary as select a from source')
    for (const role of ['anon', 'authenticated'] as const)
      await assert.rejects(asRole(role, 'select a from summary'), { code: refused })
    assert.deepEqual(await asRole('service_role', 'select a from summary'), [['1']])
  })

  it('is closed to anon and authenticated: one moved in with its grants', async () => {
    await asOwner(
      `create schema store; create materialized view store.arriving as select 1 as a;
       grant select on store.arriving to anon; alter materialized view store.arriving set schema public`,
    )
    await assert.rejects(asRole('anon', 'select a from arriving'), { code: refused })
  })

  it('is closed to anon and authenticated: a foreign table', async () => {
    await platform.asSuperuser(ref, session =>
      session.script(
        `create foreign data wrapper far; grant usage on foreign data wrapper far to ${ref}_owner`,
      ),
    )
    await asOwner(
      'create server away foreign data wrapper far; create foreign table distant (a int) server away',
    )
    const readable = await look<{ role: string }>(
      `select r.role from unnest(array['anon', 'authenticated', 'service_role']) r(role)
        where has_table_privilege(r.role, 'public.distant', 'SELECT, INSERT, UPDATE, DELETE')`,
    )
    assert.deepEqual(readable, [{ role: 'service_role' }])
  })

  it('is open once it was granted, also after it is refreshed and indexed', async () => {
    await asOwner('create materialized view shared as select a from source; grant select on shared to anon')
    await asOwner('create unique index on shared (a); refresh materialized view concurrently shared')
    assert.deepEqual(await asRole('anon', 'select a from shared'), [['1']])
  })

  it('is still open after unrelated DDL', async () => {
    await asOwner(
      'create materialized view published as select a from source; grant select on published to anon',
    )
    await asOwner('alter materialized view published set (fillfactor = 90)')
    assert.deepEqual(await asRole('anon', 'select a from published'), [['1']])
    await asOwner('create schema unrelated_schema')
    assert.deepEqual(await asRole('anon', 'select a from published'), [['1']])
  })
})

describe('the claims of a request', () => {
  const seen = `select auth.uid(), auth.role(), auth.email(), auth.jwt() -> 'app_metadata' ->> 'team'`
  const sub = '33333333-3333-4333-8333-333333333333'

  it('are what auth.uid(), auth.role(), auth.email() and auth.jwt() say', async () => {
    const claims = { sub, role: 'authenticated', email: 'o@example.com', app_metadata: { team: 'blue' } }
    assert.deepEqual(await asRole('authenticated', seen, { claims }), [
      [sub, 'authenticated', 'o@example.com', 'blue'],
    ])
    assert.deepEqual(await asRole('anon', seen), [[null, 'anon', null, null]])
  })

  it('are empty, not an error, outside a request', async () => {
    await platform.app.databases.asOwner({ ref }, async session => {
      const row = await session.row(
        raw('select auth.uid() as uid, auth.role() as role, auth.email() as email, auth.jwt() as jwt'),
      )
      assert.deepEqual(row, { uid: null, role: null, email: null, jwt: {} })
    })
  })

  it('are read the same whatever search_path the tenant’s function has', async () => {
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

it('only what the owner creates is granted to the roles by default, not what an extension brings along', async () => {
  const grantors = await look<{ name: string }>(
    `select distinct pg_get_userbyid(defaclrole) as name from pg_default_acl`,
  )
  assert.deepEqual(grantors, [{ name: `${ref}_owner` }])
})

it('a view that goes with the function it stands on is forgotten', async () => {
  await asOwner(
    `create function one() returns int language sql as 'select 1'; create view on_one as select one() as n`,
  )
  const [view] = await look<{ oid: number }>(`select 'public.on_one'::regclass::oid as oid`)
  await asOwner('drop function one() cascade')
  assert.deepEqual(await look(`select 1 from platform.seen where relid = ${view!.oid}`), [])
})

it('extensions are created and dropped like anywhere else', async () => {
  const names = ['hstore', 'ltree', 'btree_gist', 'intarray', 'tablefunc', 'unaccent']
  for (const name of names) await asOwner(`create extension ${name}`)
  await asOwner('create extension citext schema extensions')
  assert.deepEqual(await asRole('anon', `select 'a=>1'::hstore -> 'a', 'A'::citext = 'a'`), [['1', 't']])
  for (const name of [...names, 'citext']) await asOwner(`drop extension ${name}`)
})
