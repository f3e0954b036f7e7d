// The Postgres server of the platform: the embedded one, which this starts, or that of DATABASE_URL.
import type { Config } from '#src/config.ts'
import type { AppOptions } from '#src/infrastructure.ts'
import { randomToken } from '#src/kernel/crypto/keys.ts'
import type { DataDirectory } from '#src/kernel/data-directory.ts'
import type { Log } from '#src/kernel/log.ts'
import { startEngine } from '#src/kernel/postgres/engine/start.ts'
import { removeStrayDatabases } from '#src/kernel/postgres/engine/stray-databases.ts'

export interface DatabaseServer {
  server: AppOptions['server']
  controlPlaneSecret: string
  adminToken: string | undefined
  /** Whether the secrets are those of the data directory. */
  isEmbedded: boolean
  stop(): Promise<void>
}

export async function openDatabaseServer(
  config: Config,
  directory: DataDirectory,
  log: Log,
): Promise<DatabaseServer> {
  const { external, adminToken } = config
  if (external)
    return {
      server: { address: external.address, control: external.database },
      controlPlaneSecret: config.controlPlaneSecret!,
      adminToken,
      isEmbedded: false,
      stop: async () => {},
    }
  const generated = directory.secrets(randomToken)
  const engine = await startEngine({
    dataDir: config.dataDir,
    superuserPassword: generated.POSTGRES_PASSWORD,
    extensionDir: config.extensionDir,
    log,
  })
  const { socketDir: host, port, user, clusterDir } = engine
  const address = { host, port, user, password: generated.POSTGRES_PASSWORD, tls: undefined }
  await removeStrayDatabases(clusterDir, address, log).catch(error =>
    log.warn({ err: error }, 'could not look for files of databases that were never completed'),
  )
  return {
    server: {
      address,
      control: 'plinth',
      clusterDir,
      embedded: { place: engine.place, settings: engine.extensionSettings },
      warnings: engine.warnings,
    },
    controlPlaneSecret: config.controlPlaneSecret ?? generated.CONTROL_PLANE_SECRET,
    adminToken: adminToken ?? generated.PLATFORM_ADMIN_TOKEN,
    isEmbedded: true,
    stop: () => engine.stop(),
  }
}
