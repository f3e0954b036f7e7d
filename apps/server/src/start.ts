// Starts and stops the platform: embedded Postgres, app, HTTP server, start message.
import { type App, createApp } from '#src/app.ts'
import type { Config } from '#src/config.ts'
import { randomToken } from '#src/kernel/crypto/keys.ts'
import { lockDataDirectory } from '#src/kernel/data-directory.ts'
import type { Log } from '#src/kernel/log.ts'
import { startEngine } from '#src/kernel/postgres/engine/start.ts'
import { version } from '#src/kernel/version.ts'

export interface Platform {
  app: App
  url: string
  /** A generated admin token that has not been shown to the operator yet. */
  newAdminToken: string | undefined
  markAdminTokenShown(): void
  secretsFile: string
  stop(): Promise<void>
}

export async function startPlatform(config: Config, log: Log): Promise<Platform> {
  const directory = lockDataDirectory(config.dataDir)
  const undo: (() => Promise<void> | void)[] = [() => directory.release()]
  /** Runs every step even if one fails. A pool that does not close must not keep Postgres running. */
  const stop = async () => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).reverse())
      try {
        await step()
      } catch (error) {
        failures.push(error)
      }
    if (failures.length > 0) throw failures[0]
  }
  try {
    const generated = config.external ? undefined : directory.secrets(randomToken)
    const controlPlaneSecret = config.controlPlaneSecret ?? generated!.CONTROL_PLANE_SECRET
    const adminToken = config.adminToken ?? generated?.PLATFORM_ADMIN_TOKEN
    const engine =
      generated &&
      (await startEngine({
        dataDir: config.dataDir,
        superuserPassword: generated.POSTGRES_PASSWORD,
        extensionDir: config.extensionDir,
        log,
      }))
    if (engine) undo.push(() => engine.stop())
    const server = engine
      ? {
          address: {
            host: engine.socketDir,
            port: engine.port,
            user: engine.user,
            password: generated.POSTGRES_PASSWORD,
            tls: undefined,
          },
          control: 'plinth',
          clusterDir: engine.clusterDir,
          warnings: engine.warnings,
        }
      : { address: config.external!.address, control: config.external!.database }
    const app = await createApp({ config, server, controlPlaneSecret, adminToken, log })
    undo.push(() => app.close())
    const url = await app.listen().catch(error => throwListenError(error, config))
    directory.writeRunningPlatform({ pid: process.pid, url, version, started_at: new Date().toISOString() })
    return {
      app,
      url,
      newAdminToken:
        generated && !directory.isAdminTokenShown && config.adminToken === undefined ? adminToken : undefined,
      markAdminTokenShown: () => directory.markAdminTokenShown(),
      secretsFile: directory.secretsFile,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function throwListenError(error: NodeJS.ErrnoException, { host, port }: Config): never {
  switch (error.code) {
    case 'EADDRINUSE':
      throw new Error(
        `Port ${port} on ${host} is taken; stop the program that listens there or set PLATFORM_PORT to another.`,
      )
    case 'EACCES':
      throw new Error(
        `Port ${port} needs more rights than this user has; set PLATFORM_PORT to one above 1023.`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      throw new Error(`PLATFORM_HOST ${host} is not an address of this machine.`)
    default:
      throw error
  }
}
