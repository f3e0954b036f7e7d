// For how long a restore can be undone, and what is left of the state before it afterwards.
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import type { Restore } from '@plinth/contract/backups.ts'
import { CrashProject, stageOf } from './crash-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

const dayMs = 24 * 3_600_000

/** A project whose backup was restored. The state before had one more row. */
async function restoredProject(t: TestContext): Promise<{ project: CrashProject; restore: Restore }> {
  const project = new CrashProject(stageOf(platform))
  t.after(() => project.close())
  await project.create()
  await project.sql(`insert into things values (2000, 'later')`)
  const path = `/projects/${project.id}/backups/${project.backupId}/restore`
  const begun = await project.stage.manage('POST', path)
  assert.deepEqual([begun.status, begun.body.restore.status], [202, 'running'])
  await project.untilIdle()
  const restore = await project.lastRestore()
  assert.deepEqual([restore.id, restore.status, restore.error], [begun.body.restore.id, 'done', null])
  assert.equal(await project.laterRows(), 0)
  return { project, restore }
}

const undo = (project: CrashProject, { id }: Restore) =>
  project.stage.manage('POST', `/projects/${project.id}/restores/${id}/undo`)

const databasesOf = async (project: CrashProject) =>
  (
    await project.look<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1) order by 1',
      [project.ref],
    )
  ).map(({ datname }) => datname.slice(project.ref.length))

test('restore: it answers 202, can be undone for 24 hours from the exchange on, and not afterwards', async t => {
  const recent = await restoredProject(t)
  const over = await restoredProject(t)
  for (const { restore } of [recent, over]) {
    const [created, finished, until] = [restore.created_at, restore.finished_at, restore.undo_until].map(
      time => Date.parse(time!),
    ) as [number, number, number]
    // The exchange was between both times.
    assert.ok(until >= created + dayMs && until <= finished + dayMs, JSON.stringify(restore))
  }

  const { project } = over
  await project.look(`update restores set undo_until = now() - interval '1 second' where id = $1`, [
    over.restore.id,
  ])
  const refused = async () => {
    const { status, body } = await undo(project, over.restore)
    assert.deepEqual([status, body.error?.code], [409, 'restore_not_undoable'])
  }
  await refused()
  assert.deepEqual(await databasesOf(project), ['', '_before'], 'it is dropped by a chore')
  const node = await startPlatform({ beside: platform })
  try {
    await eventually(async () => (await project.lastRestore()).undo_until === null, 'the chore forgets it')
  } finally {
    // Waits for the chore.
    await node.stop()
  }
  assert.deepEqual(await databasesOf(project), [''])
  await refused()
  await project.untilIdle()
  const { status, error } = await project.lastRestore()
  assert.deepEqual([status, error, await project.laterRows()], ['done', null, 0])
  await project.assertClean()

  assert.equal((await recent.project.lastRestore()).undo_until, recent.restore.undo_until)
  assert.deepEqual(await databasesOf(recent.project), ['', '_before'])
  assert.equal((await undo(recent.project, recent.restore)).status, 202)
  await recent.project.untilIdle()
  const undone = await recent.project.lastRestore()
  assert.deepEqual([undone.status, undone.undo_until, await recent.project.laterRows()], ['undone', null, 1])
  await recent.project.assertClean()
})
