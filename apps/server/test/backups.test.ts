// Backups of whole projects, and their verification.
import assert from 'node:assert/strict'
import { test } from 'node:test'
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
