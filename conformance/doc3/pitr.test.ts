// 3 §4 "Backups and point-in-time recovery": recovery to a time, where it is off or the database is external.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, someId } from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await freshTarget()
})
after(() => it.stop())

const target_time = '2030-01-31T10:00:00Z'

test('without an archive, restore points say why, and a preview and a restore are refused', async () => {
  const { id } = await createProject(it)
  const points = await it.manage('GET', `/projects/${id}/pitr/restore-points`)
  assert.deepEqual([points.status, points.body.enabled, typeof points.body.reason], [200, false, 'string'])
  const preview = await it.manage('GET', `/projects/${id}/pitr/restore/preview?target_time=${target_time}`)
  assertManagementError(preview, 'pitr_unavailable')
  const restore = await it.manage('POST', `/projects/${id}/pitr/restore`, { target_time })
  assertManagementError(restore, 'pitr_unavailable')
  const { status, body } = await it.manage('GET', `/projects/${id}/pitr/jobs`)
  assert.deepEqual([status, body.jobs, body.total], [200, [], 0])
})

test('without an archive, a missing or invalid time is refused for the same reason, and an unknown project is 404', async () => {
  const { id } = await createProject(it)
  for (const query of ['', '?target_time=yesterday', `?target_time=${'0'.repeat(41)}`])
    assertManagementError(
      await it.manage('GET', `/projects/${id}/pitr/restore/preview${query}`),
      'pitr_unavailable',
    )
  for (const body of [undefined, {}, [], { target_time: 5 }, { target_time, dry_run: true }])
    assertManagementError(await it.manage('POST', `/projects/${id}/pitr/restore`, body), 'pitr_unavailable')
  for (const unknown of [
    await it.manage('GET', `/projects/${someId}/pitr/restore-points`),
    await it.manage('GET', `/projects/${someId}/pitr/restore/preview?target_time=${target_time}`),
    await it.manage('POST', `/projects/${someId}/pitr/restore`, {}),
  ])
    assertManagementError(unknown, 'project_not_found')
})
