// Makes, verifies and restores backups: those that were asked for, and those that are due. A project has one task at a time. If a
// node dies, another one begins the task again.
import type { BackupProgress } from '@plinth/contract/backups.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import { restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import { removeArchive } from './archive/archive.ts'
import type { Watching } from './archive/write-database.ts'
import { makeBackup } from './make-backup.ts'
import { reasonOf } from './reason.ts'
import { type RestoreDeps, restoreBackup, undoRestore } from './restore-backup.ts'
import * as restores from './restores-store.ts'
import * as store from './store.ts'
import { verifyBackup } from './verify-backup.ts'

export interface BackupWorkerDeps extends RestoreDeps {
  log: Log
}

/** The problem is null if the task has succeeded. */
type Outcome = { kind: 'stopped' } | { kind: 'ended'; problem: string | null; done?: store.DoneBackup }

/** A tenant's own functions run while its backup is restored, and may take long. Such projects share half of the places. */
const bounds = {
  all: 4,
  perProject: 1,
  slow: { afterMs: 60_000, forMs: 3_600_000, prompt: 2, shared: 2, perProject: 1 },
}
/** A verification or restore may take this much longer than the backup did, and some minutes more. */
const limit = { times: 50, ms: 15 * 60_000 }
/** That of a timer. */
const longestMs = 2 ** 31 - 1
const leaseSeconds = 30
const extendMs = 2000
const maxAttempts = 3
/** In the audit log: of success and of failure. */
const actions: Record<store.Task['kind'], readonly [string, string]> = {
  backup: ['backups.made', 'backups.failed'],
  verification: ['backups.verified', 'backups.not_verified'],
  restore: ['backups.restored', 'backups.not_restored'],
  undo: ['backups.undone', 'backups.not_undone'],
}
const usualVerifyMinutes = 10_080

export function startBackupWorker(deps: BackupWorkerDeps): Worker {
  const { control, backups, log } = deps
  const progressOf = new Map<string, BackupProgress>()

  function watching(task: store.Task, signal: AbortSignal): Watching {
    return {
      signal,
      progress(step, bytes) {
        const now = progressOf.get(task.id)
        progressOf.set(task.id, { step, bytes: now?.step === step ? now.bytes + bytes : bytes })
      },
    }
  }

  /** Tasks for backups and verifications that are due. */
  async function plan(): Promise<void> {
    await control.transaction(async session => {
      for (const { project_id: projectId } of await store.takeDue(session, bounds.all)) {
        const backupId = orderedUuid()
        await store.insertBackup(session, backupId, projectId, 'scheduled')
        await store.insertTask(session, { id: orderedUuid(), projectId, kind: 'backup', backupId })
      }
      const unverified = await store.listDueVerifications(session, bounds.all, usualVerifyMinutes)
      for (const { project_id: projectId, backup_id: backupId } of unverified)
        await store.insertTask(session, { id: orderedUuid(), projectId, kind: 'verification', backupId })
    })
  }

  /** A restore is recorded in the transaction that exchanges the databases. */
  async function restore(task: store.Task, signal: AbortSignal): Promise<void> {
    const found = await restores.findRestore(control, task.project_id, task.restore_id!)
    if (!found) throw new Error('the restore was deleted')
    if (task.kind === 'undo') await undoRestore(deps, task.project_id, found, watching(task, signal))
    else await restoreBackup(deps, task, found, watching(task, signal))
  }

  /** Drops what the attempts have left. */
  async function giveUp({ project_id: projectId }: store.Task): Promise<never> {
    const project = await store.findProject(control, projectId)
    if (project)
      for (const database of [verifyOf(project.ref), restoredOf(project.ref)]) await deps.dropCopy(database)
    throw new Error(`the platform stopped ${maxAttempts} times meanwhile`)
  }

  async function run(task: store.Task, signal: AbortSignal): Promise<Outcome> {
    const { project_id: project, backup_id: backup, attempts: attempt } = task
    if (attempt > maxAttempts) await giveUp(task)
    switch (task.kind) {
      case 'backup':
        return {
          kind: 'ended',
          problem: null,
          done: await makeBackup(deps, { project, backup, attempt }, watching(task, signal)),
        }
      case 'verification':
        return { kind: 'ended', problem: await verifyBackup(deps, project, backup, watching(task, signal)) }
      default:
        await restore(task, signal)
        return { kind: 'ended', problem: null }
    }
  }

  /** Aborts with the platform, and after the longest time that the task may take. */
  async function within(task: store.Task, signal: AbortSignal): Promise<AbortSignal> {
    if (task.kind === 'backup') return signal
    const ms = limit.ms + limit.times * (await store.findDurationMs(control, task.backup_id))
    return AbortSignal.any([signal, AbortSignal.timeout(Math.min(Math.round(ms), longestMs))])
  }

  async function act(task: store.Task, signal: AbortSignal): Promise<Outcome> {
    try {
      return await run(task, await within(task, signal))
    } catch (error) {
      // The platform stops. The task is begun again at the next start.
      if (signal.aborted) return { kind: 'stopped' }
      log.error(
        { err: error, project: task.project_id, backup: task.backup_id, task: task.kind },
        'a task of backups failed',
      )
      return { kind: 'ended', problem: reasonOf(error) }
    } finally {
      progressOf.delete(task.id)
    }
  }

  async function recordEnd(
    session: Session,
    { kind, backup_id: backup, project_id: project, restore_id: restoreId }: store.Task,
    { problem, done }: Extract<Outcome, { kind: 'ended' }>,
  ): Promise<void> {
    await store.insertAudit(session, actions[kind][problem === null ? 0 : 1], backup, project)
    if (kind === 'verification') await store.recordVerified(session, backup, problem)
    else if (done) await store.recordDone(session, backup, done)
    else if (problem === null) return
    else if (kind === 'backup') await store.recordFailed(session, backup, problem)
    else if (kind === 'undo') await restores.recordNotUndone(session, restoreId!, problem)
    else await restores.recordNotRestored(session, restoreId!, problem)
  }

  async function record(task: store.Task, outcome: Outcome): Promise<void> {
    if (outcome.kind === 'stopped') return void (await store.releaseTask(control, task))
    const isRecorded = await control.transaction(async session => {
      const isOurs = await store.deleteTask(session, task)
      if (isOurs) await recordEnd(session, task, outcome)
      return isOurs
    })
    if (!isRecorded || task.kind !== 'backup') return
    // What stays is removed by the sweep.
    await removeArchive(
      backups,
      task.project_id,
      task.backup_id,
      outcome.done ? task.attempts : undefined,
    ).catch(() => {})
  }

  return startWorker<store.Task, Outcome>(
    {
      name: 'backups',
      bounds,
      pollMs: 10_000,
      graceMs: 1000,
      async claim(room) {
        await plan()
        return store.claimTasks(control, room.jobs, leaseSeconds)
      },
      nextDueMs: () => store.nextDueMs(control),
      act,
      record,
      lease: {
        everyMs: extendMs,
        extend: tasks =>
          store.extendTasks(
            control,
            tasks.map(({ id, attempts }) => ({
              id,
              attempts,
              progress: progressOf.get(id) ?? { step: 'starting', bytes: 0 },
            })),
            leaseSeconds,
          ),
      },
    },
    log,
  )
}
