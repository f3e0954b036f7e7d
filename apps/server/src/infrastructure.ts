// The infrastructure of all services: cluster, control database, project databases, credentials, object store.
import { join } from 'node:path'
import { controlBackups } from '#src/archive/control-backup.ts'
import type { Config } from '#src/config.ts'
import { createHashingLimiter } from '#src/kernel/crypto/hashing-limiter.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createPasswords } from '#src/kernel/crypto/password.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import { freeBytes } from '#src/kernel/disk-space.ts'
import { createRateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Log } from '#src/kernel/log.ts'
import { createMetrics, poolMetrics } from '#src/kernel/metrics.ts'
import { openBackupPieces, openPieces } from '#src/kernel/objects/open-pieces.ts'
import type { S3Timeouts } from '#src/kernel/objects/s3.ts'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { watchAbandoned } from '#src/kernel/postgres/abandoned.ts'
import { openDatabase } from '#src/kernel/postgres/database.ts'
import type { Place as EnginePlace } from '#src/kernel/postgres/engine/place.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { createProcessMetrics } from '#src/kernel/process-metrics.ts'
import { createCredentials } from '#src/planes/management/admit.ts'
import { createOwnerWork } from '#src/planes/management/owner-work.ts'
import { backUpBeforeMigration } from '#src/services/upgrade/control-migration.ts'
import { controlSettings, prepareCluster } from '#src/tenancy/cluster.ts'
import { createDatabaseSizes, megabyte } from '#src/tenancy/database-sizes.ts'
import { openDatabases } from '#src/tenancy/databases.ts'
import { openDirectory } from '#src/tenancy/directory.ts'
import { type Place, startDiskReserve } from '#src/tenancy/disk-reserve.ts'
import { heldDatabases } from '#src/tenancy/held-databases.ts'
import { createLifecycle } from '#src/tenancy/lifecycle.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createOutbox } from '#src/tenancy/outbox.ts'
import { createProjectData } from '#src/tenancy/project-data.ts'
import { grantsOf, type ProjectGrants } from '#src/tenancy/project-grants.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { createRequestHolds } from '#src/tenancy/request-holds.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'
import { createShadowDatabases } from '#src/tenancy/shadow-database.ts'
import { createSigningKeys } from '#src/tenancy/signing-keys.ts'
import { createSpaceCheck } from '#src/tenancy/space-check.ts'
import { upgradedDatabases } from '#src/tenancy/upgraded-databases.ts'
import { openUpgrades } from '#src/tenancy/upgrades.ts'
import { startWatchdog } from '#src/tenancy/watchdog.ts'

export interface AppOptions {
  config: Config
  server: {
    address: ServerAddress
    control: string
    /** The data directory of a local Postgres. */
    clusterDir?: string
    /** The embedded Postgres: its place, and its settings besides the usual ones. */
    embedded?: { place: EnginePlace; settings: Record<string, string> }
    /** Warnings about the embedded Postgres, as sentences. */
    warnings?(): readonly string[]
  }
  controlPlaneSecret: string
  adminToken: string | undefined
  log: Log
  /** The cost of bcrypt for passwords of users, for tests; see kernel/crypto/password.ts. */
  bcryptCost?: number
  /** For how long the copy of a branch may hold the requests of its parent, for tests; see tenancy/template-copy.ts. */
  branchHoldMs?: number
  /** When a request to S3 has failed, for tests; see kernel/objects/s3.ts. */
  s3Timeouts?: S3Timeouts
  /** Whether requests are in the logs of projects, by default true; for benchmarks. */
  accessLog?: boolean
}

export type Closing = () => Promise<void> | void

/** Closes all, even if one fails. */
export async function closeAll(open: Closing[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of open.splice(0).reverse())
    await Promise.resolve(close()).catch(error => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

export async function openInfrastructure(
  { config, server, controlPlaneSecret, adminToken, log, s3Timeouts }: AppOptions,
  open: Closing[],
  projectGrants: readonly ProjectGrants[],
) {
  const deriveKey = keyring(controlPlaneSecret)
  const sealer = createSealer(deriveKey('sealed'))
  const backupPieces = await openBackupPieces(config, s3Timeouts)
  open.push(() => backupPieces.close())
  const ofControl = controlBackups(backupPieces, deriveKey, log)
  const backUp = backUpBeforeMigration(ofControl, deriveKey, config.dataDir)
  const cluster = await prepareCluster(server.address, server.control, backUp)
  const control = openDatabase(server.address, server.control, controlSettings, error =>
    log.warn({ err: error }, 'lost a connection to the control database'),
  )
  open.push(() => control.close())
  await checkSecret(control, deriveKey)

  const logins = createLogins(server.address, deriveKey)
  const pieces = await openPieces(config, s3Timeouts)
  open.push(() => pieces.close())
  const grants = grantsOf(projectGrants)
  const provisioner = createProvisioner(control, cluster, logins, grants)
  const lifecycle = createLifecycle(control, cluster, provisioner, log)
  open.push(() => lifecycle.close())
  const upgrades = await openUpgrades({ control, cluster, provisioner, log })
  open.push(() => upgrades.close())

  const directory = await openDirectory(control, server, sealer, log)
  open.push(() => directory.close())
  const abandoned = watchAbandoned(control, log, server.clusterDir !== undefined)
  open.push(() => abandoned.close())
  const holds = createRequestHolds()
  const direct = openDatabases({
    control,
    logins,
    abandoned,
    poolSize: config.poolSize,
    maxConnections: config.maxConnections,
    statementTimeoutMs: config.statementTimeoutMs,
  })
  const databases = upgradedDatabases(heldDatabases(direct, holds), upgrades.whenUpgraded)
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
  }

  const metrics = createMetrics(control, log)
  const processMetrics = createProcessMetrics()
  open.push(() => processMetrics.close())
  const outbox = createOutbox({ control, databases, directory, log })
  open.push(() => outbox.close())
  metrics.add([
    ...processMetrics.metrics,
    ...poolMetrics('control', control.use),
    ...poolMetrics('projects', databases.use),
    ...outbox.metrics,
  ])
  const shadows = createShadowDatabases(control, cluster, logins, abandoned, grants)
  open.push(() => shadows.close())
  const hashingLimiter = createHashingLimiter()
  let baseUrl = config.baseUrl ?? ''

  return {
    log,
    dataDir: config.dataDir,
    clusterDir: server.clusterDir,
    deriveKey,
    sealer,
    cluster,
    control,
    logins,
    pieces,
    backupPieces,
    lifecycle,
    provisioner,
    projectData: createProjectData(),
    upgrades,
    controlBackups: ofControl,
    directory,
    signingKeys: createSigningKeys(control, directory, sealer),
    databases,
    holds,
    abandoned,
    spaceCheck: createSpaceCheck(databaseSizes, diskReserve),
    /**
     * Bytes that a copy may take of the disk of the databases: what is free beyond the reserve. Undefined for an external
     * Postgres, whose disk is not known.
     */
    freeForDatabases: async () =>
      server.clusterDir === undefined
        ? undefined
        : Math.max(0, (await freeBytes(server.clusterDir)) - config.diskReserveMb * megabyte),
    outbox,
    metrics,
    shadows,
    owner: createOwnerWork(directory, databases),
    credentials: createCredentials(control, deriveKey, adminToken),
    connector: createConnector({ allow: config.outboundAllow }),
    windows: createRateWindows(),
    hashingLimiter,
    passwords: createPasswords(hashingLimiter),
    baseUrl: () => baseUrl,
    /** Sets the public URL if none is configured. */
    listensAt(url: string) {
      baseUrl ||= url
    },
    warnings: () => [
      ...(server.warnings?.() ?? []),
      ...[watchdog, abandoned, diskReserve, upgrades].flatMap(part => part.warnings()),
    ],
  }
}

/** Directories on this machine that store project data. The disk of an external Postgres is not known. */
const placesOf = ({ dataDir, s3 }: Config, clusterDir: string | undefined): Place[] => [
  ...(clusterDir === undefined
    ? []
    : // The WAL of Postgres may be on a separate disk.
      [clusterDir, join(clusterDir, 'pg_wal')].map(path => ({ what: 'database' as const, path }))),
  ...(s3 ? [] : [{ what: 'files' as const, path: dataDir }]),
]
