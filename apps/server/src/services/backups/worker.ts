// Makes, verifies and restores backups: those that were asked for, and those that are due. A project has one task at a time. If a
// node dies, another one begins the task again.
import { removeArchive } from '#src/archive/archive.ts'
import { createTaskLeases, hasRestarted, leaseSeconds, pauseSeconds } from '#src/archive/task-leases-store.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import { MadeElsewhere } from '#src/tenancy/project-making.ts'
import { endMakers, restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { whileDiskHasSpace } from '#src/tenancy/task-space.ts'
import type { DifferenceCounts } from './differences.ts'
import { makeBackup } from './make-backup.ts'
import { makeProject, type NewProjectDeps } from './new-project.ts'
import { planTasks } from './plan-tasks.ts'
import { Interrupted, isOutside, kindOfFailure, reasonOf } from './reason.ts'
import { type Limit, restoreBackup, undoRestore } from './restore-backup.ts'
import * as restores from './restores-store.ts'
import * as store from './store.ts'
import { guardTask, type TaskGuard } from './task-guard.ts'
import { longestMs } from './time-limit.ts'
import { createVerificationPlaces, GaveWay } from './verification-places.ts'
import { verifyBackup } from './verify-backup.ts'

export interface BackupWorkerDeps extends Omit<NewProjectDeps, keyof TaskGuard> {
  log: Log
  spaceCheck: SpaceCheck
  /** Whether backups are on the same disk as the data. */
  isBesideFiles: boolean
  dropCopy(database: string): Promise<void>
}

type Outcome = { kind: 'stopped'; pauseSeconds: number } | Ended

interface Ended {
  kind: 'ended'
  /** Null if the task has succeeded. */
  problem: string | null
  /** What a verification has counted. */
  differences?: DifferenceCounts
  done?: store.DoneBackup
  isOutage?: boolean
}

const succeeded: Ended = { kind: 'ended', problem: null }

/** A tenant's own functions run while its backup is restored, and may take long. Such projects share half of the places. */
const bounds = {
  all: 4,
  perProject: 1,
  slow: { afterMs: 60_000, forMs: 3_600_000, prompt: 2, shared: 2, perProject: 1 },
}
/** On a node, of which one may be slow. */
const maxVerifications = 2
const maxAttempts = 3
/** In the audit log: of success and of failure. */
const actions: Record<store.Task['kind'], readonly [string, string]> = {
  backup: ['backups.made', 'backups.failed'],
  verification: ['backups.verified', 'backups.not_verified'],
  restore: ['backups.restored', 'backups.not_restored'],
  undo: ['backups.undone', 'backups.not_undone'],
  new_project: ['backups.restored_as_new', 'backups.not_restored_as_new'],
}

export function startBackupWorker(deps: BackupWorkerDeps): Worker {
  const { control, backups, log } = deps
  const { watching, forget, lease } = createTaskLeases(control, 'backup_tasks')

  const places = createVerificationPlaces(maxVerifications, bounds.slow.afterMs)
  /** Projects whose verifications were not claimed last, because they take long and one that does runs here. */
  let slowProjects: readonly string[] = []

  /** A restore is recorded in the transaction that exchanges the databases. */
  async function restore(
    guarded: NewProjectDeps,
    task: store.Task,
    signal: AbortSignal,
    limit: Limit,
  ): Promise<void> {
    const found = await restores.readRestore(control, task.restore_id!)
    if (!found) throw new Error('the restore was deleted')
    const watched = watching(task, task.kind === 'restore' ? signal : limit(signal))
    if (task.kind === 'new_project') await makeProject(guarded, task.project_id, found, watched)
    else if (task.kind === 'undo') await undoRestore(guarded, task.project_id, found, watched)
    else await restoreBackup(guarded, task, found, watched, limit)
  }

  /** Drops what an earlier attempt or task has left. */
  async function dropLeftovers({ dropCopy }: TaskGuard, projectId: string): Promise<void> {
    const ref = await store.findRef(control, projectId)
    if (ref === undefined) return
    const copies = [verifyOf(ref), restoredOf(ref)]
    for (const database of copies) await endMakers(control, database)
    for (const database of await store.listExisting(control, copies)) await dropCopy(database)
  }

  async function work(guarded: NewProjectDeps, task: store.Task, signal: AbortSignal): Promise<Outcome> {
    const { project_id: project, backup_id: backup, attempts: attempt } = task
    const ms = longestMs(await store.findEffort(control, backup))
    const limit: Limit = started => AbortSignal.any([started, AbortSignal.timeout(ms)])
    switch (task.kind) {
      case 'backup':
        return {
          kind: 'ended',
          problem: null,
          done: await makeBackup(deps, { project, backup, attempt }, watching(task, signal)),
        }
      case 'verification': {
        const found = await verifyBackup(guarded, project, backup, watching(task, limit(signal)))
        return found ? { kind: 'ended', problem: found.text, differences: found.counts } : succeeded
      }
      default:
        await restore(guarded, task, signal, limit)
        return succeeded
    }
  }

  async function run(task: store.Task, signal: AbortSignal): Promise<Outcome> {
    const guarded = { ...deps, ...guardTask(control, deps.dropCopy, task) }
    await dropLeftovers(guarded, task.project_id)
    if (task.attempts > maxAttempts) throw new Interrupted(maxAttempts)
    const fillsDisk = task.kind === 'backup' ? deps.isBesideFiles : task.kind !== 'undo'
    if (!fillsDisk) return work(guarded, task, signal)
    return whileDiskHasSpace(deps.spaceCheck, signal, watched => work(guarded, task, watched))
  }

  async function act(task: store.Task, signal: AbortSignal): Promise<Outcome> {
    try {
      return await (task.kind === 'verification'
        ? places.run(signal, given => run(task, given))
        : run(task, signal))
    } catch (error) {
      // The platform stops. The task is begun again at the next start.
      if (signal.aborted) return { kind: 'stopped', pauseSeconds: 0 }
      if (error instanceof MadeElsewhere || error instanceof GaveWay) return { kind: 'stopped', pauseSeconds }
      log.error(
        { err: error, project: task.project_id, backup: task.backup_id, task: task.kind },
        'a task of backups failed',
      )
      const problem = reasonOf(error)
      return {
        kind: 'ended',
        problem: task.kind === 'verification' && isOutside(error) ? store.notVerified + problem : problem,
        differences: { [kindOfFailure(error)]: 1 },
        isOutage: isOutage(error),
      }
    } finally {
      forget(task)
    }
  }

  /** A task that failed because Postgres has stopped is begun again. */
  const isInterrupted = async ({ attempts, claimed_at: since }: store.Task, { problem, isOutage }: Ended) =>
    problem !== null && attempts <= maxAttempts && (isOutage === true || (await hasRestarted(control, since)))

  /** Files of earlier attempts to make a backup, or of all if it has failed. What stays is removed by the sweep. */
  async function removeAttempts({ kind, project_id: project, ...task }: store.Task): Promise<void> {
    if (kind !== 'backup' && kind !== 'restore') return
    const restore =
      task.restore_id === null ? undefined : await restores.readRestore(control, task.restore_id)
    const backup = restore?.before_backup_id ?? task.backup_id
    await removeArchive(backups, project, backup, (await store.findManifest(control, backup))?.attempt)
  }

  /**
   * Before the task is deleted, so that a crash does not leave it without one, and only if no other node has begun the task
   * again. Its owner may have deleted it already.
   */
  const removeUnmade = (task: store.Task) =>
    control.transaction(async session => {
      if (!(await store.holdTask(session, task))) return
      if (await store.findUnmade(control, task.project_id)) await deps.lifecycle.remove(task.project_id)
    })

  async function record(task: store.Task, outcome: Outcome): Promise<void> {
    if (outcome.kind === 'stopped') return void (await store.releaseTask(control, task, outcome.pauseSeconds))
    if (await isInterrupted(task, outcome))
      return void (await store.postponeTask(control, task, pauseSeconds))
    if (task.kind === 'new_project' && outcome.problem !== null) await removeUnmade(task)
    const isRecorded = await control.transaction(async session => {
      const isOurs = await store.deleteTask(session, task)
      if (isOurs) await recordEnd(session, task, outcome)
      return isOurs
    })
    if (isRecorded) await removeAttempts(task).catch(() => {})
  }

  const claimable = (full: readonly string[]) => ({ full, slow: slowProjects, verifications: places.left() })

  const worker = startWorker<store.Task, Outcome>(
    {
      name: 'backups',
      bounds,
      pollMs: 10_000,
      graceMs: 1000,
      async claim(room) {
        const begun = await planTasks(control, bounds.all)
        for (const projectId of begun) worker.abort(projectId, new Error('a scheduled backup begins'))
        slowProjects = places.isSlowOneRunning() ? [...room.places.keys()] : []
        return store.claimTasks(control, room.jobs, claimable(fullOf(room.places)), leaseSeconds)
      },
      nextDueMs: full => store.nextDueMs(control, claimable(full)),
      act,
      record,
      lease,
    },
    log,
  )
  return worker
}

const fullOf = (places: ReadonlyMap<string, number>) =>
  [...places].filter(([, free]) => free === 0).map(([id]) => id)

async function recordEnd(
  session: Session,
  task: store.Task,
  { problem, differences, done }: Ended,
): Promise<void> {
  const { kind, backup_id: backup, restore_id: restoreId } = task
  let hasFailed = problem !== null
  // The deletion of the project has ended it.
  if (kind === 'verification' && hasFailed && !(await store.holdProject(session, task.project_id))) return
  if (kind === 'verification') await store.recordVerified(session, backup, problem, differences ?? null)
  else if (done) await store.recordDone(session, backup, done)
  else if (problem !== null && kind === 'backup') await store.recordFailed(session, backup, problem)
  // The connection can be lost after the commit of the exchange.
  else if (problem !== null && kind === 'undo')
    hasFailed = await restores.recordNotUndone(session, restoreId!, problem)
  else if (problem !== null) hasFailed = await restores.recordNotRestored(session, restoreId!, problem)
  await store.insertAudit(session, actions[kind][hasFailed ? 1 : 0], task, problem)
}
