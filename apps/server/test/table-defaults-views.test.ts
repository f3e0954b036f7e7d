// Views in schema public run with the rights of the caller (case 13).
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { denied, tableDefaultsProject } from './table-defaults-project.ts'

const { stage, asOwner, asRole } = tableDefaultsProject()

describe('views in public', () => {
  before(() => asOwner('create table hidden (a int); insert into hidden values (1)'))

  it('show only rows that the caller may see', async () => {
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

  it('do so after CREATE OR REPLACE', async () => {
    await asOwner('create view replaced as select a from hidden')
    await asOwner('create or replace view replaced as select a, a + 1 as b from hidden')
    assert.deepEqual(await asRole('anon', 'select a from replaced'), [])
    await asOwner(
      'create or replace view replaced with (security_barrier) as select a, a + 1 as b from hidden',
    )
    assert.deepEqual(await asRole('anon', 'select a from replaced'), [])
  })

  it('do so after SET SCHEMA public', async () => {
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

  it('run as their owner only with security_invoker = false, and keep that setting', async () => {
    await asOwner('create view deliberate with (security_invoker = false) as select a from hidden')
    assert.deepEqual(await asRole('anon', 'select a from deliberate'), [['1']])
    await asOwner(
      'alter view deliberate rename to on_purpose; create schema meanwhile; create view through_later as select 1 as a',
    )
    assert.deepEqual(await asRole('anon', 'select a from on_purpose'), [['1']])
  })
})

describe('anon sees no rows over REST', () => {
  before(() =>
    asOwner(`create table secrets (a int); insert into secrets values (1); create schema side;
             create table side.secrets (a int); insert into side.secrets values (1)`),
  )
  const getRows = (relation: string) =>
    stage.platform.call('GET', `/v1/rest/${stage.project.id}/${relation}`, { apikey: stage.project.anon_key })
  const view = (name: string) => `create view ${name} as select a from secrets;`

  const ways: Record<string, string> = {
    'after ALTER VIEW … RESET (security_invoker)': `${view('x')} alter view x reset (security_invoker)`,
    'after ALTER TABLE … RESET (security_invoker) on a view': `${view('x')} alter table x reset (security_invoker)`,
    'after RESET inside a function': `${view('x')} do $$ begin execute 'alter view x reset (security_invoker)'; end $$`,
    'after RESET of all options': `create view x with (security_invoker, security_barrier) as select a from secrets;
      alter view x reset (security_invoker, security_barrier)`,
    'after RESET of security_invoker = false': `create view x with (security_invoker = false) as select a from secrets;
      alter view x reset (security_invoker)`,
    'after a RESET in another schema and SET SCHEMA': `create view side.x as select a from secrets;
      alter view side.x reset (security_invoker); alter view side.x set schema public; grant select on x to anon, service_role`,
    'after SET SCHEMA, RESET and SET SCHEMA public': `${view('x')} alter view x set schema side;
      alter view side.x reset (security_invoker); alter table side.x set schema public`,
    'after SET (security_barrier) alone': `${view('x')} alter view x set (security_barrier = true)`,
    'after RESET (security_barrier) alone': `${view('x')} alter view x reset (security_barrier)`,
    'after CREATE OR REPLACE without options': `${view('x')} create or replace view x as select a, a + 1 as b from secrets`,
    'after CREATE OR REPLACE with another option': `${view('x')}
      create or replace view x with (security_barrier) as select a from secrets`,
    'after CREATE OR REPLACE of a view that was opened': `create view x with (security_invoker = false) as select a from secrets;
      create or replace view x as select a from secrets`,
    'after DROP and CREATE': `create view x with (security_invoker = false) as select a from secrets; drop view x; ${view('x')}`,
    'after CREATE OR REPLACE RULE': `${view('x')} create or replace rule "_RETURN" as on select to x do instead select a from secrets`,
    'after RENAME, ALTER COLUMN and OWNER TO': `${view('y')} alter view y rename to x; alter view x alter a set default 1;
      alter view x owner to current_user`,
    'through a view on a view': `${view('y')} alter view y reset (security_invoker); create view x as select a from y`,
    'in a table after SET SCHEMA public': `create table side.x (a int); insert into side.x values (1);
      alter table side.x set schema public`,
    'in a detached partition': `create table whole_x (a int) partition by list (a);
      create table x partition of whole_x for values in (1); insert into whole_x values (1);
      alter table whole_x detach partition x`,
    'in a table with an attached partition of another schema': `create table x (a int) partition by list (a);
      create table side.part_x (a int); insert into side.part_x values (1);
      alter table x attach partition side.part_x for values in (1)`,
    'in a table that inherits from another schema':
      'create table x () inherits (side.secrets); insert into x values (1)',
    'in a table that was dropped and created again': `create table x (a int); alter table x disable row level security; drop table x;
      create table x (a int); insert into x values (1)`,
  }
  /** Replaces x and y, so that each case has its own relations. */
  const named = (text: string, name: string) =>
    text.replace(/\bx\b/g, name).replace(/\by\b/g, `${name}_below`)
  for (const [place, [way, text]] of Object.entries(ways).entries())
    it(way, async () => {
      const name = `quiet_${place}`
      await asOwner(named(text, name))
      const reply = await getRows(`${name}?select=a`)
      assert.deepEqual([reply.status, reply.body], [200, []])
      assert.deepEqual(await asRole('service_role', `select a from ${name}`), [['1']])
    })

  const deniedWays: Record<string, string> = {
    'a materialized view after REFRESH, ALTER and a new index': `create materialized view x as select a from secrets;
      create unique index on x (a); refresh materialized view x; alter materialized view x set (fillfactor = 90);
      alter materialized view x rename to y; alter materialized view y rename to x`,
    'a materialized view that was dropped and created again': `create materialized view x as select a from secrets;
      grant select on x to anon; drop materialized view x; create materialized view x as select a from secrets`,
    'a materialized view after ALTER TABLE SET SCHEMA public': `create materialized view side.x as select a from secrets;
      grant select on side.x to anon; alter table side.x set schema public`,
    'a view on a table of another schema':
      'create view x as select a from side.secrets; alter view x reset (security_invoker)',
    'a view on the users':
      'create view x as select id as a from auth.users; alter view x reset (security_invoker)',
  }
  for (const [place, [way, text]] of Object.entries(deniedWays).entries())
    it(`and gets 403: ${way}`, async () => {
      const name = `refused_${place}`
      await asOwner(named(text, name))
      const reply = await getRows(`${name}?select=a`)
      assert.deepEqual([reply.status, reply.body.code], [403, denied], JSON.stringify(reply.body))
    })

  it('in a table turned into a view, where Postgres allows that', async () => {
    const attempt = asOwner(
      `create table turned (a int); create rule "_RETURN" as on select to turned do instead select a from secrets`,
    )
    // Postgres 15 allows this, later versions do not.
    if (
      await attempt.then(
        () => true,
        () => false,
      )
    )
      assert.deepEqual((await getRows('turned?select=a')).body, [])
  })

  it('except through a view with security_invoker = false, also after other ALTERs', async () => {
    await asOwner(`${view('open_view')} alter view open_view set (security_invoker = false)`)
    await asOwner(`alter view open_view set (security_barrier = true); alter view open_view rename to opened_view;
                   alter view opened_view alter a set default 1; alter view opened_view reset (security_barrier)`)
    assert.deepEqual((await getRows('opened_view?select=a')).body, [{ a: 1 }])
  })
})
