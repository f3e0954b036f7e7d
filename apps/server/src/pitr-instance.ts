// Recovers the whole instance to a time, while the platform is stopped: all databases are recovered aside, and the directories of
// the two clusters are exchanged. The old one is kept beside it.
import { existsSync } from 'node:fs'
import { copyBackupRecords, forgetRemovedBackups } from '#src/archive/control-store.ts'
import type { Watching } from '#src/archive/write-database.ts'
import type { Config } from '#src/config.ts'
import { type DeriveKey, keyring, randomToken } from '#src/kernel/crypto/keys.ts'
import { lockDataDirectory } from '#src/kernel/data-directory.ts'
import { openBackupPieces } from '#src/kernel/objects/open-pieces.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import { exchangeClusters } from '#src/kernel/postgres/engine/cluster-exchange.ts'
import { type Engine, startEngine } from '#src/kernel/postgres/engine/start.ts'
import type { ArchiveStore } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { planRecovery, type RecoveryPlan, readCatalogue } from '#src/kernel/postgres/recovery/catalogue.ts'
import {
  neededBytes,
  type RecoveredServer,
  recoverAside,
  sweepRecoveries,
} from '#src/kernel/postgres/recovery/recovery.ts'
import { startWalArchive } from '#src/kernel/postgres/recovery/wal-archive.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'
import { archiveStore } from '#src/services/pitr/archive.ts'
import { checkSpace } from '#src/services/pitr/space.ts'
import { findJob, readServerBytes } from '#src/services/pitr/store.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { recordInstanceCutover } from '#src/tenancy/instance-cutover.ts'
import { noteRestorePoint } from '#src/tenancy/restore-points.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'

const silent = { info() {}, warn() {}, error() {} }
const catchUpMs = 120_000

export interface InstanceCutover {
  id: string
  target_time: string
  /** The directory of the cluster before. */
  kept: string
  /** Of all databases that were put in place. */
  bytes: number
}

export async function cutOverInstance(
  config: Config,
  jobId: string,
  control: string,
  progress: Watching['progress'],
): Promise<InstanceCutover> {
  const directory = lockDataDirectory(config.dataDir)
  try {
    const secrets = directory.secrets(randomToken)
    const deriveKey = keyring(config.controlPlaneSecret ?? secrets.CONTROL_PLANE_SECRET)
    const password = secrets.POSTGRES_PASSWORD
    const pieces = await openBackupPieces(config)
    try {
      progress('starting the database', 0)
      const engine = await startEngine({
        dataDir: config.dataDir,
        superuserPassword: password,
        extensionDir: config.extensionDir,
        log: silent,
      })
      const address = {
        host: engine.socketDir,
        port: engine.port,
        user: engine.user,
        password,
        tls: undefined,
      }
      return await exchange({ engine, address, pieces, deriveKey, control, progress }, jobId)
    } finally {
      await pieces.close()
    }
  } finally {
    directory.release()
  }
}

interface Source {
  engine: Engine
  address: ServerAddress
  pieces: Pieces
  deriveKey: DeriveKey
  control: string
  progress: Watching['progress']
}

/** Stops the server. */
async function exchange(source: Source, jobId: string): Promise<InstanceCutover> {
  const { engine, address, control, progress } = source
  const { place } = engine
  const kept = `${place.clusterDir}-before-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`
  let recovered: RecoveredServer | undefined
  try {
    let [target, bytes] = ['', 0]
    try {
      const { store, plan, targetTime, archivedAt } = await prepare(source, jobId)
      target = targetTime
      const databases = plan.baseBackup.databases.map(({ name }) => name)
      progress('recovering', 0)
      await sweepRecoveries(place)
      await checkSpace(place, neededBytes(plan, databases))
      const { password } = address
      recovered = await recoverAside({
        place,
        store,
        plan,
        databases,
        password,
        settings: engine.extensionSettings,
        progress: count => progress('recovering', count),
      })
      bytes = await carryOver(address, recovered.address, control, { target, archivedAt })
    } finally {
      await engine.stop()
    }
    progress('exchanging the clusters', 0)
    exchangeClusters(place, { made: await recovered.keep(), kept })
    return { id: jobId, target_time: target, kept, bytes }
  } catch (error) {
    const state = existsSync(kept)
      ? 'The next start of the platform ends the cutover, which was interrupted'
      : 'The instance is unchanged, because the cutover has failed'
    throw new Error(`${state}: ${reasonOf(error as Error)}`, { cause: error })
  } finally {
    await recovered?.stop()
  }
}

/** In one line. The last lines of the log of Postgres are in the message. */
const reasonOf = (error: Error): string =>
  isOutage(error)
    ? 'Postgres was stopped or killed meanwhile. Run the command again.'
    : error.message.replaceAll(/\s*\n\s*/g, ' ')

/** What the recovered control database must know about the time since. Returns the size of all recovered databases. */
const carryOver = (
  from: ServerAddress,
  to: ServerAddress,
  control: string,
  { target, archivedAt }: { target: string; archivedAt: string },
): Promise<number> =>
  withClient(from, control, controlSettings, before =>
    withClient(to, control, controlSettings, async recovered => {
      await copyBackupRecords(before, recovered)
      await forgetRemovedBackups(before, recovered)
      await recordInstanceCutover(recovered, target)
      await noteRestorePoint(recovered, 'restore', null, archivedAt)
      return readServerBytes(recovered)
    }),
  )

interface Prepared {
  store: ArchiveStore
  plan: RecoveryPlan
  targetTime: string
  /** A time just before the cutover, which can be recovered later. */
  archivedAt: string
}

/** Everything is checked before the archive starts, which removes WAL from the spool that it has packed. */
async function prepare(
  { engine, address, pieces, deriveKey, control, progress }: Source,
  jobId: string,
): Promise<Prepared> {
  const job = await withClient(address, control, controlSettings, async session => {
    await checkSecret(session, deriveKey)
    return findJob(session, jobId)
  })
  if (!job) throw new Error(`There is no recovery ${jobId}; plinth pitr jobs shows the ids.`)
  if (job.status !== 'prepared')
    throw new Error(`The recovery ${jobId} is ${job.status}; only a prepared one can be cut over.`)
  const { target_time: targetTime } = job
  const store = await archiveStore({ address, place: engine.place, pieces, deriveKey })
  const planned = async () => {
    const catalogue = await readCatalogue(store)
    if (catalogue.baseBackups.length === 0)
      throw new Error(
        'There is no base backup where backups are stored. Set PLATFORM_BACKUP_DIR, or BACKUP_S3_BUCKET and its access, as for the platform.',
      )
    return planRecovery(catalogue, targetTime)
  }
  await planned()
  // The end of the WAL, because the cluster before is no part of the window afterwards.
  progress('archiving', 0)
  const archive = startWalArchive({ address, store, log: silent })
  const { at: archivedAt } = await archive
    .catchUp(AbortSignal.timeout(catchUpMs))
    .finally(() => archive.stop())
  return { store, plan: await planned(), targetTime, archivedAt }
}
