// What every service stands on: the cluster, the control database, the projects in both, and where files lie.
import { join } from 'node:path'
import type { Config } from '#src/config.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import { openPieces } from '#src/kernel/objects/open-pieces.ts'
import { watchAbandoned } from '#src/kernel/postgres/abandoned.ts'
import { openDatabase } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { openCacheEngine } from '#src/services/cache/open-engine.ts'
import { filesOfProjects } from '#src/services/storage/attachment.ts'
import { controlSettings, prepareCluster } from '#src/tenancy/cluster.ts'
import { createDatabaseSizes } from '#src/tenancy/database-sizes.ts'
import { openDatabases } from '#src/tenancy/databases.ts'
import { openDirectory } from '#src/tenancy/directory.ts'
import { type Place, startDiskReserve } from '#src/tenancy/disk-reserve.ts'
import { createLifecycle } from '#src/tenancy/lifecycle.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { createRoom } from '#src/tenancy/room.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'
import { upgradedDatabases } from '#src/tenancy/upgraded-databases.ts'
import { openUpgrades } from '#src/tenancy/upgrades.ts'
import { startWatchdog } from '#src/tenancy/watchdog.ts'

export interface AppOptions {
  config: Config
  server: {
    address: ServerAddress
    control: string
    /** The data directory of a Postgres on this machine. */
    clusterDir?: string
  }
  controlPlaneSecret: string
  adminToken: string | undefined
  log: Log
}

export type Closing = () => Promise<void> | void

/** Everything is closed, whatever became of the one before. */
export async function closeAll(open: Closing[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of open.splice(0).reverse())
    await Promise.resolve(close()).catch(error => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

export async function openGround({ config, server, controlPlaneSecret, log }: AppOptions, open: Closing[]) {
  const deriveKey = keyring(controlPlaneSecret)
  const sealer = createSealer(deriveKey('sealed'))
  const cluster = await prepareCluster(server.address, server.control)
  const control = openDatabase(server.address, server.control, controlSettings, error =>
    log.warn({ err: error }, 'a connection to the control database broke'),
  )
  open.push(() => control.close())
  await checkSecret(control, deriveKey)

  const logins = createLogins(server.address, deriveKey)
  const cacheEngine = await openCacheEngine({
    redisUrl: config.redisUrl,
    server,
    deriveKey,
    isThere: async id => (await directory.find(id)) !== undefined,
    log,
  })
  open.push(() => cacheEngine.close())
  const pieces = await openPieces(config)
  open.push(() => pieces.close())
  const provisioner = createProvisioner(control, cluster, logins)
  const lifecycle = createLifecycle(control, cluster, provisioner, log, [
    cacheEngine,
    filesOfProjects(control, pieces),
  ])
  open.push(() => lifecycle.close())
  const upgrades = await openUpgrades({ control, provisioner, version: cluster.projectVersion, log })
  open.push(() => upgrades.close())

  const directory = await openDirectory(control, server, sealer, log)
  open.push(() => directory.close())
  const abandoned = watchAbandoned(control, log, server.clusterDir !== undefined)
  open.push(() => abandoned.close())
  const direct = openDatabases({
    control,
    logins,
    abandoned,
    poolSize: config.poolSize,
    maxConnections: config.maxConnections,
    statementTimeoutMs: config.statementTimeoutMs,
  })
  const databases = upgradedDatabases(direct, upgrades.whenUpgraded)
  open.push(() => databases.close())
  directory.onChange(id => void disconnectUnserved(id))
  const databaseSizes = createDatabaseSizes(log)
  directory.onChange(() => databaseSizes.changed())
  const diskReserve = await startDiskReserve({
    places: placesOf(config, server.clusterDir),
    reserveMb: config.diskReserveMb,
    log,
  })
  open.push(() => diskReserve.close())
  const watchdog = startWatchdog(server.address, server.control, config.statementTimeoutMs.others, log, [
    databaseSizes,
    diskReserve,
  ])
  open.push(() => watchdog.close())

  async function disconnectUnserved(id: string): Promise<void> {
    const tenant = await directory.read(id).catch(() => undefined)
    if (tenant?.status !== 'active') databases.disconnect(id)
    if (!tenant) upgrades.recheck(id)
    cacheEngine.changed(id, tenant)
  }

  return {
    deriveKey,
    sealer,
    cluster,
    control,
    logins,
    cacheEngine,
    pieces,
    lifecycle,
    upgrades,
    directory,
    databases,
    abandoned,
    watchdog,
    diskReserve,
    room: createRoom(databaseSizes, diskReserve),
  }
}

/** Where projects take up disk space of this machine, as far as it can be known: not that of another server's Postgres. */
const placesOf = ({ dataDir, s3 }: Config, clusterDir: string | undefined): Place[] => [
  ...(clusterDir === undefined
    ? []
    : // The log of Postgres may be on a disk of its own.
      [clusterDir, join(clusterDir, 'pg_wal')].map(path => ({ what: 'database' as const, path }))),
  ...(s3 ? [] : [{ what: 'files' as const, path: dataDir }]),
]
