// The upgrade of a platform that does not serve yet. This release can only make backups with a control database of its own
// schema. So the backup of the control database is restored beside it and migrated there. Backups of projects are made
// with that copy. The live one is migrated when all backups are made, so a failure before that changes nothing. It also
// proves that the backup can be restored, and that the migrations succeed on this data.
import { removeArchive } from '#src/archive/archive.ts'
import type { ControlBackups } from '#src/archive/control-backup.ts'
import { copyBackupRecords, forgetTasks } from '#src/archive/control-store.ts'
import type { Watching } from '#src/archive/write-database.ts'
import type { Log } from '#src/kernel/log.ts'
import { type Database, openDatabase, withClient } from '#src/kernel/postgres/database.ts'
import { makeUpgradeSnapshot } from '#src/services/backups/upgrade-snapshot.ts'
import { dropRehearsal, rehearsalOf } from '#src/services/upgrade/control-migration.ts'
import type { UpgradeStage } from '#src/services/upgrade/runner.ts'
import { listNeededBackups } from '#src/services/upgrade/store.ts'
import { type Cluster, controlSettings, migratePlatform, prepareCluster } from '#src/tenancy/cluster.ts'
import type { Provisioner } from '#src/tenancy/provision.ts'
import { openUpgrades } from '#src/tenancy/upgrades.ts'
import { backupDepsOf } from '#src/upgrade-backups.ts'

interface WaitingDeps {
  control: Database
  cluster: Cluster
  controlBackups: ControlBackups
  provisioner: Provisioner
  stores: Parameters<typeof backupDepsOf>[1]
  log: Log
}

export function waitingStage(deps: WaitingDeps): UpgradeStage {
  const { control, cluster, controlBackups, stores, log } = deps
  const { address } = cluster
  const { dataDir, backupPieces } = stores
  const copy = rehearsalOf(cluster)
  /** Backups whose records are only in the copy. */
  let made: { projectId: string; id: string }[] = []

  /** Restores the backup of the control database and migrates the copy. */
  async function rehearse(backupId: string, watching: Watching): Promise<void> {
    await dropRehearsal(cluster)
    await controlBackups.restore(backupId, { address, database: copy, dataDir }, watching)
    await withClient(address, copy, controlSettings, async session => {
      await migratePlatform(session, cluster.platformMigrations)
      // No worker does what the older release had still to do. Their records in the live database stay.
      await forgetTasks(session)
    })
  }

  /** The backup to go back to is of before the migrations, so another one has the records of a continued upgrade. */
  async function rehearsePresent(watching: Watching): Promise<void> {
    const source = { address, database: cluster.control, dataDir }
    const { id } = await controlBackups.make(source, await listNeededBackups(control), watching)
    await rehearse(id, watching).finally(() => controlBackups.remove(id))
  }

  return {
    control,
    cluster,
    controlBackups,
    dataDir,
    log,
    hold: work => work(),
    async takeSnapshots(controlBackupId, work, watching) {
      made = []
      const rehearsing =
        controlBackupId === undefined ? rehearsePresent(watching) : rehearse(controlBackupId, watching)
      await rehearsing.catch(cause => {
        const { message } = cause as Error
        throw new Error(`the control database could not be copied and migrated on the copy: ${message}`, {
          cause,
        })
      })
      const records = openDatabase(address, copy, controlSettings, () => {})
      try {
        const backups = backupDepsOf(records, stores)
        await work(async projectId => {
          const { id } = await makeUpgradeSnapshot(backups, projectId, watching)
          made.push({ projectId, id })
          return id
        })
      } finally {
        await records.close()
      }
    },
    async discard() {
      await dropRehearsal(cluster)
      for (const { projectId, id } of made.splice(0)) await removeArchive(backupPieces, projectId, id)
    },
    async migrate(record, work) {
      await withClient(address, copy, controlSettings, from =>
        prepareCluster(address, cluster.control, {
          async within(to) {
            await copyBackupRecords(from, to)
            await record(to)
          },
        }),
      )
      made = []
      await dropRehearsal(cluster)
      const upgrades = await openUpgrades({ control, cluster, provisioner: deps.provisioner, log })
      try {
        return await work(upgrades)
      } finally {
        await upgrades.close()
      }
    },
  }
}
