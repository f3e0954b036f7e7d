// From configuration to a platform that listens, and back: the engine, the app, and what the operator is told.
import { type App, createApp } from '#src/app.ts'
import type { Config } from '#src/config.ts'
import { randomToken } from '#src/kernel/crypto/keys.ts'
import { takeDataDirectory } from '#src/kernel/data-directory.ts'
import type { Log } from '#src/kernel/log.ts'
import { startEngine } from '#src/kernel/postgres/engine/start.ts'
import { version } from '#src/kernel/version.ts'

export interface Platform {
  app: App
  url: string
  /** Set when this start generated the admin token. */
  newAdminToken: string | undefined
  secretsFile: string
  stop(): Promise<void>
}

export async function startPlatform(config: Config, log: Log): Promise<Platform> {
  const directory = takeDataDirectory(config.dataDir)
  const undo: (() => Promise<void> | void)[] = [() => directory.release()]
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    const made = config.external ? undefined : directory.secrets(randomToken)
    const controlPlaneSecret = config.controlPlaneSecret ?? made!.secrets.CONTROL_PLANE_SECRET
    const adminToken = config.adminToken ?? made?.secrets.PLATFORM_ADMIN_TOKEN
    const engine =
      made &&
      (await startEngine({ dataDir: config.dataDir, superuserPassword: made.secrets.POSTGRES_PASSWORD, log }))
    if (engine) undo.push(() => engine.stop())
    const server = engine
      ? {
          address: {
            host: engine.socketDir,
            port: engine.port,
            user: engine.user,
            password: made.secrets.POSTGRES_PASSWORD,
            tls: undefined,
          },
          control: 'plinth',
        }
      : { address: config.external!.address, control: config.external!.database }
    const app = await createApp({ config, server, controlPlaneSecret, adminToken, log })
    undo.push(() => app.close())
    const url = await app.listen()
    directory.announce({ pid: process.pid, url, version, started_at: new Date().toISOString() })
    return {
      app,
      url,
      newAdminToken: made?.isNew && config.adminToken === undefined ? adminToken : undefined,
      secretsFile: directory.secretsFile,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
