// Files that are uploaded or deleted while a backup is restored, or while a restore is undone.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { holdAt } from './backup-crash-steps.ts'
import { CrashProject, stageOf } from './crash-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { mebibyte } from './tus-files.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

async function newProject(t: TestContext): Promise<CrashProject> {
  const project = new CrashProject(stageOf(platform))
  t.after(() => project.close())
  await project.create()
  return project
}

const piecesIn = (folder: string) =>
  fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name))
const piecesOf = ({ id }: CrashProject) => piecesIn(join(platform.config.dataDir, 'objects', id))
const statusOf = async (project: CrashProject, name: string) =>
  (await project.data('GET', `storage/*/object/papers/${name}`)).status

/** Deletes the only file and waits until its bytes are removed. */
async function deleteFile(project: CrashProject): Promise<void> {
  const { status, body } = await project.data('DELETE', 'storage/*/object/papers/one.txt')
  assert.equal(status, 200, JSON.stringify(body))
  await eventually(() => piecesOf(project).length === 0, 'the bytes are removed')
}

/** All files are due, as on the next day. A new node begins with the areas that are due. */
async function swept(project: CrashProject): Promise<void> {
  await project.look('update stored_files set until = now() where project_id = $1 and until is not null', [
    project.id,
  ])
  await project.look(
    `update storage_areas set sweep_at = now(), compared_at = '-infinity' where project_id = $1`,
    [project.id],
  )
  const node = await startPlatform({ beside: platform })
  try {
    const areas = `select from storage_areas where project_id = $1 and compared_at > '-infinity'`
    await eventually(async () => (await project.look(areas, [project.id])).length === 1, 'it was swept')
  } finally {
    await node.stop()
  }
}

test('restore: an undo brings back files that were uploaded after the backup before it', async t => {
  const project = await newProject(t)
  const lock = await holdAt(project, 'restore: rows come in')
  await project.upload('two.txt')
  await lock.release()
  await project.untilIdle()
  const { id, status } = await project.lastRestore()
  assert.equal(status, 'done')
  assert.notEqual(await statusOf(project, 'two.txt'), 200)
  await project.upload('three.txt')
  await project.sql(`delete from storage.objects where name = 'three.txt'`)
  await swept(project)
  await project.begin('undo', id)
  await project.untilIdle()
  assert.equal((await project.lastRestore()).status, 'undone')
  assert.equal(await statusOf(project, 'two.txt'), 200)
  await project.assertClean()
  // From now on nothing needs the file that was deleted.
  await swept(project)
  assert.equal(piecesOf(project).length, 2)
  assert.equal(await statusOf(project, 'two.txt'), 200)
})

test('restore: a file that is deleted shortly before the exchange is there afterwards, as after an undo', async t => {
  const project = await newProject(t)
  const restoring = await holdAt(project, 'restore: the copy is migrated')
  await deleteFile(project)
  await restoring.release()
  await project.untilIdle()
  const restored = await project.lastRestore()
  assert.deepEqual([restored.status, restored.error], ['done', null])
  await project.assertClean()

  await project.begin('restore')
  await project.untilIdle()
  const { id } = await project.lastRestore()
  const undoing = await holdAt(project, 'undo: the kept state is migrated', id)
  await deleteFile(project)
  await undoing.release()
  await project.untilIdle()
  const undone = await project.lastRestore()
  assert.deepEqual([undone.id, undone.status, undone.error], [id, 'undone', null])
  await project.assertClean()
})

test('restore: a download that is open across a deletion and a restore does not remove the bytes afterwards', async t => {
  const project = await newProject(t)
  const bytes = 24 * mebibyte
  /** Its end is not read, so the file stays open. */
  const download = async (name: string) => {
    const reader = (await project.fetch(`storage/*/object/papers/${name}`)).body!.getReader()
    assert.equal((await reader.read()).done, false)
    return reader
  }
  await project.upload('early', Buffer.alloc(bytes, 'a'))
  project.backupId = (await project.ask('POST', '/backups')).id
  await project.untilIdle()
  await project.upload('late', Buffer.alloc(bytes, 'b'))
  // Both are in the backup before the restore, so its undo would copy them back.
  const lock = await holdAt(project, 'restore: rows come in')
  const open = [await download('early'), await download('late')]
  // The platform disconnects a client that reads nothing for long.
  const reading = setInterval(() => {
    for (const each of open) void each.read().catch(() => {})
  }, 5000)
  t.after(() => clearInterval(reading))
  for (const name of ['early', 'late'])
    assert.equal((await project.data('DELETE', `storage/*/object/papers/${name}`)).status, 200)
  await lock.release()
  await project.untilIdle()
  assert.deepEqual([(await project.lastRestore()).status, piecesOf(project).length], ['done', 7])
  clearInterval(reading)
  for (const each of open) await each.cancel()
  await eventually(() => piecesOf(project).length < 7, 'the bytes of the later file are removed')
  const { status, body } = await project.data('GET', 'storage/*/object/papers/early')
  assert.deepEqual([status, body.length], [200, bytes])
})

test('restore: it says so if files cannot be copied back after the exchange', async t => {
  const project = await newProject(t)
  const lock = await holdAt(project, 'restore: the copy is migrated')
  await deleteFile(project)
  const stored = piecesIn(join(platform.config.dataDir, 'backups', project.id))
  for (const piece of stored.filter(path => /\/[0-9a-f-]{36}\.0$/.test(path))) fs.rmSync(piece)
  await lock.release()
  await project.untilIdle()
  const { status, error, undo_until: until } = await project.lastRestore()
  assert.deepEqual([status, until !== null], ['done', true])
  assert.match(
    error!,
    /^The databases are exchanged, but the rest has failed: A file of the backup is missing/,
  )
})
