// Scheduled backups beside verifications, and the quota of backups.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { planTasks } from '#src/services/backups/plan-tasks.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

const makeDue = ({ id }: BackedUpProject) =>
  platform.app.control.run(
    sql`update backup_settings set next_run_at = now() - interval '1 minute' where project_id = ${id}`,
  )
const listed = async ({ id, backups }: BackedUpProject) =>
  (await backups.list({ params: { id }, query: {} })).backups

test('backups: a schedule waits for a verification if none has succeeded within its interval, otherwise not', async () => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  const params = { id: project.id }
  await project.backups.configure({ params, body: { verify_enabled: false } })
  const first = await project.backUp()
  const task = () =>
    control.row<{ kind: string }>(sql`select kind from backup_tasks where project_id = ${project.id}`)
  await project.backups.configure({ params, body: { enabled: true, interval_minutes: 15 } })
  await eventually(
    async () => (await listed(project)).length === 2 && !(await task()),
    'the first of the schedule',
  )
  const verifying = async (work: () => Promise<void>) => {
    // As one that takes long: its node works on it.
    await control.run(sql`
      insert into backup_tasks (id, project_id, kind, backup_id, leased_until, attempts)
      values (gen_random_uuid(), ${project.id}, 'verification', ${first.id}, now() + interval '1 hour', 1)`)
    await work()
    await control.run(
      sql`delete from backup_tasks where project_id = ${project.id} and kind = 'verification'`,
    )
  }
  await verifying(async () => {
    await makeDue(project)
    assert.deepEqual(await planTasks(control, 4), [])
    assert.equal((await task())!.kind, 'verification')
  })
  await eventually(
    async () => (await listed(project)).length === 3 && !(await task()),
    'after the verification',
  )
  await control.run(sql`update backups set verified_at = now() where id = ${first.id}`)
  await verifying(async () => {
    await makeDue(project)
    await project.backups.configure({ params, body: { retain_count: 9 } })
    await eventually(async () => (await listed(project)).length === 4 && !(await task()), 'instead of it')
  })
  assert.deepEqual(
    (await listed(project)).map(({ error }) => error),
    [null, null, null, null],
  )
})

test('backups: the quota of their size refuses further ones, and a schedule says so', async () => {
  const project = await backedUpProject(platform)
  const params = { id: project.id }
  const patch = (quotas: object) =>
    platform.call('PATCH', `/api/v1/projects/${project.id}`, { token: platform.adminToken, body: { quotas } })
  await project.backups.configure({ params, body: { verify_enabled: false } })
  const backup = await project.backUp()
  assert.equal((await patch({ max_backup_size_mb: 0 })).status, 200)
  const path = `/api/v1/projects/${project.id}/backups`
  const refused = await platform.call('POST', path, { token: platform.adminToken })
  assert.deepEqual([refused.status, refused.body.error.code], [413, 'backup_quota_exceeded'])
  assert.match(refused.body.error.message, /take \d+ bytes, and its quota max_backup_size_mb is 0 MB/)

  await project.backups.configure({ params, body: { enabled: true } })
  await eventually(async () => (await listed(project))[0]!.kind === 'scheduled', 'the schedule has its turn')
  const [scheduled] = await listed(project)
  assert.equal(scheduled!.status, 'failed')
  assert.match(scheduled!.error!, /max_backup_size_mb/)
  const { entries } = await platform.admin.listAudit({ query: { action: 'backups.failed' } })
  assert.ok(
    entries.some(({ target, details }) => target === scheduled!.id && /max_backup_size_mb/.test(details!)),
  )

  const restore = await project.restore(backup.id)
  assert.deepEqual([restore.status, restore.error], ['done', null], 'the backup before a restore is made')
  assert.equal((await patch({ max_backup_size_mb: 1000 })).status, 200)
  assert.equal((await project.backUp()).error, null)
})

test('backups: retention keeps those before an upgrade for a week', async () => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  const params = { id: project.id }
  await project.backups.configure({ params, body: { verify_enabled: false } })
  const [recent, old] = [await project.backUp(), await project.backUp()]
  await control.run(sql`update backups set kind = 'upgrade' where id in (${recent.id}, ${old.id})`)
  await control.run(sql`update backups set created_at = now() - interval '8 days' where id = ${old.id}`)
  const last = await project.backUp()
  await project.backups.configure({ params, body: { retain_count: 1 } })
  const node = await startPlatform({ beside: platform })
  try {
    await eventually(async () => (await listed(project)).length === 2, 'the old one is removed')
  } finally {
    await node.stop()
  }
  assert.deepEqual(
    (await listed(project)).map(({ id }) => id),
    [last.id, recent.id],
  )
})
