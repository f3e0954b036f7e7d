// Which tables webhooks can be attached to, and what happens when attached tables change.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { platformSchemas } from '@plinth/contract/platform-schemas.ts'
import { literal, sql } from '#src/kernel/postgres/sql.ts'
import { shown, webhookStage } from './webhooks-capture-project.ts'

const { projectWith } = webhookStage()
const notes = 'create table notes (id int primary key, text text)'
const triggers = `
  select c.relname as "table", t.tgname as name from pg_trigger t join pg_class c on c.oid = t.tgrelid
    join pg_proc f on f.oid = t.tgfoid where f.proname like 'capture%' order by 1, 2`

test('webhook tables: only tables of the project can be attached', async () => {
  const { attach, asSuperuser, list } = await projectWith(
    `
    create view seen as select 1 as one; create materialized view kept as select 1 as one; create sequence numbers;
    create type pair as (a int); create index on auth.users (id) where false`.replace(/;[^;]*$/, ''),
  )
  await asSuperuser('create extension postgres_fdw')
  await asSuperuser('create server elsewhere foreign data wrapper postgres_fdw')
  await asSuperuser('create foreign table public.away (id int) server elsewhere')
  await asSuperuser('create extension hstore schema extensions')
  await asSuperuser('create table public.of_extension (id int)')
  await asSuperuser('alter extension hstore add table public.of_extension')
  for (const name of ['seen', 'kept', 'numbers', 'pair', 'away'])
    assert.deepEqual(await attach(name), {
      problem: 'not_a_table',
      message: `"public.${name}" is not a table`,
    })
  for (const name of ['unknown', 'Seen', '', 'a.b', 'x"; drop table notes; --'])
    assert.deepEqual(await attach(name), {
      problem: 'unknown_table',
      message: `table "public.${name}" does not exist`,
    })
  assert.deepEqual(await attach('of_extension'), {
    problem: 'reserved',
    message: 'table "public.of_extension" belongs to an extension',
  })
  const reserved = [
    ['auth', 'users'],
    ['storage', 'objects'],
    ['realtime', 'messages'],
    ['pgmq', 'meta'],
    ['platform', 'webhook_changes'],
    ['pg_catalog', 'pg_class'],
    ['pg_temp_1', 'any'],
    ...[...platformSchemas].map(schema => [schema, 'any']),
  ]
  for (const [schema, name] of reserved)
    assert.deepEqual(await attach(name!, { schema: schema! }), {
      problem: 'reserved',
      message: `schema "${schema}" belongs to the platform`,
    })
  assert.deepEqual(await list(), [])
})

test('webhook tables: unusual tables and names are captured', async () => {
  const { attach, run, take } = await projectWith(`
    create schema "My ""Schema'";
    create table "My ""Schema'"."Weird ""name'; --" (id int primary key, "col ""umn'" text);
    create table nothing ();
    create table variables (tg_argv int primary key, new int, old int, r int, n int, line int, place int, done int, tg_relid int, found int);
    create type pair as (a int, b text); create domain small as int check (value < 10); create type mood as enum ('good', 'bad');
    create table shapes (id int primary key, p pair, ps pair[], s small, m mood, gone int, double int generated always as (id * 2) stored);
    alter table shapes drop column gone;
    create unlogged table quick (id int primary key);
    create table chained (id int primary key, up int references chained on delete cascade deferrable initially deferred)`)
  const weird = { schema: `My "Schema'` }
  assert.equal(await attach(`Weird "name'; --`, weird), 'attached')
  for (const table of ['nothing', 'variables', 'shapes', 'quick', 'chained'])
    assert.equal(await attach(table), 'attached')
  const taken = async (script: string) => {
    await run(script)
    return (await take()).map(shown)
  }
  assert.deepEqual(await taken(`insert into "My ""Schema'"."Weird ""name'; --" values (1, 'x')`), [
    `INSERT Weird "name'; -- {"id":1,"col \\"umn'":"x"}`,
  ])
  assert.deepEqual(await taken('insert into nothing default values; delete from nothing'), [
    'INSERT nothing {}',
    'DELETE nothing {}',
  ])
  const variables = (first: number) =>
    `{"tg_argv":${first},"new":2,"old":3,"r":4,"n":5,"line":6,"place":7,"done":8,"tg_relid":9,"found":10}`
  assert.deepEqual(
    await taken(`
      insert into variables values (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (2, 2, 3, 4, 5, 6, 7, 8, 9, 10);
      update variables set tg_argv = tg_argv + 2; delete from variables`),
    [
      ...[1, 2].map(each => `INSERT variables ${variables(each)}`),
      ...[1, 2].map(each => `UPDATE variables ${variables(each + 2)} was ${variables(each)}`),
      ...[1, 2].map(each => `DELETE variables ${variables(each + 2)}`),
    ],
  )
  assert.deepEqual(
    await taken(
      `insert into shapes values (1, (1, 'x,"'), array[(1, 'a')::pair], 3, 'good'); delete from shapes`,
    ),
    ['INSERT', 'DELETE'].map(
      event =>
        `${event} shapes {"id":1,"p":{"a":1,"b":"x,\\""},"ps":[{"a":1,"b":"a"}],"s":3,"m":"good","double":2}`,
    ),
  )
  assert.deepEqual(await taken('insert into quick values (1)'), ['INSERT quick {"id":1}'])
  assert.deepEqual(
    await taken('insert into chained values (1, 2), (2, 1); delete from chained where id = 1'),
    [
      'INSERT chained {"id":1,"up":2}',
      'INSERT chained {"id":2,"up":1}',
      'DELETE chained {"id":1,"up":2}',
      'DELETE chained {"id":2,"up":1}',
    ],
  )
})

test('webhook tables: a table with 1,600 columns is captured, and one with a virtual column without it', async () => {
  const columns = Array.from({ length: 1600 }, (_, index) => `c${index} int`)
  const { attach, run, take, asSuperuser } = await projectWith(`
    create table wide (${columns.join(', ')}); create table computed (id int primary key)`)
  await attach('wide')
  await attach('computed')
  await run('insert into wide (c0, c1599) values (1, 2)')
  const row = JSON.parse((await take())[0]!.new!)
  assert.deepEqual([Object.keys(row).length, row.c0, row.c1599], [1600, 1, 2])
  const [server] = await asSuperuser<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  )
  if (server!.version < 180000) return
  await run(`
    alter table computed add column twice int generated always as (id * 2) virtual;
    insert into computed values (1), (2); update computed set id = id + 10; delete from computed where id = 11`)
  assert.deepEqual((await take()).map(shown), [
    'INSERT computed {"id":1}',
    'INSERT computed {"id":2}',
    'UPDATE computed {"id":11} was {"id":1}',
    'UPDATE computed {"id":12} was {"id":2}',
    'DELETE computed {"id":11}',
  ])
})

test('webhook tables: a partitioned table reports all its changes, also those made in partitions', async () => {
  const { attach, run, take, list, asSuperuser } = await projectWith(`
    create table parts (id int, at int, primary key (id, at)) partition by range (at);
    create table parts_a partition of parts for values from (0) to (10) partition by range (at);
    create table parts_a1 partition of parts_a for values from (0) to (5);
    create table parts_b (at int not null, gone int, id int not null, primary key (id, at));
    alter table parts_b drop column gone;
    alter table parts attach partition parts_b for values from (10) to (20)`)
  await attach('parts')
  const taken = async (script: string) => {
    await run(script)
    return (await take()).map(each => `${shown(each)} ${each.webhookIds}`)
  }
  assert.deepEqual(
    await taken('insert into parts values (1, 1), (2, 12); update parts set at = 11 where id = 1'),
    [
      'INSERT parts {"id":1,"at":1} one',
      'INSERT parts {"id":2,"at":12} one',
      'UPDATE parts {"id":1,"at":11} was {"id":1,"at":1} one',
    ],
  )
  assert.deepEqual(
    await taken(`
      insert into parts_a1 values (3, 3); insert into parts_a values (4, 4); update parts_b set id = 5 where id = 2;
      delete from parts_b where id = 5`),
    [
      'INSERT parts {"id":3,"at":3} one',
      'INSERT parts {"id":4,"at":4} one',
      'UPDATE parts {"at":12,"id":5} was {"at":12,"id":2} one',
      'DELETE parts {"at":12,"id":5} one',
    ],
  )
  assert.deepEqual(
    await taken(`create table parts_c partition of parts default; insert into parts_c values (6, 60)`),
    ['INSERT parts {"id":6,"at":60} one'],
  )
  // A partition can be attached itself.
  await attach('parts_c', { webhook: 'two', events: ['INSERT'] })
  assert.deepEqual((await taken('insert into parts_c values (7, 70)')).sort(), [
    'INSERT parts {"id":7,"at":70} one',
    'INSERT parts_c {"id":7,"at":70} two',
  ])
  assert.deepEqual(
    await taken('alter table parts detach partition parts_c; insert into parts_c values (8, 80)'),
    ['INSERT parts_c {"id":8,"at":80} two'],
  )
  await run('drop table parts_b; drop table parts')
  assert.deepEqual(await list('one'), [])
  assert.deepEqual(await asSuperuser(triggers), [{ table: 'parts_c', name: 'plinth_webhook_insert' }])
})

test('webhook tables: a renamed table stays attached under its new name, and a dropped one is detached', async () => {
  const { attach, run, take, list, asSuperuser } = await projectWith(
    `${notes}; create schema app; create table app.things (id int)`,
  )
  await attach('notes')
  await attach('things', { schema: 'app' })
  await run(`
    alter table notes rename to renamed; alter table renamed rename column text to body; alter schema app rename to shop;
    insert into renamed values (1); alter table renamed set schema shop; insert into shop.renamed values (2);
    insert into shop.things values (1)`)
  assert.deepEqual(
    (await take()).map(each => `${each.schema} ${shown(each)}`),
    [
      'public INSERT renamed {"id":1,"body":null}',
      'shop INSERT renamed {"id":2,"body":null}',
      'shop INSERT things {"id":1}',
    ],
  )
  assert.deepEqual(
    (await list()).map(({ schema, table }) => `${schema}.${table}`),
    ['shop.renamed', 'shop.things'],
  )
  await run(
    'drop table shop.renamed; drop schema shop cascade; create table notes (id int); insert into notes values (1)',
  )
  assert.deepEqual([await list(), await take()], [[], []])
  assert.deepEqual(await asSuperuser('select * from platform.webhook_attachments'), [])
})

test('webhook tables: triggers that the owner drops come back, and disabled ones stay disabled', async () => {
  const { attach, run, take } = await projectWith(notes)
  await attach('notes')
  await run(`
    alter table notes disable trigger plinth_webhook_insert; insert into notes values (1); alter table notes add column a int;
    insert into notes values (2); alter table notes enable trigger plinth_webhook_insert; insert into notes values (3);
    drop trigger plinth_webhook_insert on notes; insert into notes values (4);
    alter trigger plinth_webhook_delete on notes rename to other`)
  assert.deepEqual((await take()).map(shown), ['INSERT notes {"id":3,"text":null,"a":null}'])
  await run('alter table notes drop column a; insert into notes values (5); delete from notes where id = 5')
  assert.deepEqual((await take()).map(shown), [
    'INSERT notes {"id":5,"text":null}',
    'DELETE notes {"id":5,"text":null}',
  ])
})

test('webhook tables: dumps do not show the triggers, and a reset detaches', async () => {
  const { attach, project, list, asSuperuser } =
    await projectWith(`${notes}; create table public.parts (id int) partition by range (id);
    create table public.part partition of parts default`)
  const dump = async () => (await project.manage('GET', '/db/schema')).body
  const before = await dump()
  await attach('notes')
  await attach('parts')
  assert.deepEqual(await dump(), before)
  assert.ok(!JSON.stringify(before).includes('plinth_webhook'))
  const { status } = await project.reset({ confirm: project.id })
  assert.equal(status, 200)
  assert.deepEqual([await list(), await asSuperuser(triggers)], [[], []])
})

test('webhook tables: invalid ids of webhooks and events are rejected', async () => {
  const { project, asSuperuser } = await projectWith(notes)
  for (const [webhook, events] of [
    ['a,b', '{INSERT}'],
    ['', '{INSERT}'],
    ['one', '{}'],
    ['one', '{TRUNCATE}'],
  ])
    await assert.rejects(
      asSuperuser(`select platform.attach_webhook('public', 'notes', ${literal(webhook!)}, '${events}')`),
      { code: '23514' },
    )
  assert.deepEqual(await project.look(sql`select * from platform.webhook_attachments`), [])
})
