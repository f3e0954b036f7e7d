import { isAbsolute } from 'node:path'
import { packagedBinaries, usableBinaries } from './binaries.ts'
import { makeCluster } from './cluster.ts'
import { extensionSettings } from './extensions.ts'
import { clearLeftovers } from './leftovers.ts'
import { locate, prepareDataDir, preparePlace } from './place.ts'
import { isFree, randomPort, rememberedPort, rememberPort } from './port.ts'
import { launchPostmaster, type Postmaster } from './postmaster.ts'
import { engineSettings } from './settings.ts'
import { type EngineLog, keepRunning } from './supervise.ts'

export interface EngineOptions {
  /** The platform's data directory, absolute; created if absent. */
  dataDir: string
  superuserPassword: string
  /** Holds further extensions: control and SQL files in `extension`, libraries in `lib`. */
  extensionDir?: string | undefined
  /** Further settings of Postgres; they win over ours. */
  settings?: Record<string, string>
  log: EngineLog
}

export interface Engine {
  /** For `host`: the directory of the unix socket. */
  socketDir: string
  host: '127.0.0.1'
  /** On `host`, and the number in the socket's name. Stays the same over restarts as long as it is free. */
  port: number
  /** The superuser. */
  user: string
  clusterDir: string
  stop(): Promise<void>
}

const portTries = 5

/** The embedded Postgres of a data directory: made if need be, started, and kept running until `stop`. */
export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { dataDir, superuserPassword, log } = options
  if (!isAbsolute(dataDir)) throw new Error(`the data directory must be an absolute path, not ${dataDir}`)
  const since = performance.now()
  prepareDataDir(dataDir)
  const place = locate(dataDir)
  const extensions = extensionSettings(options.extensionDir, place.user)
  preparePlace(place)
  const { clusterDir, socketDir } = place

  // Before a port is chosen, because an orphan holds the one remembered.
  const hadOrphan = await clearLeftovers(clusterDir, socketDir)
  if (hadOrphan) log.warn({ clusterDir }, 'stopped the database that an earlier, killed process left running')
  const native = await usableBinaries(packagedBinaries(), place)
  const isNew = await makeCluster(place, native, superuserPassword)

  const stopping = new AbortController()
  const settings = { ...engineSettings, ...extensions, ...options.settings }
  const launch = (port: number) =>
    launchPostmaster({ place, native, port, settings, stopping: stopping.signal })
  const { port, postmaster } = await launchOnFreePort(dataDir, launch)
  rememberPort(dataDir, port)
  log.info({ clusterDir, port, isNew, ms: Math.round(performance.now() - since) }, 'the database is running')

  const ended = keepRunning(postmaster, () => launch(port), stopping.signal, log)
  const stop = () => {
    stopping.abort()
    return ended
  }
  return { socketDir, host: '127.0.0.1', port, user: 'postgres', clusterDir, stop }
}

async function launchOnFreePort(
  dataDir: string,
  launch: (port: number) => Promise<Postmaster | undefined>,
): Promise<{ port: number; postmaster: Postmaster }> {
  let port = rememberedPort(dataDir) ?? randomPort()
  for (let tries = 0; tries < portTries; tries++) {
    // Asked first, since finding out by starting Postgres costs more. In between somebody may still take it.
    const postmaster = (await isFree(port)) ? await launch(port) : undefined
    if (postmaster) return { port, postmaster }
    port = randomPort()
  }
  throw new Error(`found no free port for the database on 127.0.0.1 in ${portTries} tries`)
}
