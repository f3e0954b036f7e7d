// Verifications that the platform begins by itself.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

test('backups: every backup is verified, and again after the interval', async () => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  const params = { id: project.id }
  const listed = async () => (await project.backups.list({ params, query: {} })).backups
  await project.backups.configure({ params, body: { verify_enabled: false } })
  for (let count = 0; count < 3; count++) await project.backUp()
  const [damaged] = await listed()
  await control.run(sql`update backups set verify_error = 'it differs' where id = ${damaged!.id}`)
  await project.backups.configure({ params, body: { verify_enabled: true } })
  await eventually(
    async () => (await listed()).filter(({ verified_at: at }) => at !== null).length === 2,
    'both others are verified',
  )
  const [, , oldest] = await listed()
  await control.run(
    sql`update backups set verified_at = verified_at - interval '8 days' where id = ${oldest!.id}`,
  )
  await project.backups.configure({ params, body: { verify_enabled: true } })
  const verifiedAt = async () => Date.parse((await listed())[2]!.verified_at!)
  await eventually(
    async () => (await verifiedAt()) > Date.parse(oldest!.verified_at!),
    'it is verified again',
  )
  assert.deepEqual(
    (await listed()).map(({ verify_error: error }) => error),
    ['it differs', null, null],
  )
})

test('backups: a verification that is overdue is in health and in metrics', async () => {
  const project = await backedUpProject(platform)
  const { control } = platform.app
  const params = { id: project.id }
  await project.backups.configure({ params, body: { verify_enabled: false } })
  const { id } = await project.backUp()
  // Another node works on a task that does not end.
  await control.run(sql`
    insert into backup_tasks (id, project_id, kind, backup_id, attempts, leased_until)
    values (${orderedUuid()}, ${project.id}, 'backup', ${id}, 1, now() + interval '1 hour')`)
  await control.run(sql`
    update backups set verified_at = now() - interval '15 days', finished_at = now() - interval '20 days' where id = ${id}`)
  await project.backups.configure({ params, body: { verify_enabled: true } })
  const looking = await startPlatform({ beside: platform })
  const warning = `1 backup was not verified within twice its interval: ${id} of project ${project.id}`
  try {
    await eventually(async () => {
      const { body } = await looking.call('GET', '/health/services')
      return body.warnings.includes(warning)
    }, 'the warning in health')
    const metrics = await looking.call('GET', '/metrics', { token: platform.adminToken })
    assert.match(metrics.body, /^plinth_backups_unverified 1$/m)
  } finally {
    await looking.stop()
  }
})
