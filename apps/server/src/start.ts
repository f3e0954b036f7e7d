// Starts and stops the platform: embedded Postgres, app, HTTP server, start message.
import type { App } from '#src/app.ts'
import type { Config } from '#src/config.ts'
import { openDatabaseServer } from '#src/database-server.ts'
import { lockDataDirectory } from '#src/kernel/data-directory.ts'
import type { Log } from '#src/kernel/log.ts'
import { version } from '#src/kernel/version.ts'
import { nextCommand } from '#src/next-command.ts'
import { openServed } from '#src/served.ts'

export interface Platform {
  /** Undefined while the platform waits for the operator to upgrade it. */
  app(): App | undefined
  url: string
  /** A generated admin token that has not been shown to the operator yet. */
  newAdminToken: string | undefined
  markAdminTokenShown(): void
  secretsFile: string
  /** What the operator does next, as arguments of the command line. */
  nextCommand: string | null
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
    const database = await openDatabaseServer(config, directory, log)
    undo.push(database.stop)
    const { server, controlPlaneSecret, adminToken } = database
    const served = await openServed({ config, server, controlPlaneSecret, adminToken, log })
    undo.push(() => served.close())
    const url = await served.listen().catch(error => throwListenError(error, config))
    const next = await nextCommand(served.app())
    directory.writeRunningPlatform({
      pid: process.pid,
      url,
      version,
      started_at: new Date().toISOString(),
      next_command: next,
    })
    return {
      app: served.app,
      url,
      newAdminToken:
        database.isEmbedded && !directory.isAdminTokenShown && config.adminToken === undefined
          ? adminToken
          : undefined,
      markAdminTokenShown: () => directory.markAdminTokenShown(),
      secretsFile: directory.secretsFile,
      nextCommand: next,
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
