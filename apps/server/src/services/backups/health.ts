// What the operator must know about backups: warnings and metrics, read from the control database at intervals.
import type { BackupProblem, ServiceHealth } from '@plinth/contract/health.ts'
import type { Labels, Metric } from '#src/kernel/metrics.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { HealthAudience } from '#src/planes/service.ts'
import { type DifferenceCounts, differenceKinds } from './differences.ts'
import { usualSettings } from './service.ts'
import {
  type BackupHealth,
  countDifferences,
  listProblems,
  listUnverified,
  readHealth,
  type Unverified,
} from './upkeep-store.ts'

const healthy: BackupHealth = {
  scheduled: 0,
  oldest_seconds: null,
  verified_seconds: null,
  failed: 0,
  overdue: 0,
}
/** Health is public, so warnings have ids and no names. */
const namedInWarning = 5
/** For operators. Health keeps them in memory, and a text may name long definitions. */
const shownProblems = 20
const maxProblemText = 2000

const sentences: Record<Unverified['kind'], (count: number) => string> = {
  unverifiable: count =>
    `${counted(count, 'backup')} cannot be verified. ${count === 1 ? 'Its verify_error says why; make a new backup' : 'Their verify_error says why; make new backups'} now`,
  interrupted: count =>
    `The verification of ${counted(count, 'backup')} was interrupted. ${count === 1 ? 'Its verify_error says why; it' : 'Their verify_error says why; each'} is tried again every hour`,
  unverified: count =>
    count === 1
      ? '1 backup was not verified within twice its interval'
      : `${count} backups were not verified within twice their interval`,
}

const units: [number, string][] = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
]

export function createBackupHealth(control: Database, isBesideFiles: boolean) {
  let now = healthy
  let unverified: Unverified[] = []
  let problems: BackupProblem[] = []
  let differences: DifferenceCounts = {}
  const countOf = (...kinds: Unverified['kind'][]) =>
    unverified.reduce((sum, { kind, count }) => sum + (kinds.includes(kind) ? count : 0), 0)
  const gauge = (
    name: string,
    help: string,
    read: () => number | undefined,
    labels: Labels = {},
  ): Metric => ({
    name,
    type: 'gauge',
    help,
    labels,
    read,
  })

  function warnings(): string[] {
    const { scheduled, failed, overdue } = now
    return [
      ...unverified.map(
        ({ kind, count, named }) =>
          `${sentences[kind](count)}: ${[...named, ...(count > named.length ? ['…'] : [])].join(', ')}`,
      ),
      ...(failed > 0
        ? [`The newest backup of ${counted(failed, 'project')} has failed. Its error says why.`]
        : []),
      ...(overdue > 0
        ? [
            `${counted(overdue, 'project')} ${overdue === 1 ? 'has no backup within twice its' : 'have no backup within twice their'} interval. The list of backups says why.`,
          ]
        : []),
      ...(scheduled > 0 && isBesideFiles
        ? [
            'Backups are in the data directory, on the same disk as the data. Set PLATFORM_BACKUP_DIR or BACKUP_S3_BUCKET.',
          ]
        : []),
    ]
  }

  /** Of the projects for which it is the longest ago. */
  function state(audience: HealthAudience): ServiceHealth {
    const { scheduled, oldest_seconds: made, verified_seconds: verified, failed, overdue } = now
    const isDegraded = failed + overdue + countOf('unverifiable', 'interrupted', 'unverified') > 0
    const ages = [
      ...(scheduled > 0 ? [] : ['no project has a schedule']),
      made === null ? 'no backups' : `newest backup ${shownAge(made)} ago`,
      ...(verified === null ? [] : [`last verification ${shownAge(verified)} ago`]),
      ...unverified.map(({ kind, count }) => `${count} ${kind}`),
    ]
    return {
      status: isDegraded ? 'degraded' : 'ok',
      detail: ages.join(', '),
      ...(audience === 'operator' && { problems }),
    }
  }

  return {
    everyMs: 30_000,
    async look(): Promise<void> {
      now = (await readHealth(control)) ?? healthy
      const usualMinutes = usualSettings.verify_interval_minutes
      unverified = await listUnverified(control, usualMinutes, namedInWarning)
      problems = await listProblems(control, usualMinutes, shownProblems, maxProblemText)
      differences = await countDifferences(control, usualMinutes)
    },
    warnings,
    state,
    metrics: [
      gauge(
        'plinth_backup_age_seconds',
        'Age of the newest backup, of the project with a schedule for which it is the oldest. Without schedules, of the projects with a backup.',
        () => now.oldest_seconds ?? undefined,
      ),
      gauge(
        'plinth_backup_verified_age_seconds',
        'Time since the last verification, of the project with a schedule for which it is the longest ago. Without schedules, of the projects with a verified backup.',
        () => now.verified_seconds ?? undefined,
      ),
      gauge(
        'plinth_backups_failed',
        'Projects with a schedule whose newest backup has failed.',
        () => now.failed,
      ),
      gauge(
        'plinth_backups_overdue',
        'Projects without a backup within twice their interval.',
        () => now.overdue,
      ),
      gauge('plinth_backups_unverifiable', 'Backups that could not be verified.', () =>
        countOf('unverifiable', 'interrupted'),
      ),
      gauge('plinth_backups_unverified', 'Backups that were not verified within twice their interval.', () =>
        countOf('unverified'),
      ),
      ...differenceKinds.map(kind =>
        gauge(
          'plinth_backup_differences',
          'Differences that the last verifications of backups have found, by kind.',
          () => differences[kind] ?? 0,
          { kind },
        ),
      ),
    ] satisfies Metric[],
  }
}

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

/** In the largest unit of which there are two. */
function shownAge(seconds: number): string {
  const [size, unit] = units.find(([size]) => seconds >= 2 * size) ?? [1, 's']
  return `${Math.floor(seconds / size)} ${unit}`
}
