// What the process does: run the platform, or one of the two things done beside it.
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { ConfigError, readConfig, readEnvironment } from '#src/config.ts'
import { isDataDirectory, isTaken } from '#src/kernel/data-directory.ts'
import { createLog, type Log, terminalLines } from '#src/kernel/log.ts'
import { clearLeftovers } from '#src/kernel/postgres/engine/leftovers.ts'
import { engineFiles, locate } from '#src/kernel/postgres/engine/place.ts'
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
      greet(await starting)
    } else if (command === 'bootstrap') {
      const { bootstrap } = await import('#src/bootstrap.ts')
      print(await bootstrap(config, rest, environment['PLATFORM_BOOTSTRAP_PASSWORD']))
    } else if (command === 'remove-data') print(await removeData(config.dataDir))
    else throw new ConfigError(`There is no command "${command}"; run without one to start the platform.`)
  } catch (error) {
    process.stderr.write(`${sentence(error)}\n`)
    process.exitCode = 1
  }
}

const print = (line: string) => void process.stdout.write(`${line}\n`)

function greet({ url, newAdminToken, noteTold, secretsFile }: Platform): void {
  const token = !newAdminToken
    ? []
    : process.stdout.isTTY
      ? ['', 'Admin token, shown this once:', `  ${newAdminToken}`, `It is kept in ${secretsFile}.`]
      : [`The admin token is in ${secretsFile}.`]
  const lines = [`Plinth is running at ${url}`, ...token, 'Next: npx plinth projects create my-app']
  // Beside a log of JSON lines these would be in the way.
  const stream = process.stdout.isTTY ? process.stdout : process.stderr
  stream.write(`${lines.join('\n')}\n`)
  if (newAdminToken) noteTold()
}

/** Told to stop while it starts, the platform finishes starting first: nothing is left half-made or running. */
function stopOnSignal(starting: Promise<Platform>, log: Log): void {
  let isStopping = false
  const stop = (signal: string) => {
    if (isStopping) return
    isStopping = true
    log.info({ signal }, 'stopping')
    starting
      .catch(() => undefined) // it said why, and has undone what it did
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
  const fall = (error: unknown) => {
    log.fatal({ err: error }, 'stopping after an error nobody handled')
    process.exitCode = 1
    stop('error')
  }
  process.on('uncaughtException', fall)
  process.on('unhandledRejection', fall)
}

async function removeData(dataDir: string): Promise<string> {
  if (isTaken(dataDir)) throw new ConfigError(`The platform still runs on ${dataDir}; stop it first.`)
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0 && !isDataDirectory(dataDir))
    throw new ConfigError(`${dataDir} is not a data directory of the platform; nothing was removed.`)
  const { remove } = engineFiles(dataDir)
  const { clusterDir, socketDir } = locate(dataDir)
  if (existsSync(clusterDir) && existsSync(socketDir)) await clearLeftovers(clusterDir, socketDir)
  for (const path of remove) rmSync(path, { recursive: true, force: true })
  return JSON.stringify({ removed: remove })
}

/** What an operator can put right reads as one sentence; anything else shows where it came from. */
function sentence(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: unknown }
  const isOurs =
    error instanceof ConfigError || error.name === 'Error' || String(code).startsWith('ERR_PARSE_ARGS')
  return isOurs ? error.message : (error.stack ?? error.message)
}
