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
import { canReach, databaseUser, makePassage, type OsUser } from './os-user.ts'

export interface Place {
  /** Absent when we are not root: Postgres then runs as ourselves. */
  user?: OsUser
  dataDir: string
  /** Holds cluster, sockets and log: the data directory itself, or a directory under /var/lib/plinth. */
  home: string
  clusterDir: string
  socketDir: string
  logFile: string
}

export const systemDir = '/var/lib/plinth'

/** Where the cluster of this data directory lives, and everything `down --volumes` must remove. */
export function engineFiles(dataDirectory: string): { clusterDir: string; remove: string[] } {
  const { dataDir, home, clusterDir, socketDir } = locate(dataDirectory)
  const apart = socketDir.startsWith(`${home}/`) ? [] : [socketDir]
  return { clusterDir, remove: [...new Set([dataDir, home, ...apart])] }
}

/** Decides; makes nothing. The answer is the same before the first start and after it. */
export function locate(dataDir: string): Place {
  const near = realPath(dataDir)
  const hash = createHash('sha256').update(near).digest('hex').slice(0, 16)
  if (process.getuid?.() !== 0) return placeAt(near, near, hash)

  // An existing cluster stays where it is and keeps its owner, whatever permissions or /etc/passwd say now:
  // anything else would greet the operator with an empty database.
  const far = join(systemDir, hash)
  const settled = [near, far].find(home => existsSync(join(home, 'postgres')))
  const user = databaseUser(join(settled ?? near, 'postgres'))
  return placeAt(near, settled ?? (canReach(user, nearestExisting(near)) ? near : far), hash, user)
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

/** Socket paths are cut off at 104 (macOS) or 108 (Linux) bytes, so a deep home keeps its sockets elsewhere. */
function socketDirFor(home: string, hash: string, user: OsUser | undefined): string {
  const inHome = join(home, 'run')
  const fits = (dir: string) => Buffer.byteLength(join(dir, '.s.PGSQL.65535')) <= 100
  if (fits(inHome)) return inHome

  const usable = [realPath(tmpdir()), '/tmp'].map(dir => join(dir, `plinth-${hash}`))
  const found = usable.find(dir => fits(dir) && (!user || canReach(user, nearestExisting(dirname(dir)))))
  if (!found) throw new Error(`no directory for the database's socket: ${inHome} is too long a path`)
  return found
}

/** The platform's data directory, made so that the database user can pass through it but not look around. */
export function prepareDataDir(dataDir: string): void {
  const isRoot = process.getuid?.() === 0
  const missing: string[] = []
  for (let dir = dataDir; !existsSync(dir); dir = dirname(dir)) missing.unshift(dir)
  for (const dir of missing) {
    if (isRoot) makePassage(dir)
    else mkdirSync(dir, dir === dataDir ? { mode: 0o700 } : {})
  }
  try {
    accessSync(dataDir, constants.W_OK | constants.X_OK)
  } catch (cause) {
    const whose = `${dataDir} belongs to user id ${statSync(dataDir).uid}`
    throw new Error(`${whose}: start as that user, or choose another data directory`, { cause })
  }
}

/** Makes the directories around the cluster, or says in a sentence why Postgres could not live there. */
export function preparePlace(place: Place): void {
  const { user, dataDir, home, clusterDir } = place
  refuseMovedDataDir(place)
  if (home !== dataDir) {
    makePassage(systemDir)
    makePassage(home)
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

/** The hash in /var/lib/plinth follows the path, so a renamed data directory would silently start out empty. */
function refuseMovedDataDir({ dataDir, home, clusterDir }: Place): void {
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
  // What already belongs to the database user is left alone: in a shared /tmp that user could swap it for a
  // link, and root would hand the link's target over.
  if (found && found.uid !== self) {
    if ((found.mode & 0o077) !== 0) throw new Error(`${dir} is open to other users: remove it`)
    return
  }
  chmodSync(dir, 0o700)
  if (user) lchownSync(dir, user.uid, user.gid)
}

/** Postgres gets resolved paths only, so that links through closed directories do not matter. */
export function realPath(path: string): string {
  const existing = nearestExisting(path)
  const missing = path.slice(existing.length)
  return join(realpathSync(existing), missing)
}

function nearestExisting(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : nearestExisting(dirname(path))
}
