// A restored copy that differs from its backup: a verification names what differs, and a restore fails.
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import { analyze } from '#src/archive/database-store.ts'
import { createBackupHealth } from '#src/services/backups/health.ts'
import { restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import { holdAt } from './backup-crash-steps.ts'
import { CrashProject, stageOf } from './crash-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

/** A project with a backup. What differs later is of another kind in each statement. */
async function newProject(t: TestContext): Promise<CrashProject> {
  const project = new CrashProject(stageOf(platform))
  t.after(() => project.close())
  await project.create()
  await project.sql(`
    create sequence numbers start 5;
    select nextval('numbers');
    create table notes (id int primary key, note text);
    insert into notes values (1, 'in the backup'), (2, 'in the backup');
    create table same (id int primary key);
    insert into same values (1);
    create index notes_note on notes (note);
    create view shown_notes as select id from notes;
    create policy own_files on storage.objects for select to anon using (bucket_id = 'papers');
    select lo_from_bytea(70001, 'a large object'), lo_from_bytea(70002, 'another one')`)
  project.backupId = (await project.ask('POST', '/backups')).id
  await project.untilIdle()
  return project
}

const contentChanges = `
  update public.notes set note = 'changed' where id = 2;
  select setval('public.numbers', 50);
  select lo_put(70001, 0, 'A');
  comment on large object 70002 is 'changed';`
const schemaChanges = `
  create table public.extra (id int);
  drop index public.notes_note;
  create or replace view public.shown_notes as select id + 0 as id from public.notes;
  alter policy own_files on storage.objects using (true);`

const expected = [
  'INDEX public.notes_note is missing',
  'POLICY storage.objects own_files differs',
  'TABLE public.extra was not in the backup',
  'VIEW public.shown_notes differs',
  'owner, rights or comment of the large object 70002 differ',
  'the large objects differ',
  'the rows of public.notes differ',
  'the sequence public.numbers differs',
]

/** The differences, which are a part of a sentence each. */
const named = (text: string | null | undefined) => text?.split('; ').sort()

/** Without the triggers that the platform adds to new tables. */
async function change(project: CrashProject, copy: string, statements = contentChanges + schemaChanges) {
  // Autovacuum waits for the same lock, even before the copy is complete.
  const analysing = `select from pg_stat_activity where datname = $1 and query = $2 and wait_event_type = 'Lock'`
  await eventually(async () => (await project.look(analysing, [copy, analyze])).length > 0, 'the last step')
  await platform.asSuperuser(copy, session => session.script(`set event_triggers = off; ${statements}`))
}

/** The only entry with this action. */
async function auditedDetails(project: CrashProject, action: string): Promise<string> {
  const entries = await project.look<{ target: string; details: string }>(
    'select target, details from audit where project_id = $1 and action = $2',
    [project.id, action],
  )
  assert.deepEqual(
    entries.map(({ target }) => target),
    [project.backupId],
  )
  return entries[0]!.details
}

/** What a node says of the backup in health, and the gauges above 0 by kind. */
async function alarm(project: CrashProject) {
  const health = createBackupHealth(platform.app.control, false)
  await health.look()
  const gauges = health.metrics
    .filter(({ name }) => name === 'plinth_backup_differences')
    .map(({ labels, read }) => [labels?.['kind'], read?.() ?? 0] as const)
  return {
    problem: health.state('operator').problems!.find(({ backup_id: id }) => id === project.backupId),
    gauges: Object.fromEntries(gauges.filter(([, value]) => value > 0)),
  }
}

test('backups: a verification names everything that differs, in the list, in health, in metrics and in the audit log', async t => {
  const project = await newProject(t)
  const lock = await holdAt(project, 'verification: the copy is analysed')
  await change(project, verifyOf(project.ref))
  await lock.release()
  await project.untilIdle()
  const { verify_error: error, verified_at: at } = await project.backup(project.backupId)
  assert.deepEqual(named(error), expected)
  assert.equal(at, null)
  assert.equal(await auditedDetails(project, 'backups.not_verified'), error)
  const counted = { schema: 4, large_objects: 2, rows: 1, sequences: 1 }
  const { problem, gauges } = await alarm(project)
  assert.deepEqual([problem?.verify_error, problem?.differences], [error, counted])
  assert.deepEqual(gauges, counted)
  await project.assertClean()

  // The backup itself is complete.
  await project.begin('verification')
  await project.untilIdle()
  const verified = await project.backup(project.backupId)
  assert.equal(verified.verify_error, null)
  assert.ok(verified.verified_at)
  assert.deepEqual(await alarm(project), { problem: undefined, gauges: {} })
})

test('backups: a verification names ten differences and counts the others', async t => {
  const project = await newProject(t)
  const lock = await holdAt(project, 'verification: the copy is analysed')
  const tables = Array.from({ length: 12 }, (_, index) => `create table public.extra_${index} (id int)`)
  await change(project, verifyOf(project.ref), tables.join(';'))
  await lock.release()
  await project.untilIdle()
  const { verify_error: error } = await project.backup(project.backupId)
  const parts = error!.split('; ')
  assert.equal(parts.length, 11)
  assert.ok(
    parts.slice(0, 10).every(part => /^TABLE public\.extra_\d+ was not in the backup$/.test(part)),
    error!,
  )
  assert.equal(parts[10], 'and 2 more differences')
  // Metrics count those without a name, too, and what earlier releases have not counted.
  assert.deepEqual((await alarm(project)).gauges, { schema: 12 })
  await project.look('update backups set verify_differences = null where id = $1', [project.backupId])
  assert.deepEqual((await alarm(project)).gauges, { unknown: 1 })
})

test('restore: it fails if the copy differs, names everything that does, and leaves the project unchanged', async t => {
  const project = await newProject(t)
  await project.sql(`
    insert into things values (2000, 'later');
    update notes set note = 'live';
    select setval('numbers', 700)`)
  const lock = await holdAt(project, 'restore: the copy is analysed')
  await change(project, restoredOf(project.ref))
  await lock.release()
  await project.untilIdle()
  const restore = await project.lastRestore()
  assert.deepEqual([restore.status, restore.undo_until], ['failed', null])
  const [, differences] = /^the backup cannot be restored: (.*)$/s.exec(restore.error!) ?? []
  assert.deepEqual(named(differences), expected, restore.error!)
  assert.equal(await auditedDetails(project, 'backups.not_restored'), restore.error)
  assert.equal(await project.laterRows(), 1)
  const live = await project.data('GET', 'rest/*/notes?select=id,note&order=id')
  assert.deepEqual(live.body, [
    { id: 1, note: 'live' },
    { id: 2, note: 'live' },
  ])
  const { rows } = await (await project.connect(project.ref)).query(`
    select nextval('public.numbers')::int as next, to_regclass('public.extra') as extra,
           convert_from(lo_get(70001), 'utf8') as object,
           (select count(*)::int from pg_policies where policyname = 'own_files' and qual <> 'true') as policies`)
  assert.deepEqual(rows, [{ next: 701, extra: null, object: 'a large object', policies: 1 }])
  await project.assertClean()
})
