// Recovers the whole instance into an empty data directory, after the loss of its disk: from the archive and
// CONTROL_PLANE_SECRET alone. Files of projects are not in the archive.
import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Watching } from '#src/archive/write-database.ts'
import type { Config } from '#src/config.ts'
import { ConfigError } from '#src/config-error.ts'
import { openHostProgress } from '#src/host-progress.ts'
import { keyring, randomToken } from '#src/kernel/crypto/keys.ts'
import { type DataDirectory, lockDataDirectory, storedSecrets } from '#src/kernel/data-directory.ts'
import { freeBytes } from '#src/kernel/disk-space.ts'
import { openBackupPieces } from '#src/kernel/objects/open-pieces.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { finishExchange, placeCluster } from '#src/kernel/postgres/engine/cluster-exchange.ts'
import { extensionSettings } from '#src/kernel/postgres/engine/extensions.ts'
import { locate, type Place, preparePlace } from '#src/kernel/postgres/engine/place.ts'
import type { ArchiveStore } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { systemIds } from '#src/kernel/postgres/recovery/archived-segments.ts'
import {
  planLatest,
  planRecovery,
  type RecoveryPlan,
  type RecoveryWindow,
  readCatalogue,
  recoveryWindows,
  UnreachableTarget,
} from '#src/kernel/postgres/recovery/catalogue.ts'
import { neededBytes, recoverAside, sweepRecoveries } from '#src/kernel/postgres/recovery/recovery.ts'
import { forgetSpool, restoreSpool } from '#src/kernel/postgres/recovery/wal-tail.ts'
import { literal } from '#src/kernel/postgres/sql.ts'
import { archiveStoreOf } from '#src/services/pitr/archive.ts'
import { insertAudit, readServerBytes } from '#src/services/pitr/store.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'

const control = 'plinth'

export async function recoverInstance(config: Config, args: string[]): Promise<string> {
  const { values } = parseArgs({
    args,
    options: {
      'target-time': { type: 'string' },
      system: { type: 'string' },
      progress: { type: 'boolean' },
    },
  })
  if (config.external)
    throw new ConfigError('Recovery to a time is for the embedded database, and DATABASE_URL is set.')
  const { add } = openHostProgress(values.progress === true)
  const directory = lockDataDirectory(config.dataDir)
  try {
    const place = locate(config.dataDir)
    preparePlace(place)
    finishExchange(place)
    if (existsSync(place.clusterDir))
      throw new ConfigError(
        `${place.clusterDir} exists. This command is for an empty data directory; plinth pitr cutover --instance recovers a database that is there.`,
      )
    const secret = config.controlPlaneSecret ?? storedSecrets(config.dataDir).CONTROL_PLANE_SECRET
    if (secret === undefined)
      throw new ConfigError(
        'Set CONTROL_PLANE_SECRET to that of the lost instance. The archive is encrypted with it.',
      )
    const pieces = await openBackupPieces(config)
    try {
      add('reading the archive', 0)
      const system = await chooseSystem(pieces, values.system)
      const store = archiveStoreOf({ place, pieces, deriveKey: keyring(secret) }, system)
      await checkBaseBackups(store)
      const { made, damaged } = await restoreSpool(store)
      try {
        const plan = await planOf(store, values['target-time'], damaged)
        const bytes = await recover(config, directory, place, { store, plan }, add)
        return JSON.stringify({ system, target_time: plan.target ?? null, window: plan.window, bytes })
      } catch (error) {
        // Otherwise the next start archives it.
        if (!existsSync(place.clusterDir)) await forgetSpool(store, made)
        throw error
      }
    } finally {
      await pieces.close()
    }
  } finally {
    directory.release()
  }
}

async function chooseSystem(pieces: Pieces, wanted: string | undefined): Promise<string> {
  const found = await systemIds(pieces)
  if (wanted !== undefined && found.includes(wanted)) return wanted
  if (wanted === undefined && found.length === 1) return found[0]!
  if (found.length === 0)
    throw new ConfigError(
      'There is no archive for recovery to a time where backups are. Set PLATFORM_BACKUP_DIR or BACKUP_S3_BUCKET as for the lost instance.',
    )
  throw new ConfigError(`Choose one of the archives that are there with --system: ${found.join(', ')}.`)
}

async function checkBaseBackups(store: ArchiveStore): Promise<void> {
  const { baseBackups, damaged } = await readCatalogue(store)
  if (baseBackups.length === 0 && damaged.length > 0)
    throw new ConfigError(
      'The base backups cannot be read: they are damaged, or CONTROL_PLANE_SECRET is not that of the lost instance.',
    )
}

/** Without the damaged pieces the latest commits would be missing, and nobody would know. */
async function planOf(
  store: ArchiveStore,
  target: string | undefined,
  damaged: readonly string[],
): Promise<RecoveryPlan> {
  const catalogue = await readCatalogue(store)
  const refuse = (message: string, windows: readonly RecoveryWindow[]) => {
    const times = windows.map(({ from, to }) => `${from} to ${to}`).join(', ') || 'none'
    const damage =
      damaged.length > 0
        ? ` The latest WAL is damaged in ${damaged.join(', ')}: recover to a time before it with --target-time, or move these pieces away and lose what comes after them.`
        : ''
    return new ConfigError(`${message}${damage} Times that can be recovered: ${times}.`)
  }
  if (target === undefined && damaged.length > 0)
    throw refuse('The latest commit cannot be recovered.', recoveryWindows(catalogue))
  try {
    return target === undefined ? planLatest(catalogue) : planRecovery(catalogue, target)
  } catch (error) {
    if (!(error instanceof UnreachableTarget)) throw error
    throw refuse(error.message, error.windows)
  }
}

/** The data directory has a cluster afterwards, or is as before. Returns the bytes of its databases. */
async function recover(
  config: Config,
  directory: DataDirectory,
  place: Place,
  { store, plan }: { store: ArchiveStore; plan: RecoveryPlan },
  progress: Watching['progress'],
): Promise<number> {
  const databases = plan.baseBackup.databases.map(({ name }) => name)
  progress('recovering', 0)
  await sweepRecoveries(place)
  if ((await freeBytes(place.home)) < neededBytes(plan, databases))
    throw new Error(`There is too little space for the database in ${place.home}.`)
  const settings = extensionSettings(config.extensionDir, place.user)
  const recovered = await recoverAside({
    place,
    store,
    plan,
    databases,
    password: undefined,
    settings,
    progress: count => progress('recovering', count),
  })
  try {
    // The one before is lost with the data directory.
    const { POSTGRES_PASSWORD: password } = directory.secrets(randomToken)
    await withClient(recovered.address, 'postgres', guardedSettings, session =>
      session.script(`alter role postgres password ${literal(password)}`),
    )
    await withClient(recovered.address, control, controlSettings, session =>
      insertAudit(session, 'pitr.instance_recovered', plan.target ?? plan.window.to, null),
    )
    const bytes = await withClient(recovered.address, 'postgres', guardedSettings, readServerBytes)
    placeCluster(place, await recovered.keep())
    return bytes
  } finally {
    await recovered.stop()
  }
}
