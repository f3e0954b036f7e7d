import { backupsApi } from '@plinth/contract/backups.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { workerMetrics } from '#src/kernel/metrics.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Opened } from '#src/planes/service.ts'
import type { Lifecycle } from '#src/tenancy/lifecycle.ts'
import { beforeOf, dropCopy, type Provisioner } from '#src/tenancy/provision.ts'
import { createBackupHealth } from './health.ts'
import { backupsRoutes } from './management-routes.ts'
import { forgetUndo, holdOver, listOver } from './restores-store.ts'
import { createRetention } from './retention.ts'
import { type BackupsService, backupsService } from './service.ts'
import { makeUpgradeSnapshot } from './upgrade-snapshot.ts'
import { type BackupWorkerDeps, startBackupWorker } from './worker.ts'

interface BackupsDeps extends Omit<BackupWorkerDeps, 'dropCopy' | 'renew'> {
  owner: OwnerWork
  sealer: Sealer
  lifecycle: Lifecycle
  provisioner: Provisioner
  baseUrl(): string
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs

export function openBackups(deps: BackupsDeps): Opened<BackupsService> {
  const { control, cluster, backups, log } = deps
  const drop = (database: string) => dropCopy(cluster, database)
  const restoring = { ...deps, dropCopy: drop, renew: deps.provisioner.renew }
  const worker = startBackupWorker(restoring)
  function start(projectId: string): void {
    // A verification that runs here gives way.
    worker.abort(projectId, new Error('another task of the project begins'))
    worker.wake()
  }
  const service = backupsService({
    ...deps,
    wake: worker.wake,
    start,
    restoring,
    snapshotBeforeUpgrade: (projectId, watching) =>
      makeUpgradeSnapshot(
        { ...deps, spaceCheck: deps.isBesideFiles ? deps.spaceCheck : undefined },
        projectId,
        watching,
      ),
  })
  const retention = createRetention(control, backups)
  const health = createBackupHealth(control, deps.isBesideFiles)
  /** Drops the states before restores that cannot be undone any more. */
  async function forgetStates(): Promise<void> {
    for (const { id, ref } of await listOver(control)) {
      const forgotten = control.transaction(async session => {
        if (!(await holdOver(session, id))) return
        await drop(beforeOf(ref))
        await forgetUndo(session, id)
      })
      // The others must not be kept because of this one.
      await forgotten.catch(error =>
        log.warn({ err: error, restore: id }, 'could not drop the state before a restore; will retry'),
      )
    }
  }
  const chores = [
    startChore(
      {
        name: 'backups: forget states before restores',
        everyMs: hourMs,
        runsAtStart: true,
        run: forgetStates,
      },
      log,
    ),
    startChore({ name: 'backups: prune', everyMs: hourMs, runsAtStart: true, run: retention.prune }, log),
    startChore({ name: 'backups: sweep', everyMs: dayMs, runsAtStart: true, run: retention.sweep }, log),
    startChore(
      { name: 'backups: health', everyMs: health.everyMs, runsAtStart: true, run: health.look },
      log,
    ),
  ]
  return {
    name: 'backups',
    service,
    mount: to => to.management(backupsApi, backupsRoutes(service)),
    warnings: health.warnings,
    health: health.state,
    metrics: [...workerMetrics('backups', worker.use), ...health.metrics],
    async close() {
      for (const chore of chores) await chore.stop()
      await worker.close()
    },
  }
}
