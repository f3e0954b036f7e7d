// Unusual projects come back as they were.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  // Values of 200 MB take long on a busy machine.
  platform = await startPlatform({ settings: { PLATFORM_STATEMENT_TIMEOUT_MS: '120000' } })
})
after(() => platform?.stop())

async function restoredFrom(project: BackedUpProject, change: string): Promise<void> {
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  if (change !== '') await project.sql(change)
  const restored = await project.restore(backup.id)
  assert.deepEqual([restored.status, restored.error], ['done', null])
}

test('backups: an empty project is verified and restored', async () => {
  const project = await backedUpProject(platform)
  const backup = await project.backUp()
  assert.equal((await project.verify(backup.id)).verify_error, null)
  await restoredFrom(project, 'create table later (id int)')
  assert.deepEqual(await project.rows(`select to_regclass('public.later') as later`), [{ later: null }])
})

test('backups: sequences go on where they were', async () => {
  const project = await backedUpProject(platform)
  await project.sql(`
    create sequence unused start 7;
    create sequence descending increment -1 start -5; select nextval('descending'), nextval('descending');
    create sequence moved; select setval('moved', 500, false);
    create sequence begun start 3; select nextval('begun');
    create sequence cycling maxvalue 3 cycle; select nextval('cycling'), nextval('cycling'), nextval('cycling');
    create table counted (id serial, other bigint generated always as identity (start 40));
    alter sequence counted_id_seq restart with 100;
    create unlogged sequence quick; select nextval('quick')`)
  const change = `select nextval(s::regclass) from unnest(array['unused', 'moved', 'begun', 'counted_id_seq']) s`
  await restoredFrom(project, change)
  const [next] = await project.rows(`
    select nextval('public.unused')::int as unused, nextval('public.descending')::int as descending,
           nextval('public.moved')::int as moved, nextval('public.begun')::int as begun,
           nextval('public.cycling')::int as cycling, nextval('public.counted_id_seq')::int as counted,
           nextval('public.counted_other_seq')::int as other, nextval('public.quick')::int as quick`)
  assert.deepEqual(next, {
    unused: 7,
    descending: -7,
    moved: 500,
    begun: 4,
    cycling: 1,
    counted: 100,
    other: 40,
    quick: 2,
  })
})

test('backups: tables of every shape keep their rows', async () => {
  const project = await backedUpProject(platform)
  await project.sql(`
    create table no_columns ();
    insert into no_columns select from generate_series(1, 3);
    create table only_generated (one int generated always as (1) stored);
    insert into only_generated select from generate_series(1, 4);
    create unlogged table quick (id int); insert into quick values (1);
    create table parent (id int, text text); create table child (more int) inherits (parent);
    insert into parent values (1, 'p'); insert into child values (2, 'c', 3);
    create table dropped_column (a int, b int, c int); alter table dropped_column drop b; insert into dropped_column values (1, 3);
    create table "Names ""and"" 'quotes'" ("a b" int, "select" text); insert into "Names ""and"" 'quotes'" values (1, E'\\\\N');
    create table texts (text text); insert into texts values (null), (''), (E'\\\\.'), (E'\\t\\n\\r\\b\\f\\v'), (repeat('x', 300000));
    create table virtual_columns (a int, b int generated always as (a * 2) virtual); insert into virtual_columns values (4);
    create extension if not exists pgcrypto with schema extensions; create extension if not exists hstore with schema extensions;
    create table kept (pairs extensions.hstore); insert into kept values ('a=>1');
    select lo_from_bytea(4711, decode(repeat('ab', 10000), 'hex')), lo_create(4712);
    do $$ begin for n in 1..100 loop execute format('create table empty_%s (id int)', n); end loop; end $$`)
  const state = () =>
    project.rows(`
      select (select count(*)::int from public.no_columns) as no_columns, (select count(*)::int from public.only_generated) as generated,
             (select count(*)::int from only public.parent) as parent, (select count(*)::int from public.parent) as all_parents,
             (select count(*)::int from public.quick) as quick, (select count(*)::int from public.kept) as kept,
             (select array_agg(md5(text)) from public.texts) as texts, (select min(b) from public.virtual_columns) as virtual,
             (select row(d.*)::text from public.dropped_column d) as dropped,
             (select row(q.*)::text from public."Names ""and"" 'quotes'" q) as quoted,
             (select count(*)::int from pg_class where relname like 'empty\\_%') as empty,
             md5(lo_get(4711)) as large, length(lo_get(4712)) as empty_large,
             (select array_agg(lomowner::regrole::text) from pg_largeobject_metadata) as large_owners,
             (select relpersistence from pg_class where relname = 'quick') as persistence`)
  const before = await state()
  const backup = await project.backUp()
  assert.equal((await project.verify(backup.id)).verify_error, null)
  await restoredFrom(project, 'delete from texts; drop table no_columns; select lo_unlink(4711)')
  assert.deepEqual(await state(), before)
})

test('backups: rights that a grantee has granted come back', async () => {
  const project = await backedUpProject(platform)
  await project.sql(`
    create table shared (id int, note text);
    create function shared_one() returns int language sql as 'select 1';
    grant select on shared to service_role with grant option;
    grant update (note) on shared to service_role with grant option;
    grant execute on function shared_one() to service_role with grant option;
    create function share() returns void language sql as $$
      grant select on public.shared to anon;
      grant update (note) on public.shared to authenticated;
      grant execute on function public.shared_one() to anon with grant option;
    $$`)
  const shared = await platform.call('POST', `/v1/rest/${project.id}/rpc/share`, {
    token: project.service_role_key,
    body: {},
  })
  assert.ok(shared.status < 300, JSON.stringify(shared.body))
  const rights = () =>
    project.rows<{ grantors: string }>(`
      select string_agg(distinct acl.grantor::regrole || ' ' || acl.privilege_type || ' ' || acl.grantee::regrole, ', ') as grantors
        from (select relacl from pg_class where relname = 'shared'
              union all select attacl from pg_attribute where attrelid = 'public.shared'::regclass
              union all select proacl from pg_proc where proname = 'shared_one') found (rights),
             aclexplode(rights) acl where acl.grantee <> 0`)
  const before = await rights()
  assert.match(before[0]!.grantors, /service_role SELECT anon/)
  const backup = await project.backUp()
  assert.equal((await project.verify(backup.id)).verify_error, null)
  await restoredFrom(project, 'revoke all on shared from service_role cascade')
  assert.deepEqual(await rights(), before)
})

test('backups: a row of 200 MB comes back', async () => {
  const project = await backedUpProject(platform)
  await project.sql(`create table large (id int, text text);
    insert into large values (1, repeat(md5('large'), 200 * 32768))`)
  const state = () => project.rows('select length(text) as length, md5(text) as hash from public.large')
  const before = await state()
  assert.ok(before[0].length > 200_000_000)
  await restoredFrom(project, 'truncate large')
  assert.deepEqual(await state(), before)
})

test('backups: a project with too many columns or large objects is refused with the reason', async () => {
  const project = await backedUpProject(platform)
  await project.sql(`
    do $$ begin
      for i in 1..64 loop
        execute format('create table wide_%s (%s)', i, (select string_agg('c' || n || ' int', ', ') from generate_series(1, 1600) n));
      end loop;
    end $$`)
  assert.match((await project.backUp()).error!, /over 100000 columns/)
  const other = await backedUpProject(platform)
  await other.sql('select lo_create(0) from generate_series(1, 10001)')
  assert.match((await other.backUp()).error!, /over 10000 large objects/)
})

test('backups: a project whose texts are long is refused before they are read', async () => {
  const project = await backedUpProject(platform)
  const tooLong = /over 33554432 bytes in comments, bodies of functions and other texts of its schema/
  await project.sql(`
    do $$ begin
      for n in 1..40 loop
        execute format('create table commented_%s ()', n);
        execute format('comment on table commented_%s is %L', n, repeat('x', 1000000));
      end loop;
    end $$`)
  assert.match((await project.backUp()).error!, tooLong)
  await project.sql(`
    do $$ begin
      for n in 1..40 loop
        execute format('drop table commented_%s', n);
        execute format('create function long_%s() returns text language sql as %L', n, format('select %L', repeat('x', 1000000)));
      end loop;
    end $$`)
  assert.match((await project.backUp()).error!, tooLong)
})
