// The control database of an older release: whether there is one, and its backup before it is migrated.

import type { ControlBackups } from '#src/archive/control-backup.ts'
import { dropControlCopy } from '#src/archive/control-store.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { listMissing, listUnknown } from '#src/kernel/postgres/migrate.ts'
import { version } from '#src/kernel/version.ts'
import { type AroundMigration, type Cluster, controlSettings } from '#src/tenancy/cluster.ts'
import { noteRestorePoint } from '#src/tenancy/restore-points.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'
import { imagesOf } from './plan.ts'
import * as store from './store.ts'
import { isNewer } from './target.ts'

/** For the start of a platform. The backup is recorded together with the migrations, so that no crash can lose the way back. */
export function backUpBeforeMigration(
  backups: ControlBackups,
  deriveKey: DeriveKey,
  dataDir: string,
): AroundMigration {
  let begun: { controlBackupId: string; prior: store.Release | undefined; startedAt: string } | undefined
  return {
    async before(session, cluster, missing) {
      await checkNotNewer(session, cluster)
      if (missing.length === 0) return
      // A backup that is encrypted with another secret could not be restored with the right one.
      await checkSecret(session, deriveKey)
      const startedAt = await store.readClock(session)
      const source = { address: cluster.address, database: cluster.control, dataDir }
      const needed = await store.listNeededBackups(session)
      const { id } = await backups
        .make(source, needed, { signal: new AbortController().signal, progress() {} })
        .catch(cause => {
          throw new Error(
            `The control database could not be backed up, so this release has not upgraded it: ${(cause as Error).message}`,
            { cause },
          )
        })
      begun = { controlBackupId: id, prior: await store.findRelease(session), startedAt }
    },
    async within(session) {
      if (!begun) return
      await noteRestorePoint(session, 'upgrade', null)
      const id = orderedUuid()
      await store.insertUpgrade(session, { id, version, ...begun })
      await store.insertAudit(session, id)
      await store.saveRelease(session, { version, images: await currentImages(session) })
    },
  }
}

export const currentImages = async (control: Session) => imagesOf((await store.readServer(control)).postgres)

/** Undefined, or why this release must not run on the database. */
export async function whyNewer(
  control: Session,
  { platformMigrations }: Pick<Cluster, 'platformMigrations'>,
): Promise<string | undefined> {
  const release = await store.findRelease(control)
  const back = `or go back as "Going back" in docs/upgrades.md describes. The installed release is ${version}`
  if (release && isNewer(release.version, version))
    return `The databases are those of the newer release ${release.version}: install that one, ${back}`
  const unknown = await listUnknown(control, 'migrations', platformMigrations)
  if (unknown.length > 0)
    return `The control database has migrations of a newer release (${unknown.join(', ')}): install that one, ${back}`
  return
}

/** A release that does not know the schema could damage data. */
export async function checkNotNewer(control: Session, cluster: Cluster): Promise<void> {
  const why = await whyNewer(control, cluster)
  if (why !== undefined) throw new Error(`${why}.`)
}

/** Whether a platform that waits for the operator has to: not on a new server, nor for projects that have failed before. */
export async function isWaiting({ address, control, ...cluster }: Cluster): Promise<boolean> {
  const exists = await withClient(address, 'postgres', guardedSettings, session =>
    store.hasDatabase(session, control),
  )
  if (!exists) return false
  return withClient(address, control, controlSettings, async session => {
    const missing = await listMissing(session, 'migrations', cluster.platformMigrations)
    if (!missing || missing.length > 0) return missing !== undefined
    const failed = new Set((await store.listFailed(session)).map(({ id }) => id))
    return (await store.listOutdated(session, cluster.projectVersion)).some(({ id }) => !failed.has(id))
  })
}

/** The copy of the control database on which migrations are rehearsed. */
export const rehearsalOf = ({ control }: Cluster): string => `${control}_upgrade`

export const dropRehearsal = (cluster: Cluster): Promise<void> =>
  withClient(cluster.address, 'postgres', guardedSettings, session =>
    session.script(dropControlCopy(rehearsalOf(cluster))),
  )

/** Drops the copy that a killed node has left, unless another node executes an upgrade. */
export const dropLeftovers = (cluster: Cluster): Promise<void> =>
  withClient(cluster.address, cluster.control, controlSettings, async session => {
    if (await store.tryLockRun(session)) await dropRehearsal(cluster)
  })
