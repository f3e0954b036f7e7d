// The commands of the process: start the platform, bootstrap, pitr-cutover, pitr-recover-instance, restore-control,
// remove-data.
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { readConfig, readEnvironment } from '#src/config.ts'
import { ConfigError } from '#src/config-error.ts'
import { isDataDirectory, isDataDirectoryLocked } from '#src/kernel/data-directory.ts'
import { createLog, type Log, terminalLines } from '#src/kernel/log.ts'
import { clearLeftovers } from '#src/kernel/postgres/engine/leftovers.ts'
import { engineFiles, locate } from '#src/kernel/postgres/engine/place.ts'
import { functionDirs } from '#src/services/functions/place.ts'
import { type Platform, startPlatform } from '#src/start.ts'

export async function run(args: string[]): Promise<void> {
  const [command, ...rest] = args
  try {
    const environment = readEnvironment()
    const config = readConfig(environment)
    if (command === undefined) {
      const output = process.stdout.isTTY ? terminalLines(line => process.stdout.write(line)) : undefined
      const log = createLog(config.logLevel, output)
      const starting = startPlatform(config, log)
      stopOnSignal(starting, log)
      printStartMessage(await starting)
    } else if (command === 'bootstrap') {
      const { bootstrap } = await import('#src/bootstrap.ts')
      print(await bootstrap(config, rest, environment['PLATFORM_BOOTSTRAP_PASSWORD']))
    } else if (command === 'restore-control') {
      const { restoreControlDatabase } = await import('#src/restore-control.ts')
      print(await restoreControlDatabase(config, rest))
    } else if (command === 'pitr-cutover') {
      const { pitrCutover } = await import('#src/pitr-cutover.ts')
      print(await pitrCutover(config, rest))
    } else if (command === 'pitr-recover-instance') {
      const { recoverInstance } = await import('#src/pitr-recover-instance.ts')
      print(await recoverInstance(config, rest))
    } else if (command === 'remove-data') print(await removeData(config.dataDir))
    else throw new ConfigError(`There is no command "${command}"; run without one to start the platform.`)
  } catch (error) {
    process.stderr.write(`${errorText(error)}\n`)
    process.exitCode = 1
  }
}

const print = (line: string) => void process.stdout.write(`${line}\n`)

function printStartMessage(platform: Platform): void {
  const { url, newAdminToken, markAdminTokenShown, secretsFile, nextCommand } = platform
  const token = !newAdminToken
    ? []
    : process.stdout.isTTY
      ? ['', 'Admin token, shown this once:', `  ${newAdminToken}`, `It is kept in ${secretsFile}.`]
      : [`The admin token is in ${secretsFile}.`]
  const next = nextCommand === null ? [] : [`Next: npx plinth ${nextCommand}`]
  const lines = [`Plinth is running at ${url}`, ...token, ...next]
  // Plain text would break a log of JSON lines.
  const stream = process.stdout.isTTY ? process.stdout : process.stderr
  stream.write(`${lines.join('\n')}\n`)
  if (newAdminToken) markAdminTokenShown()
}

/** A signal during the start takes effect after it, so that nothing is left incomplete or running. */
function stopOnSignal(starting: Promise<Platform>, log: Log): void {
  let isStopping = false
  const stop = (signal: string) => {
    if (isStopping) return
    isStopping = true
    log.info({ signal }, 'stopping')
    starting
      .catch(() => undefined) // the start has logged the error and cleaned up
      .then(platform => platform?.stop())
      .then(
        () => log.info({}, 'stopped'),
        error => {
          log.fatal({ err: error }, 'could not stop cleanly')
          process.exitCode = 1
        },
      )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  const stopAfterError = (error: unknown) => {
    log.fatal({ err: error }, 'stopping after an unhandled error')
    process.exitCode = 1
    stop('error')
  }
  process.on('uncaughtException', stopAfterError)
  process.on('unhandledRejection', stopAfterError)
}

async function removeData(dataDir: string): Promise<string> {
  if (isDataDirectoryLocked(dataDir))
    throw new ConfigError(`The platform still runs on ${dataDir}; stop it first.`)
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0 && !isDataDirectory(dataDir))
    throw new ConfigError(`${dataDir} is not a data directory of the platform; nothing was removed.`)
  const { remove } = engineFiles(dataDir)
  const { clusterDir, socketDir } = locate(dataDir)
  if (existsSync(clusterDir) && existsSync(socketDir)) await clearLeftovers(clusterDir, socketDir)
  // They may be elsewhere, with the code of functions in plain text.
  const ofFunctions = Object.values(functionDirs(dataDir)).filter(
    path => existsSync(path) && !remove.some(each => `${path}/`.startsWith(`${each}/`)),
  )
  const removed = [...remove, ...ofFunctions]
  for (const path of removed) rmSync(path, { recursive: true, force: true })
  return JSON.stringify({ removed })
}

/** Errors that the operator can fix are printed as one sentence, others with their stack. */
function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: unknown }
  const isOurs =
    error instanceof ConfigError || error.name === 'Error' || String(code).startsWith('ERR_PARSE_ARGS')
  return isOurs ? error.message : (error.stack ?? error.message)
}
