// The age of backups, and schedules whose backups fail or are late, in health and in metrics.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServicesHealth } from '@plinth/contract/health.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { createBackupHealth } from '#src/services/backups/health.ts'
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
      const { warnings, services } = await eventually(async () => {
        const { body } = await looking.call('GET', '/health/services')
        return hasLooked(body.warnings) ? (body as ServicesHealth) : undefined
      }, 'the warnings in health')
      const metrics = await looking.call('GET', '/metrics', { token: platform.adminToken })
      const families = parseExposition(metrics.body)
      const gauge = (name: string) => families.get(name)?.samples[0]?.value
      return {
        warnings,
        state: services['backups']!,
        age: gauge('plinth_backup_age_seconds')!,
        verified: gauge('plinth_backup_verified_age_seconds')!,
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
  const failedWarning = 'The newest backup of 1 project has failed. Its error says why.'
  const overdueWarning = '1 project has no backup within twice its interval. The list of backups says why.'

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
  assert.equal(healthy.state.status, 'ok')
  assert.match(healthy.state.detail!, /^newest backup \d+ (s|min|h) ago$/)

  const late = await projectWith(3, true)
  const { warnings, state, age, failed, overdue } = await shown()
  assert.ok(warnings.includes(failedWarning) && warnings.includes(overdueWarning), JSON.stringify(warnings))
  assert.deepEqual([failed, overdue], [1, 1])
  assert.ok(age >= 3 * daySeconds && age < 4 * daySeconds, String(age))
  assert.deepEqual([state.status, state.detail], ['degraded', 'newest backup 3 d ago'])

  const made = await late.backUp()
  assert.equal(made.error, null)
  await late.backups.configure({ params: { id: late.id }, body: { verify_enabled: true } })
  assert.equal((await late.verify(made.id)).verify_error, null)
  await control.run(sql`update backups set verified_at = now() - interval '50 hours' where id = ${made.id}`)
  const again = await shown()
  assert.deepEqual([again.failed, again.overdue], [0, 0])
  assert.match(again.state.detail!, /, last verification 2 d ago$/)
  assert.ok(again.verified >= 2 * daySeconds && again.verified < 3 * daySeconds, String(again.verified))
  assert.ok(!again.warnings.includes(failedWarning) && !again.warnings.includes(overdueWarning))
})

test('backups: without a schedule, health and metrics have the age of the backups on demand', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const { control } = platform.app
  /** What a node says after its first look. */
  async function shown() {
    const health = createBackupHealth(control, true)
    await health.look()
    const gauge = (name: string) => health.metrics.find(metric => metric.name === name)!.read?.()
    return {
      state: health.state('anyone'),
      warnings: health.warnings(),
      age: gauge('plinth_backup_age_seconds'),
      verified: gauge('plinth_backup_verified_age_seconds'),
      failed: gauge('plinth_backups_failed'),
      overdue: gauge('plinth_backups_overdue'),
    }
  }
  const fine = { warnings: [], failed: 0, overdue: 0 }
  const none = { age: undefined, verified: undefined }

  const older = await backedUpProject(platform)
  assert.deepEqual(await shown(), {
    ...fine,
    ...none,
    state: { status: 'ok', detail: 'no project has a schedule, no backups' },
  })
  const metrics = await platform.call('GET', '/metrics', { token: platform.adminToken })
  const families = parseExposition(metrics.body)
  assert.ok(families.has('plinth_backups_overdue'))
  assert.ok(!families.has('plinth_backup_age_seconds') && !families.has('plinth_backup_verified_age_seconds'))

  for (const [project, ageDays] of [
    [older, 6],
    [await backedUpProject(platform), 2],
  ] as const) {
    await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
    for (const days of [ageDays + 3, ageDays]) {
      const { id } = await project.backUp()
      await control.run(
        sql`update backups set finished_at = now() - make_interval(days => ${days}) where id = ${id}`,
      )
    }
    // Nobody waits for the next one.
    const { id } = await project.backUp()
    await control.run(sql`update backups set status = 'failed', error = 'it failed' where id = ${id}`)
  }
  const made = await shown()
  assert.ok(made.age! >= 6 * daySeconds && made.age! < 7 * daySeconds, String(made.age))
  assert.deepEqual(made, {
    ...fine,
    ...none,
    age: made.age,
    state: { status: 'ok', detail: 'no project has a schedule, newest backup 6 d ago' },
  })

  await older.backups.configure({ params: { id: older.id }, body: { verify_enabled: true } })
  await control.run(sql`
    update backups set verified_at = now() - interval '50 hours' where project_id = ${older.id} and status = 'done'`)
  const checked = await shown()
  assert.equal(
    checked.state.detail,
    'no project has a schedule, newest backup 6 d ago, last verification 2 d ago',
  )
  assert.ok(
    checked.verified! >= 2 * daySeconds && checked.verified! < 3 * daySeconds,
    String(checked.verified),
  )
})
