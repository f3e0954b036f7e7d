import { isAbsolute } from 'node:path'
import type { LaunchedChild } from '#src/kernel/child-processes/launch.ts'
import { type Supervisor, supervise } from '#src/kernel/child-processes/supervise.ts'
import { packagedBinaries, usableBinaries } from './binaries.ts'
import { makeCluster } from './cluster.ts'
import { finishExchange } from './cluster-exchange.ts'
import { extensionSettings } from './extensions.ts'
import { clearLeftovers } from './leftovers.ts'
import { locate, type Place, prepareDataDir, preparePlace } from './place.ts'
import { isFree, randomPort, rememberedPort, rememberPort } from './port.ts'
import { launchPostmaster } from './postmaster.ts'
import { engineSettings } from './settings.ts'

export interface EngineLog {
  info(o: object, msg: string): void
  warn(o: object, msg: string): void
  error(o: object, msg: string): void
}

export interface EngineOptions {
  /** The absolute path of the platform's data directory, which is created if missing. */
  dataDir: string
  superuserPassword: string
  /** A directory with further extensions: control and SQL files in `extension`, libraries in `lib`. */
  extensionDir?: string | undefined
  /** Further settings of Postgres, which override ours. */
  settings?: Record<string, string>
  /** The pause before each consecutive restart of a Postgres that has ended by itself. */
  restartPausesMs?: readonly number[]
  log: EngineLog
}

export interface Engine {
  /** For `host`: the directory of the unix socket. */
  socketDir: string
  host: '127.0.0.1'
  /** The TCP port, also in the name of the unix socket. A restart keeps it unless another program uses it. */
  port: number
  /** The superuser. */
  user: string
  clusterDir: string
  place: Place
  extensionSettings: Record<string, string>
  /** Sentences for the operator. */
  warnings(): readonly string[]
  stop(): Promise<void>
}

const portTries = 5

/** Starts the embedded Postgres of a data directory, creates its cluster if missing, and keeps it running until `stop`. */
export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { dataDir, superuserPassword, log } = options
  if (!isAbsolute(dataDir)) throw new Error(`the data directory must be an absolute path, not ${dataDir}`)
  const since = performance.now()
  prepareDataDir(dataDir)
  const place = locate(dataDir)
  const extensions = extensionSettings(options.extensionDir, place.user)
  preparePlace(place)
  finishExchange(place)
  const { clusterDir, socketDir } = place

  // Before a port is chosen, because an orphaned Postgres still uses the remembered one.
  const hadOrphan = await clearLeftovers(clusterDir, socketDir)
  if (hadOrphan) log.warn({ clusterDir }, 'stopped the database that an earlier, killed process left running')
  const native = await usableBinaries(packagedBinaries(), place)
  const isNew = await makeCluster(place, native, superuserPassword)

  const settings = { ...engineSettings, ...extensions, ...options.settings }
  const launch = (port: number, stopping = new AbortController().signal) =>
    launchPostmaster({ place, native, port, settings, stopping })
  const { port, postmaster } = await launchOnFreePort(dataDir, launch)
  rememberPort(dataDir, port)
  log.info({ clusterDir, port, isNew, ms: Math.round(performance.now() - since) }, 'the database is running')

  const supervisor = supervise(postmaster, {
    ...(options.restartPausesMs && { backoffMs: options.restartPausesMs }),
    async restart(stopping) {
      const restarted = await launch(port, stopping)
      if (!restarted) throw new PortTaken()
      return restarted
    },
    onExit: how => log.error({ how }, 'the database ended by itself, starting it again'),
    onRestarted: () => log.info({}, 'the database runs again'),
    onRestartFailed(error) {
      if (error instanceof PortTaken) log.error({}, error.message)
      else log.error({ err: error }, 'the database could not be started again')
    },
  })
  return {
    socketDir,
    host: '127.0.0.1',
    port,
    user: 'postgres',
    clusterDir,
    place,
    extensionSettings: extensions,
    warnings: () => warnings(supervisor),
    stop: supervisor.stop,
  }
}

class PortTaken extends Error {
  constructor() {
    super('another program uses the port of the database, which cannot start until the port is free')
  }
}

function warnings(supervisor: Supervisor): string[] {
  const { state, lastExit, restarts } = supervisor.health()
  return state === 'restarting'
    ? [`Postgres ended with ${lastExit} and is being started again (attempt ${restarts}).`]
    : []
}

async function launchOnFreePort(
  dataDir: string,
  launch: (port: number) => Promise<LaunchedChild | undefined>,
): Promise<{ port: number; postmaster: LaunchedChild }> {
  let port = rememberedPort(dataDir) ?? randomPort()
  for (let tries = 0; tries < portTries; tries++) {
    // Checking first is faster than a failed start of Postgres. Another program may still take the port in between.
    const postmaster = (await isFree(port)) ? await launch(port) : undefined
    if (postmaster) return { port, postmaster }
    port = randomPort()
  }
  throw new Error(`found no free port for the database on 127.0.0.1 in ${portTries} tries`)
}
