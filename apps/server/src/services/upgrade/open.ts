// Opens upgrades on a platform that serves: the control database is migrated, and only projects may be outdated.
import { upgradeApi } from '@plinth/contract/upgrade.ts'
import type { ControlBackups } from '#src/archive/control-backup.ts'
import type { Watching } from '#src/archive/write-database.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { createAudit } from '#src/planes/management/audit.ts'
import type { Service } from '#src/planes/service.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { Upgrades } from '#src/tenancy/upgrades.ts'
import { dropLeftovers } from './control-migration.ts'
import { upgradeRoutes } from './management-routes.ts'
import { upgradeService } from './service.ts'

interface UpgradeDeps {
  control: Database
  cluster: Cluster
  upgrades: Upgrades
  controlBackups: ControlBackups
  dataDir: string
  /** Makes a backup of a project and returns its id. */
  takeSnapshot(projectId: string, watching: Watching): Promise<string>
  log: Log
}

const retryMs = 2000
const dayMs = 86_400_000

export function openUpgrade(deps: UpgradeDeps): Service {
  const { control, cluster, upgrades, controlBackups, takeSnapshot, log } = deps
  const service = upgradeService({
    ...deps,
    hold: upgrades.hold,
    takeSnapshots: (_, work, watching) => work(id => takeSnapshot(id, watching)),
    // Their records show what was made, and the retention removes it.
    discard: async () => {},
    async migrate(record, work) {
      await control.transaction(record)
      return work(upgrades)
    },
  })

  const sweeping = startChore(
    {
      name: 'upgrade: sweep backups of the control database',
      everyMs: dayMs,
      runsAtStart: true,
      run: controlBackups.removeStray,
    },
    log,
  )

  let retry: NodeJS.Timeout | undefined
  let beginning = Promise.resolve()
  let isClosing = false
  /** Until then projects of an older release wait. */
  async function begin(): Promise<void> {
    const steps = await service.begin((id, signal) => takeSnapshot(id, { signal, progress() {} }))
    upgrades.start(steps)
    await dropLeftovers(cluster)
  }
  function beginOrRetry(): void {
    beginning = begin().catch(error => {
      if (isClosing) return
      log.error({ err: error }, 'could not begin the upgrade of projects; trying again')
      retry = setTimeout(beginOrRetry, retryMs).unref()
    })
  }

  return {
    name: 'upgrade',
    mount: to => to.management(upgradeApi, upgradeRoutes(service, createAudit(control, log))),
    start: beginOrRetry,
    async close() {
      isClosing = true
      clearTimeout(retry)
      await sweeping.stop()
      await beginning
      await service.close()
    },
  }
}
