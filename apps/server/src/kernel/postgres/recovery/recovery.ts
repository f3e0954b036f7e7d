// Recovers one project to a time, beside the running cluster: the embedded binaries run on a second data directory, which
// is removed afterwards. The caller reads the project from there.
import { existsSync, readdirSync } from 'node:fs'
import { open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { LaunchedChild } from '#src/kernel/child-processes/launch.ts'
import { type StopStep, stopProcess } from '#src/kernel/child-processes/stop.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { guardedSettings, withClient } from '../database.ts'
import { packagedBinaries, usableBinaries } from '../engine/binaries.ts'
import { clearLeftovers } from '../engine/leftovers.ts'
import { type Place, placeInside, prepareInside } from '../engine/place.ts'
import { launchPostmaster } from '../engine/postmaster.ts'
import { engineSettings } from '../engine/settings.ts'
import type { ServerAddress } from '../server-address.ts'
import type { ArchiveStore } from './archive-layout.ts'
import { archivedSegments, readSegment } from './archived-segments.ts'
import type { BaseBackup } from './base-backup.ts'
import type { RecoveryPlan, StoredSegment } from './catalogue.ts'
import {
  type ClusterDirectory,
  clusterDirectory,
  isPlaced,
  type Placing,
  placeBaseFiles,
} from './cluster-files.ts'
import { checkInvalidPages, invalidPageSettings } from './invalid-pages.ts'
import { spoolCipher } from './wal-packer.ts'
import { segmentBytes, segmentName, timelineHistoryName } from './wal-position.ts'
import { WalScanner } from './wal-scanner.ts'
import { NotSpooled, readSpool, spoolPath } from './wal-spool.ts'

export interface RecoveryOptions {
  /** Of the running cluster. */
  place: Place
  store: ArchiveStore
  plan: RecoveryPlan
  /** Names of the databases whose content is recovered. Of all others, only the names are. */
  databases: readonly string[]
  /** Of the superuser, at the time of the target. Undefined if it is lost: then the server asks for none. */
  password: string | undefined
  /** Further settings, such as the directories of extensions. */
  settings?: Record<string, string>
  signal?: AbortSignal | undefined
  /** Bytes of the base backup and of the WAL that were read since the last call. */
  progress?(bytes: number): void
}

export interface RecoveredServer {
  /** The superuser, on a Unix socket. */
  address: ServerAddress
  /** Stops the server and removes its files. */
  stop(): Promise<void>
  /** Stops the server and returns its data directory, which is durable. */
  keep(): Promise<string>
}

/** The server could not be recovered. The message contains the last lines of its log. */
export class RecoveryFailed extends Error {
  constructor(cause: unknown) {
    super(`recovery failed: ${(cause as Error).message}`, { cause })
    this.name = 'RecoveryFailed'
  }
}

const directoryPrefix = 'recovery-'
const trustingFile = 'recovery_hba.conf'
const crashSteps: readonly StopStep[] = [
  { signal: 'SIGQUIT', withinMs: 10_000 },
  { signal: 'SIGKILL', withinMs: 10_000 },
]
/** In the name of the socket, which is in a directory of its own. */
const port = 5432

export async function recoverAside(options: RecoveryOptions): Promise<RecoveredServer> {
  const { plan, password, signal = new AbortController().signal, progress = () => {} } = options
  signal.throwIfAborted()
  const place = placeInside(options.place, `${directoryPrefix}${orderedUuid()}`)
  let postmaster: LaunchedChild | undefined
  const stop = async () => {
    // A shutdown would write a checkpoint first, perhaps to a disk that is full.
    if (postmaster) await stopProcess(postmaster, crashSteps, 'Postgres')
    await removePlace(place)
  }
  try {
    prepareInside(place)
    const sparse = await placeFiles(options, place, { signal, progress })
    const native = await usableBinaries(packagedBinaries(), options.place)
    const settings = {
      ...engineSettings,
      ...options.settings,
      ...recoverySettings(plan),
      ...(password === undefined && { hba_file: join(place.clusterDir, trustingFile) }),
    }
    const launched = async (further: Record<string, string> = {}) => {
      const launching = launchPostmaster({
        place,
        native,
        port,
        settings: { ...settings, ...further },
        stopping: signal,
      })
      const child = await launching.catch(cause => {
        throw signal.aborted ? signal.reason : new RecoveryFailed(cause)
      })
      if (!child) throw new RecoveryFailed(new Error('its socket is in use'))
      return child
    }
    const address = {
      host: place.socketDir,
      port,
      user: 'postgres',
      password: password ?? '',
      tls: undefined,
    }
    postmaster = await launched(invalidPageSettings)
    await checkInvalidPages(place.logFile, sparse).catch(cause => {
      throw new RecoveryFailed(cause)
    })
    await crash(postmaster, address)
    postmaster = await launched()
    return {
      address,
      stop,
      async keep() {
        await postmaster!.stop()
        // Without full_page_writes, a kill may have left pages of which only a part is written.
        const how = await postmaster!.exited
        if (how !== 'code 0')
          throw new RecoveryFailed(new Error(`the second server ended with ${how} before it was shut down`))
        await rm(join(place.clusterDir, trustingFile), { force: true })
        await syncAll(place.clusterDir)
        return place.clusterDir
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Replay leaves the initial state of an unlogged sequence in memory, and then copies it to the sequence from the disk, where
 * it is empty: "bad magic number in sequence". A start after a crash copies it again.
 */
async function crash(postmaster: LaunchedChild, address: ServerAddress): Promise<void> {
  await withClient(address, 'postgres', guardedSettings, session => session.script('checkpoint'))
  await stopProcess(postmaster, crashSteps, 'Postgres')
}

/** Bytes that a recovery needs on the disk. Databases that are copied from others at replay are not counted. */
export function neededBytes({ baseBackup, segments }: RecoveryPlan, databases: readonly string[]): number {
  const oids = oidsOf(baseBackup, databases)
  const parts = baseBackup.parts.filter(({ oid }) => isPlaced(oid, oids))
  return parts.reduce((sum, { bytes }) => sum + bytes, segments.length * segmentBytes)
}

/** Bytes of these databases in the base backup. */
export function databaseBytes({ baseBackup }: RecoveryPlan, databases: readonly string[]): number {
  const oids = oidsOf(baseBackup, databases)
  return baseBackup.parts.reduce((sum, { oid, bytes }) => sum + (oids.has(oid) ? bytes : 0), 0)
}

/** Of the base backup, because a restore gives another database the name. A later database is in the WAL. */
const oidsOf = ({ databases }: BaseBackup, names: readonly string[]): Set<number> =>
  new Set(databases.filter(({ name }) => names.includes(name)).map(({ oid }) => oid))

/** Removes what a killed platform left behind. Called at the start, before any recovery. */
export async function sweepRecoveries(place: Place): Promise<void> {
  if (!existsSync(place.home)) return
  for (const name of readdirSync(place.home)) {
    if (!name.startsWith(directoryPrefix)) continue
    const left = placeInside(place, name)
    if (existsSync(left.socketDir)) await clearLeftovers(left.clusterDir, left.socketDir)
    await removePlace(left)
  }
}

/** The server ran without fsync. */
async function syncAll(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await syncAll(path)
    else if (entry.isFile()) await syncPath(path)
  }
  await syncPath(directory)
}

async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

async function removePlace({ home, socketDir }: Place): Promise<void> {
  // Processes of a server that was killed may still write files.
  for (const path of [socketDir, home])
    await rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
}

/** Nothing is synced, because everything is thrown away after a crash. */
function recoverySettings({ target }: RecoveryPlan): Record<string, string> {
  return {
    listen_addresses: '',
    restore_command: '/bin/false',
    ...(target !== undefined && { recovery_target_time: target.replace('Z', '+00') }),
    recovery_target_action: 'promote',
    recovery_target_timeline: 'current',
    // With hot_standby, it would need as many connections and locks as the original.
    hot_standby: 'off',
    max_connections: '20',
    max_wal_senders: '0',
    autovacuum: 'off',
    fsync: 'off',
    full_page_writes: 'off',
  }
}

/** Only the user of the database can reach the socket. */
async function writeTrusting(cluster: ClusterDirectory): Promise<void> {
  const file = await cluster.create(trustingFile)
  try {
    await file.writeFile('local all postgres trust\n')
  } finally {
    await file.close()
  }
}

/** Returns the databases whose files are sparse. */
async function placeFiles(
  { store, plan, databases, password }: RecoveryOptions,
  place: Place,
  placing: Placing,
): Promise<Set<number>> {
  const cluster = clusterDirectory(place.clusterDir, place.user)
  const { baseBackup } = plan
  const named = oidsOf(baseBackup, databases)
  const copied = await placeSegments(store, plan.segments, cluster, placing)
  const placed = new Set([...named, ...copied])
  await placeBaseFiles(store, baseBackup, placed, cluster, placing)
  await placeTimelines(plan, cluster)
  await (await cluster.create('recovery.signal')).close()
  if (password === undefined) await writeTrusting(cluster)
  return new Set(baseBackup.parts.map(({ oid }) => oid).filter(oid => !isPlaced(oid, placed)))
}

/**
 * Postgres ends recovery on the first timeline without a history file. It must not be one that the archive has already,
 * because WAL of two histories would get the same names. Postgres only looks whether these files exist.
 */
async function placeTimelines(
  { baseBackup, newestTimeline }: RecoveryPlan,
  to: ClusterDirectory,
): Promise<void> {
  for (let timeline = baseBackup.timeline + 1; timeline <= newestTimeline; timeline++)
    await (await to.create(join('pg_wal', timelineHistoryName(timeline)))).close()
}

/**
 * Writes the WAL into its place, which needs no `restore_command` with a shell and a key. Returns the databases whose
 * files are copied again at replay. Their files are needed even if only their copies are wanted.
 */
async function placeSegments(
  store: ArchiveStore,
  segments: readonly StoredSegment[],
  to: ClusterDirectory,
  { signal, progress }: Placing,
): Promise<Set<number>> {
  const copied = new Set<number>()
  const scanner = new WalScanner(segments[0]!.number * segmentBytes, {
    onTransactionEnd() {},
    onFileCopy: source => void copied.add(source),
  })
  for (const segment of segments) {
    const file = await to.create(join('pg_wal', segmentName(segment.timeline, segment.number)))
    try {
      for await (const chunk of bytesOf(store, segment)) {
        signal.throwIfAborted()
        progress(chunk.length)
        scanner.push(chunk)
        await file.writeFile(chunk)
      }
      await file.truncate(segmentBytes)
    } finally {
      await file.close()
    }
  }
  return copied
}

async function* bytesOf(store: ArchiveStore, segment: StoredSegment): AsyncGenerator<Buffer> {
  if ('mark' in segment) return yield* readSegment(store, segment)
  try {
    const path = spoolPath(store.spoolDir, segment.name)
    return yield* readSpool(path, spoolCipher(store, segment.name))
  } catch (error) {
    if (!(error instanceof NotSpooled)) throw error
  }
  // It was packed since the plan was made.
  for await (const archived of archivedSegments(store))
    if (archived.timeline === segment.timeline && archived.number === segment.number)
      return yield* readSegment(store, archived)
  throw new Error(`WAL segment ${segment.name} is missing`)
}
