// Recovery of projects to a time: which times can be recovered, what it takes, and the jobs.
import type { PitrBaseBackup, PitrPreview, PitrWindow, RestorePoints } from '@plinth/contract/pitr.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { formatTime, parseTime } from '#src/kernel/postgres/recovery/archive-time.ts'
import type { BaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import {
  type Catalogue,
  planRecovery,
  type RecoveryGap,
  type RecoveryPlan,
  recoveryGaps,
  recoveryWindows,
  UnreachableTarget,
} from '#src/kernel/postgres/recovery/catalogue.ts'
import { databaseBytes, neededBytes } from '#src/kernel/postgres/recovery/recovery.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { RecoveryArchive } from './archive.ts'
import { recoveredDatabases } from './prepare.ts'
import { walAfter } from './preview.ts'
import { archiveReason } from './reason.ts'
import * as store from './store.ts'

interface ProjectDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
}

interface PitrDeps extends ProjectDeps {
  controlName: string
  archive: RecoveryArchive
  wake(): void
}

export type PitrService = ReturnType<typeof pitrService>
export type UnavailablePitr = ReturnType<typeof unavailablePitr>

/** Then the answer is 503. */
const patience = () => AbortSignal.timeout(10_000)
/** Of the second server, and bytes that are unpacked and restored in a second. */
const usual = { seconds: 3, unpackBytes: 150_000_000, restoreBytes: 20_000_000 }

export function pitrService(deps: PitrDeps) {
  const { control, controlName, archive, wake } = deps

  /** Also times of the last milliseconds, whose end of a transaction is not archived yet. */
  async function catalogueFor(time: number): Promise<Catalogue> {
    const catalogue = await readable(archive.catalogue(patience()))
    const last = recoveryWindows(catalogue).at(-1)
    const isLater = last === undefined || time >= parseTime(last.to)!
    if (!isLater || time > Date.now() * 1000) return catalogue
    await readable(archive.catchUp(patience()))
    return readable(archive.catalogue(patience()))
  }

  async function plan(projectId: string, target: string) {
    const { id, ref, created_at: createdAt } = await findProject(deps, projectId)
    const time = parseTime(target)
    if (time === undefined) throw invalidTime(target)
    const catalogue = await catalogueFor(time)
    const created = parseTime(createdAt)!
    const windows = clipped(recoveryWindows(catalogue), created)
    try {
      if (time < created)
        throw new UnreachableTarget('target_outside_window', 'The project was created after this time.', [])
      const found = planRecovery(catalogue, target)
      return { id, ref, time, found, catalogue, window: clippedTo(found.window, created) }
    } catch (error) {
      if (!(error instanceof UnreachableTarget)) throw error
      const { code } = error
      if (code === 'invalid_target') throw invalidTime(target)
      const window = nearest(windows, time)
      throw new Refusal(code, `${error.message}${window ? ` ${sentenceOf(window)}` : ''}`, {
        fields: { window },
      })
    }
  }

  return {
    async restorePoints(projectId: string): Promise<RestorePoints> {
      const { id, created_at: createdAt } = await findProject(deps, projectId)
      const catalogue = await readable(archive.catalogue(patience()))
      const windows = clipped(recoveryWindows(catalogue), parseTime(createdAt)!)
      const from = windows[0]?.from
      return {
        enabled: true,
        window: windows.at(-1) ?? null,
        windows,
        base_backups: catalogue.baseBackups.map(shownBase).reverse(),
        points: from === undefined ? [] : await store.listPoints(control, id, from),
      }
    },

    async preview(projectId: string, target: string): Promise<PitrPreview> {
      const { ref, time, found, catalogue, window } = await plan(projectId, target)
      const names = recoveredDatabases(controlName, ref)
      const seconds = Math.max(0, Date.now() / 1000 - time / 1_000_000)
      return {
        target_time: formatTime(time),
        window,
        base_backup: shownBase(found.baseBackup),
        wal: {
          from_lsn: found.wal.fromLsn,
          to_lsn: found.wal.toLsn,
          segments: found.wal.segments,
          bytes: found.wal.storedBytes,
        },
        data_loss: { seconds: Number(seconds.toFixed(3)), wal_bytes: walAfter(catalogue, found) },
        estimated_seconds: estimate(found, names),
        warnings: warningsOf(formatTime(time), recoveryGaps(catalogue)),
      }
    },

    async restore(projectId: string, target: string) {
      const { id, time } = await plan(projectId, target)
      const jobId = orderedUuid()
      await control.transaction(async session => {
        if (await store.insertJob(session, jobId, id, formatTime(time))) return
        throw new Refusal(
          'project_busy',
          'The project is being recovered to a time already; wait until that has ended',
        )
      })
      wake()
      return { job: { id: jobId, status: 'pending' as const } }
    },

    jobs: (projectId: string, paging: Paging) => listJobs(deps, projectId, paging),
  }
}

/** Where recovery is off, or the database is external. */
export function unavailablePitr(deps: ProjectDeps, reason: string) {
  return {
    async restorePoints(projectId: string): Promise<RestorePoints> {
      await findProject(deps, projectId)
      return { enabled: false, reason }
    },

    async refuse(projectId: string): Promise<never> {
      await findProject(deps, projectId)
      throw new Refusal('pitr_unavailable', reason)
    },

    jobs: (projectId: string, paging: Paging) => listJobs(deps, projectId, paging),
  }
}

async function findProject({ control, owner }: ProjectDeps, projectId: string) {
  const { id } = await owner.tenant(projectId)
  const found = await store.findProject(control, id)
  if (!found) throw new Refusal('project_not_found', 'No project has this id')
  return found
}

async function listJobs({ control, owner }: ProjectDeps, projectId: string, paging: Paging) {
  const { id } = await owner.tenant(projectId)
  return { ...(await store.listJobs(control, id, paging)), ...paging }
}

/** A `+` in a query is a space. */
const withSpaceForPlus = / (?=\d\d(:?\d\d)?$)/

function invalidTime(target: string): Refusal {
  const isDecoded = parseTime(target.replace(withSpaceForPlus, '+')) !== undefined
  return new Refusal(
    'invalid_request',
    `target_time must be a time with an offset, such as 2030-01-31T10:00:00.123456Z${isDecoded ? '. In a URL, write the + of the offset as %2B' : ''}`,
  )
}

/** The archive may be on a disk or bucket that cannot be reached, or far behind. */
async function readable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    throw new Refusal('pitr_archive_behind', `The archive cannot be used now. ${archiveReason(cause)}`, {
      headers: { 'retry-after': '5' },
      cause,
    })
  }
}

const shownBase = ({ id, finishedAt, parts }: BaseBackup): PitrBaseBackup => ({
  id,
  finished_at: finishedAt,
  bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
})

const clippedTo = (window: PitrWindow, created: number): PitrWindow =>
  parseTime(window.from)! < created ? { ...window, from: formatTime(created) } : window

/** The parts of the windows in which the project existed. */
const clipped = (windows: readonly PitrWindow[], created: number): PitrWindow[] =>
  windows.filter(({ to }) => parseTime(to)! > created).map(window => clippedTo(window, created))

/** The window after the time, or else the last one. */
const nearest = (windows: readonly PitrWindow[], time: number): PitrWindow | null =>
  windows.find(({ from }) => parseTime(from)! > time) ?? windows.at(-1) ?? null

const sentenceOf = ({ from, to }: PitrWindow): string => `Times from ${from} to ${to} can be recovered.`

const estimate = (plan: RecoveryPlan, databases: readonly string[]): number =>
  Math.ceil(
    usual.seconds +
      neededBytes(plan, databases) / usual.unpackBytes +
      databaseBytes(plan, databases) / usual.restoreBytes,
  )

const warningsOf = (time: string, gaps: readonly RecoveryGap[]): string[] => [
  `What has changed in the project since ${time} is lost with the cutover. It is kept for 24 hours, and as a backup.`,
  ...(gaps.some(({ isLoss }) => isLoss) ? [unreachableBecause('WAL was lost')] : []),
  ...(gaps.some(({ isLoss }) => !isLoss)
    ? [unreachableBecause('the instance was recovered to another time then')]
    : []),
]

const unreachableBecause = (reason: string) =>
  `Some times before or after this one cannot be recovered, because ${reason}.`
