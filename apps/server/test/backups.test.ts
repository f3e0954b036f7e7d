// Backups of whole projects, and their verification.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject, richRows, richSchema } from './backup-project.ts'
import { startPlatform } from './harness.ts'

test('backups: a project with objects of every kind is backed up, and its restored copy is the same', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  await project.sql(richSchema)
  await project.sql(richRows)
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  assert.equal(backup.status, 'done')
  assert.ok(backup.bytes > 100_000)
  assert.ok(backup.stored_bytes > 0 && backup.stored_bytes < backup.bytes)
  const verified = await project.verify(backup.id)
  assert.equal(verified.verify_error, null)
  assert.ok(verified.verified_at)
})

test('backups: rights on large objects and comments on them are restored', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const project = await backedUpProject(platform)
  await project.sql(`
    select lo_from_bytea(70001, 'shared'), lo_from_bytea(70002, 'closed'), lo_from_bytea(70003, 'usual');
    grant select on large object 70001 to anon, public;
    grant select, update on large object 70001 to authenticated with grant option;
    comment on large object 70001 is 'Shared; with a '' quote';
    do $$ begin execute format('revoke all on large object 70002 from %I', current_user); end $$`)
  const ref = await platform.refOf(project.id)
  // A role that may pass on its rights does so.
  await platform.asSuperuser(ref, session =>
    session.script('set role authenticated; grant select on large object 70001 to service_role; reset role'),
  )
  const found = () =>
    platform.asSuperuser(ref, session =>
      session.rows(sql`
        select oid, lomowner, (select array_agg(each::text order by each::text) from unnest(lomacl) each) as rights,
               obj_description(oid, 'pg_largeobject') as comment
          from pg_largeobject_metadata order by oid`),
    )
  const before = await found()
  assert.equal(before.length, 3)
  const backup = await project.backUp()
  await project.sql(`
    revoke all on large object 70001 from anon, public, authenticated cascade;
    comment on large object 70001 is null;
    select lo_unlink(70003)`)
  assert.notDeepEqual(await found(), before)
  assert.equal((await project.restore(backup.id)).error, null)
  assert.deepEqual(await found(), before)
})
