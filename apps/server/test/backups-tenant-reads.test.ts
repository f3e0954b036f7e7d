// What the platform reads of a project for backups and branches. Postgres runs code of the tenant also for a plain SELECT.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { holdTable } from '#src/archive/database-store.ts'
import type { Sequence } from '#src/archive/manifest.ts'
import { readByNames, readSequences } from '#src/archive/sequences-store.ts'
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type Trapped, trappedProject } from './trapped-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform?.stop())

const version = 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa'
/** No upload has this version, so that the platform also looks for it in the live database. */
const object = `
  insert into storage.buckets (id, name) values ('papers', 'papers');
  insert into storage.objects (bucket_id, name, version) values ('papers', 'a', '${version}')`

/** The schema only, which leaves files out, is always copied object by object. */
async function assertUnread({ project, caught }: Trapped): Promise<void> {
  const backup = await project.backUp()
  assert.deepEqual(await caught(), [], 'during the backup')
  assert.equal(backup.error, null)
  const branches = branchesOf(platform, project.id)
  await branches.create({ name: 'whole' })
  assert.deepEqual(await caught(), [], 'during the branch')
}

test('backups: a column of storage.objects with a type of the tenant is not read as the superuser', async () => {
  const trapped = await trappedProject(platform)
  await trapped.project.sql(`
    create type e as enum ('${version}');
    create function to_text(e) returns text language plpgsql as $$ begin
      perform public.trap('cast');
      return pg_catalog.enum_out($1);
    end $$;
    create cast (e as text) with function to_text(e) as implicit;
    alter table storage.objects alter version type e using version::e;
    ${object}`)
  await assertUnread(trapped)
})

test('backups: a constant in statistics on storage.objects is not computed as the superuser', async () => {
  const trapped = await trappedProject(platform)
  // The planner computes it, whatever the statement reads.
  await trapped.project.sql(`
    ${object};
    create statistics marks on (calm_trap('statistics')), id from storage.objects;
    analyze storage.objects`)
  await assertUnread(trapped)
})

test('backups: a sequence whose name the tenant gives to another relation is read as a sequence', async () => {
  const { project, caught } = await trappedProject(platform)
  await project.sql(`
    create type e as enum ('1');
    create function to_text(e) returns text language plpgsql as $$ begin
      perform public.trap('sequence');
      return pg_catalog.enum_out($1);
    end $$;
    create cast (e as text) with function to_text(e) as implicit;
    create sequence numbers;
    select nextval('numbers'), setval('numbers', 7, false);
    create materialized view trapped as select '1'::e as last_value, true as is_called`)
  const holder = await ownerSession(platform, project.id)
  try {
    await holder.query(
      'begin; alter sequence numbers rename to other; alter materialized view trapped rename to numbers',
    )
    const { id } = await project.backups.create({ params: { id: project.id } })
    const ref = await platform.refOf(project.id)
    const waiting = sql`
      select from pg_stat_activity
       where datname = ${ref} and wait_event_type = 'Lock' and usename = current_user`
    await eventually(() => platform.app.control.row(waiting), 'the sequence is read')
    await holder.query('commit')
    const backup = await project.ended(id)
    assert.deepEqual(await caught(), [])
    assert.equal(backup.error, null)
  } finally {
    await holder.end()
  }
})

test('backups: before Postgres 18, sequences are read by names that cannot change meanwhile', async () => {
  const { project, caught } = await trappedProject(platform)
  await project.sql(`
    create sequence used; select nextval('used');
    create sequence "set; only"; select setval('"set; only"', 7, false);
    create sequence untouched;
    create function calm_value(bigint) returns bigint language sql immutable as $$ select case when public.trap('name') then $1 end $$;
    create view view as select calm_value(1) as last_value, true as is_called;
    create materialized view trapped as select 1::bigint as last_value, true as is_called;
    create index on trapped ((calm_trap('name')))`)
  const ref = await platform.refOf(project.id)
  const inDatabase = <T>(work: (session: CopySession) => Promise<T>) =>
    withCopySession(platform.address, ref, { settings: dumpSettings }, work)
  await inDatabase(async session => {
    const found = await session.rows<{ oid: string; name: string }>(
      "select oid, oid::pg_catalog.regclass::pg_catalog.text as name from pg_catalog.pg_class where relkind = 'S' order by 2",
    )
    const read = (some: typeof found) => readByNames(some, inDatabase)
    const byName = (some: Sequence[]) => some.toSorted((a, b) => (a.name < b.name ? -1 : 1))
    assert.deepEqual(byName(await read(found)), byName(await readSequences(session, inDatabase)))
    const { oid } = found.find(({ name }) => name === 'public.used')!
    for (const name of ['public.trapped', 'public.view', 'public.untouched', 'public.nothing'])
      await assert.rejects(read([{ oid, name }]), /renamed or dropped/)
  })
  assert.deepEqual(await caught(), [])
})

test('backups: a table of an extension is read with its condition only if it is that of the superuser', async () => {
  const { project, caught } = await trappedProject(platform)
  await project.sql(`
    create extension citext;
    create table systems (id int);
    create index on systems ((calm_trap('condition')))`)
  const ref = await platform.refOf(project.id)
  await platform.asSuperuser(ref, session =>
    session.script(`
      create table extensions.systems (id int);
      alter extension citext add table extensions.systems;
      update pg_extension set extconfig = array['extensions.systems'::regclass::oid], extcondition = array['where id >= 1000']
       where extname = 'citext'`),
  )
  await withCopySession(platform.address, ref, { settings: dumpSettings }, async session => {
    await session.run(`begin; ${holdTable('extensions.systems')}; commit`)
    await assert.rejects(session.run(`begin; ${holdTable('public.systems')}`), /renamed or dropped/)
  })
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  assert.deepEqual(await caught(), [])
})
