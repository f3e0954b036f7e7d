import { backupsApi } from '@plinth/contract/backups.ts'
import { startChore } from '#src/kernel/chores.ts'
import { workerMetrics } from '#src/kernel/metrics.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { beforeOf, dropDatabase, type Provisioner } from '#src/tenancy/provision.ts'
import { createBackupHealth } from './health.ts'
import { backupsRoutes } from './management-routes.ts'
import { forgetUndo, listOver } from './restores-store.ts'
import { createRetention } from './retention.ts'
import { backupsService } from './service.ts'
import { type BackupWorkerDeps, startBackupWorker } from './worker.ts'

interface BackupsDeps extends Omit<BackupWorkerDeps, 'dropCopy' | 'renew'> {
  owner: OwnerWork
  provisioner: Provisioner
  /** Whether backups are on the same disk as the data. */
  isBesideFiles: boolean
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const dropMs = 60_000

export function openBackups(deps: BackupsDeps): Service {
  const { control, cluster, backups, log } = deps
  async function dropCopy(database: string): Promise<void> {
    const isDropped = await withClient(cluster.address, cluster.control, controlSettings, session =>
      dropDatabase(session, database, dropMs),
    )
    if (!isDropped) throw new Error(`the database ${database} cannot be dropped`)
  }
  const worker = startBackupWorker({ ...deps, dropCopy, renew: deps.provisioner.renew })
  function start(projectId: string): void {
    // A verification that runs here gives way.
    worker.abort(projectId, new Error('another task of the project begins'))
    worker.wake()
  }
  const service = backupsService({ control, owner: deps.owner, wake: worker.wake, start })
  const retention = createRetention(control, backups)
  const health = createBackupHealth(control, deps.isBesideFiles)
  /** Drops the states before restores that cannot be undone any more. */
  async function forgetStates(): Promise<void> {
    for (const { id, ref } of await listOver(control)) {
      await dropCopy(beforeOf(ref))
      await forgetUndo(control, id)
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
    mount: to => to.management(backupsApi, backupsRoutes(service)),
    warnings: health.warnings,
    metrics: [...workerMetrics('backups', worker.use), ...health.metrics],
    async close() {
      for (const chore of chores) await chore.stop()
      await worker.close()
    },
  }
}
