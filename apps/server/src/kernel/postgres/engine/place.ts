import { createHash } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { canReach, makeTraversableDir, systemDir } from '#src/kernel/child-processes/os-user.ts'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { databaseUser } from './os-user.ts'

export interface Place {
  /** Absent if the platform does not run as root. Then Postgres runs as the same user. */
  user?: OsUser
  dataDir: string
  /** The directory with cluster, sockets and log: the data directory itself, or one under /var/lib/plinth. */
  home: string
  clusterDir: string
  socketDir: string
  logFile: string
}

/** The cluster of this data directory, and all directories that `down --volumes` must remove. */
export function engineFiles(dataDirectory: string): { clusterDir: string; remove: string[] } {
  const { dataDir, home, clusterDir, socketDir } = locate(dataDirectory)
  const outsideHome = socketDir.startsWith(`${home}/`) ? [] : [socketDir]
  return { clusterDir, remove: [...new Set([dataDir, home, ...outsideHome])] }
}

/** Creates nothing. Returns the same before and after the first start. */
export function locate(dataDir: string): Place {
  const resolved = realPath(dataDir)
  const hash = createHash('sha256').update(resolved).digest('hex').slice(0, 16)
  if (process.getuid?.() !== 0) return placeAt(resolved, resolved, hash)

  // An existing cluster keeps its directory and its owner, whatever permissions or /etc/passwd say now. With another
  // directory, the platform would start with an empty database.
  const inSystemDir = join(systemDir, hash)
  const existing = [resolved, inSystemDir].find(home => existsSync(join(home, 'postgres')))
  const user = databaseUser(join(existing ?? resolved, 'postgres'))
  const preferred = canReach(user, nearestExisting(resolved)) ? resolved : inSystemDir
  return placeAt(resolved, existing ?? preferred, hash, user)
}

function placeAt(dataDir: string, home: string, hash: string, user?: OsUser): Place {
  return {
    ...(user && { user }),
    dataDir,
    home,
    clusterDir: join(home, 'postgres'),
    socketDir: socketDirFor(home, hash, user),
    logFile: join(home, 'postgres.log'),
  }
}

/** The place of a second cluster, in a directory inside the home of the first. */
export function placeInside(place: Place, name: string): Place {
  const home = join(place.home, name)
  const hash = createHash('sha256').update(home).digest('hex').slice(0, 16)
  return placeAt(place.dataDir, home, hash, place.user)
}

/** Creates its directories, without a cluster. */
export function prepareInside({ user, home, clusterDir, socketDir }: Place): void {
  if (user) makeTraversableDir(home)
  else mkdirSync(home, { mode: 0o700 })
  for (const dir of [clusterDir, socketDir]) makePrivateDir(dir, user)
}

/** Socket paths are limited to 104 (macOS) or 108 (Linux) bytes, so a home with a long path has its sockets in /tmp. */
function socketDirFor(home: string, hash: string, user: OsUser | undefined): string {
  const inHome = join(home, 'run')
  const fits = (dir: string) => Buffer.byteLength(join(dir, '.s.PGSQL.65535')) <= 100
  if (fits(inHome)) return inHome

  const usable = [realPath(tmpdir()), '/tmp'].map(dir => join(dir, `plinth-${hash}`))
  const found = usable.find(dir => fits(dir) && (!user || canReach(user, nearestExisting(dirname(dir)))))
  if (!found) throw new Error(`no directory for the database's socket: ${inHome} is too long a path`)
  return found
}

/** Creates the data directory of the platform, so that the database user can traverse but not list it. */
export function prepareDataDir(dataDir: string): void {
  const isRoot = process.getuid?.() === 0
  const missing: string[] = []
  for (let dir = dataDir; !existsSync(dir); dir = dirname(dir)) missing.unshift(dir)
  for (const dir of missing) {
    if (isRoot) makeTraversableDir(dir)
    else mkdirSync(dir, dir === dataDir ? { mode: 0o700 } : {})
  }
  try {
    accessSync(dataDir, constants.W_OK | constants.X_OK)
  } catch (cause) {
    const whose = `${dataDir} belongs to user id ${statSync(dataDir).uid}`
    throw new Error(`${whose}: start as that user, or choose another data directory`, { cause })
  }
}

/** Creates the directories for the cluster. Throws an error that says why Postgres cannot run there. */
export function preparePlace(place: Place): void {
  const { user, dataDir, home, clusterDir } = place
  rejectMovedDataDir(place)
  if (home !== dataDir) {
    makeTraversableDir(systemDir)
    makeTraversableDir(home)
    writeFileSync(join(dataDir, 'postgres.home'), `${home}\n`, { mode: 0o600 })
  }
  if (user && !canReach(user, home)) {
    throw new Error(
      `the database runs as ${user.name}, who cannot pass through every directory up to ${home}`,
    )
  }
  const clusterOwner = statSync(clusterDir, { throwIfNoEntry: false })?.uid
  const runsAs = user?.uid ?? process.getuid?.()
  if (clusterOwner !== undefined && clusterOwner !== runsAs) {
    throw new Error(
      `${clusterDir} belongs to user id ${clusterOwner}, but the database would run as ${runsAs}`,
    )
  }
  makePrivateDir(place.socketDir, user)
}

/** The directory in /var/lib/plinth is named after the path, so a renamed data directory would start without its data. */
function rejectMovedDataDir({ dataDir, home, clusterDir }: Place): void {
  const note = join(dataDir, 'postgres.home')
  const earlier = existsSync(note) ? readFileSync(note, 'utf8').trim() : home
  if (earlier === home || existsSync(clusterDir) || !existsSync(join(earlier, 'postgres'))) return
  throw new Error(
    `${dataDir} was moved or copied and its database is still in ${earlier}: ` +
      `move that to ${home}, or delete ${note} to begin with an empty one`,
  )
}

function makePrivateDir(dir: string, user: OsUser | undefined): void {
  const found = lstatSync(dir, { throwIfNoEntry: false })
  const self = process.getuid?.()
  if (!found) mkdirSync(dir, { mode: 0o700 })
  else if (!found.isDirectory() || (found.uid !== self && found.uid !== user?.uid)) {
    throw new Error(`${dir} exists and is not ours: remove it`)
  }
  // A directory that belongs to the database user is not changed: in a shared /tmp that user could replace it with a link,
  // and chown as root would give away the link's target.
  if (found && found.uid !== self) {
    if ((found.mode & 0o077) !== 0) throw new Error(`${dir} is open to other users: remove it`)
    return
  }
  chmodSync(dir, 0o700)
  if (user) lchownSync(dir, user.uid, user.gid)
}

/** Postgres gets resolved paths, because its user may not be able to follow links through private directories. */
export function realPath(path: string): string {
  const existing = nearestExisting(path)
  const missing = path.slice(existing.length)
  return join(realpathSync(existing), missing)
}

function nearestExisting(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : nearestExisting(dirname(path))
}
