// Schedules whose backups fail or are late, in health and in metrics.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { parseExposition } from './exposition.ts'
import { startPlatform } from './harness.ts'

const daySeconds = 86_400

test('backups: a schedule whose newest backup has failed, and is late, is in health and in metrics', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const { control } = platform.app

  /** Without settings the tests store backups beside the data, which is said of every schedule. */
  const hasLooked = (warnings: readonly string[]) =>
    warnings.some(warning => warning.startsWith('Backups are in the data directory'))
  /** What a new node says after its first look. */
  async function shown() {
    const looking = await startPlatform({ beside: platform })
    try {
      const warnings = await eventually(async () => {
        const { body } = await looking.call('GET', '/health/services')
        return hasLooked(body.warnings) ? (body.warnings as string[]) : undefined
      }, 'the warnings in health')
      const metrics = await looking.call('GET', '/metrics', { token: platform.adminToken })
      const families = parseExposition(metrics.body)
      const gauge = (name: string) => families.get(name)?.samples[0]?.value
      return {
        warnings,
        age: gauge('plinth_backup_age_seconds')!,
        failed: gauge('plinth_backups_failed'),
        overdue: gauge('plinth_backups_overdue'),
      }
    } finally {
      await looking.stop()
    }
  }
  /** A project with a backup of this age and a later one that has failed. */
  async function projectWith(ageDays: number, enabled: boolean) {
    const project = await backedUpProject(platform)
    const params = { id: project.id }
    await project.backups.configure({ params, body: { verify_enabled: false } })
    const done = await project.backUp()
    const failed = await project.backUp()
    await control.run(sql`
      update backups set finished_at = now() - make_interval(days => ${ageDays}) where id = ${done.id}`)
    await control.run(sql`update backups set status = 'failed', error = 'it failed' where id = ${failed.id}`)
    // The next one is not due.
    await control.run(sql`
      update backup_settings set enabled = ${enabled}, next_run_at = now() + interval '1 day' where project_id = ${project.id}`)
    return project
  }
  const failedWarning = 'The newest backup of 1 projects has failed. Its error says why.'
  const overdueWarning =
    '1 projects have no backup within twice their interval. The list of backups says why.'

  // Without a schedule nobody expects backups.
  await projectWith(30, false)
  const good = await backedUpProject(platform)
  await good.backups.configure({ params: { id: good.id }, body: { enabled: true, verify_enabled: false } })
  await eventually(async () => {
    const { backups } = await good.backups.list({ params: { id: good.id }, query: {} })
    return backups.some(({ status }) => status === 'done')
  }, 'the first backup of the schedule')
  const healthy = await shown()
  assert.ok(!healthy.warnings.includes(failedWarning) && !healthy.warnings.includes(overdueWarning))
  assert.deepEqual([healthy.failed, healthy.overdue], [0, 0])
  assert.ok(healthy.age > 0 && healthy.age < daySeconds, String(healthy.age))

  const late = await projectWith(3, true)
  const { warnings, age, failed, overdue } = await shown()
  assert.ok(warnings.includes(failedWarning) && warnings.includes(overdueWarning), JSON.stringify(warnings))
  assert.deepEqual([failed, overdue], [1, 1])
  assert.ok(age >= 3 * daySeconds && age < 4 * daySeconds, String(age))

  const made = await late.backUp()
  assert.equal(made.error, null)
  const again = await shown()
  assert.deepEqual([again.failed, again.overdue], [0, 0])
  assert.ok(!again.warnings.includes(failedWarning) && !again.warnings.includes(overdueWarning))
})
