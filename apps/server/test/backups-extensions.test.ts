// Tables of extensions, of which a backup has only the rows that the extension does not create itself.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareDatabase } from '#src/archive/compare-database.ts'
import { archiveOf } from './archive-of.ts'
import { backedUpProject } from './backup-project.ts'
import { startPlatform } from './harness.ts'

test('backups: rows that an extension creates itself are not compared', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const { dataDir } = platform.config
  const project = await backedUpProject(platform)
  const { id } = project
  await project.backups.configure({ params: { id }, body: { verify_enabled: false } })
  await project.sql('create extension citext')
  const ref = await platform.refOf(id)
  // Like spatial_ref_sys of PostGIS, which a superuser must install.
  await platform.asSuperuser(ref, session =>
    session.script(`
      create table public.systems (id int, note text);
      insert into public.systems values (1, 'of the extension'), (1000, 'of a user');
      alter extension citext add table public.systems;
      update pg_extension set extconfig = array['public.systems'::regclass::oid], extcondition = array['where id >= 1000']
       where extname = 'citext'`),
  )
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  const { archive } = await archiveOf(platform, id, backup.id)
  const watching = { signal: t.signal, progress() {} }
  const compare = () =>
    compareDatabase(
      archive,
      { address: platform.address, database: ref, dataDir },
      { from: ref, to: ref },
      watching,
    )
  assert.deepEqual(await compare(), [])
  await platform.asSuperuser(ref, session =>
    session.script(`insert into public.systems values (2, 'of a later version')`),
  )
  assert.deepEqual(await compare(), [])
  await platform.asSuperuser(ref, session =>
    session.script(`insert into public.systems values (1001, 'of a user')`),
  )
  assert.deepEqual(await compare(), [{ kind: 'rows', text: 'the rows of public.systems differ' }])
})
