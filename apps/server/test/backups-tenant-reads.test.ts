// What the platform reads of a project for backups and branches. Postgres runs code of the tenant also for a plain SELECT.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { anyHoldMs, branchesOf } from './branch-project.ts'
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
