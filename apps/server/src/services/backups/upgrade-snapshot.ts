// Makes the backup of a project before its upgrade. It is a task like others, so that nothing else is done with the backups
// of the project meanwhile, but the caller runs it: an upgrade must not wait behind scheduled backups.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Backup } from '@plinth/contract/backups.ts'
import { removeArchive } from '#src/archive/archive.ts'
import { createTaskLeases, extendMs, leaseSeconds } from '#src/archive/task-leases-store.ts'
import type { Watching } from '#src/archive/write-database.ts'
import { startChore } from '#src/kernel/chores.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { endingLockHolders } from '#src/tenancy/lock-holders.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { whileDiskHasSpace } from '#src/tenancy/task-space.ts'
import { SnapshotFailed } from '#src/tenancy/upgrades.ts'
import { type BackupDeps, makeBackup } from './make-backup.ts'
import { reasonOf } from './reason.ts'
import * as store from './store.ts'

const pollMs = 200

interface SnapshotDeps extends BackupDeps {
  /** If backups are on the same disk as the data. Before the platform serves, nobody measures the disk. */
  spaceCheck?: SpaceCheck | undefined
}

/** The caller must have made sure that no one else upgrades this project. Throws SnapshotFailed. */
export async function makeUpgradeSnapshot(
  deps: SnapshotDeps,
  projectId: string,
  watching: Watching,
): Promise<Backup> {
  const { control, backups } = deps
  const task = await beginTask(deps, projectId, watching.signal)
  const { backup_id: backup, attempts: attempt } = task
  const leases = createTaskLeases(control, 'backup_tasks')
  const extending = startChore({
    name: 'extend the lease of a backup',
    everyMs: extendMs,
    run: () => leases.lease.extend([task]),
  })
  const noted = leases.watching(task, watching.signal)
  try {
    const progress: Watching['progress'] = (step, bytes) => {
      noted.progress(step, bytes)
      watching.progress(step, bytes)
    }
    const ref = (await store.findRef(control, projectId)) ?? ''
    const make = (signal: AbortSignal) =>
      endingLockHolders(control, ref, () =>
        makeBackup(deps, { project: projectId, backup, attempt }, { signal, progress }),
      )
    const done = deps.spaceCheck
      ? await whileDiskHasSpace(deps.spaceCheck, watching.signal, make)
      : await make(watching.signal)
    await extending.stop()
    await control.transaction(async session => {
      if (!(await store.deleteTask(session, task))) throw new Error('another node has begun the backup again')
      await store.recordDone(session, backup, done)
      await store.insertAudit(session, 'backups.made', task)
    })
    return (await store.findBackup(control, projectId, backup))!
  } catch (error) {
    await extending.stop()
    const reason = watching.signal.aborted ? 'the platform stopped meanwhile' : reasonOf(error)
    await endTask(deps, task, reason).catch(() => {})
    await removeArchive(backups, projectId, backup).catch(() => {})
    throw new SnapshotFailed(reason, error)
  }
}

/** Waits until the project has no other task. A verification gives way. */
async function beginTask(
  { control, backups }: BackupDeps,
  projectId: string,
  signal: AbortSignal,
): Promise<store.Task> {
  for (;;) {
    let ended: { id: string }[] = []
    const task = await control.transaction(async session => {
      ended = await store.endSnapshotTasks(session, projectId, 'the platform stopped meanwhile')
      const backupId = orderedUuid()
      const id = orderedUuid()
      await store.insertBackup(session, backupId, projectId, 'upgrade')
      if (await store.insertTask(session, { id, projectId, kind: 'backup', backupId }))
        return store.leaseTask(session, id, leaseSeconds)
      await store.deleteNewBackup(session, backupId)
      return
    })
    // Otherwise their files would stay until the sweep of the next day.
    for (const { id } of ended) await removeArchive(backups, projectId, id).catch(() => {})
    if (task) return task
    await sleep(pollMs, undefined, { signal })
  }
}

const endTask = ({ control }: BackupDeps, task: store.Task, reason: string) =>
  control.transaction(async session => {
    if (!(await store.deleteTask(session, task))) return
    await store.recordFailed(session, task.backup_id, reason)
    await store.insertAudit(session, 'backups.failed', task, reason)
  })
