// What people see of tasks of backups while these run.
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import type { Backup } from '@plinth/contract/backups.ts'
import { holdAt, type StepName } from './backup-crash-steps.ts'
import { CrashProject, stageOf } from './crash-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

type Progress = Backup['progress']

/** The largest table of the project has 1000 rows, each with 32 characters and a number. */
const bytesOfRows = 1000 * 33

/** The task is held where it has read or written all other rows, so the list shows them at last. */
async function showsProgress(
  t: TestContext,
  step: StepName,
  listed: (project: CrashProject) => Promise<{ progress: Progress; status: string }>,
): Promise<void> {
  const project = new CrashProject(stageOf(platform))
  t.after(() => project.close())
  await project.create()
  const lock = await holdAt(project, step)
  await eventually(async () => {
    const { progress } = await listed(project)
    return progress?.step === 'rows' && progress.bytes > bytesOfRows
  }, 'the step and its bytes are in the list')
  await lock.release()
  await project.untilIdle()
  const { progress, status } = await listed(project)
  assert.deepEqual([progress, status], [null, 'done'])
}

const newestBackup = async (project: CrashProject): Promise<Backup> =>
  (await project.ask('GET', '/backups?limit=1')).backups[0]

test('backups: the list shows the step and the bytes of a backup while it is made', t =>
  showsProgress(t, 'backup: rows are read', newestBackup))

test('backups: the list shows the step and the bytes of a verification while it runs', t =>
  showsProgress(t, 'verification: the copy is analysed', newestBackup))

test('restore: the list shows the step and the bytes of a restore while it runs', t =>
  showsProgress(t, 'restore: the copy is analysed', project => project.lastRestore()))
