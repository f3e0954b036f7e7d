// Where functions are on this machine: the Deno program, the code of versions, and the directories of workers. If the
// platform runs as root, each project's workers run as a user of their own.
import { createHash, randomUUID } from 'node:crypto'
import { constants, existsSync, lchownSync, mkdirSync, realpathSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { canReach, makeTraversableDir, systemDir } from '#src/kernel/child-processes/os-user.ts'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { isRunning, startTimeOf } from '#src/kernel/running-process.ts'

export interface Place {
  /** Has everything else, and the host program. */
  readonly home: string
  /** The code of versions, by project. */
  readonly codeDir: string
  /** What Deno caches for the code of each project. */
  readonly cacheDir: string
  /** Deployments in progress. */
  readonly stagingDir: string
  /** Sockets and temporary files of workers. */
  readonly runDir: string
  /** The Deno program. Refuses with `functions_unavailable` if it cannot be run here. */
  deno(): Promise<string>
  /** Undefined if the platform does not run as root. */
  userOf(projectId: string): OsUser | undefined
}

/** Ids from here on belong to no user of usual systems. Node takes ids below 2^31. */
const firstUserId = 1_100_000_000
const userIds = 1_000_000_000
/** A Unix socket in the directory of a worker must have a path of at most 104 bytes on macOS, 108 on Linux. */
const maxRunDir = 70

const isRoot = process.getuid?.() === 0
const anybody: OsUser = { name: 'a worker', uid: firstUserId, gid: firstUserId }

/** The directory above everything, and that of workers. They are in the data directory if workers can use it. */
export function functionDirs(dataDir: string): { parent: string; runDir: string } {
  const exists = existsSync(dataDir)
  const resolved = exists ? realpathSync(dataDir) : dataDir
  const hash = createHash('sha256').update(resolved).digest('hex').slice(0, 16)
  // The platform creates it for itself alone.
  const isPrivate = isRoot && !(exists && canReach(anybody, resolved))
  // Deno opens no sockets and files there without all permissions.
  const isSpecial = /^\/(?:dev|proc|sys)\//.test(resolved)
  const parent = isPrivate ? join(systemDir, hash) : isSpecial ? `/tmp/plinth-functions-${hash}` : resolved
  const inParent = join(parent, 'functions', 'run')
  return {
    parent,
    runDir: inParent.length <= maxRunDir ? inParent : join(tmpdir(), `plinth-run-${hash}`),
  }
}

export function locateFunctions(dataDir: string): Place {
  const { parent, runDir } = functionDirs(dataDir)
  if (dirname(parent) === systemDir) makeTraversableDir(systemDir)
  if (parent !== realpathSync(dataDir)) makeTraversableDir(parent)
  const home = join(parent, 'functions')
  const dirs = {
    codeDir: join(home, 'code'),
    cacheDir: join(home, 'cache'),
    stagingDir: join(home, 'staging'),
    runDir,
  }
  if (isRoot) for (const dir of [home, ...Object.values(dirs)]) makeTraversableDir(dir)
  else for (const dir of Object.values(dirs)) mkdirSync(dir, { recursive: true, mode: 0o700 })

  let program: Promise<string> | undefined
  return {
    home,
    ...dirs,
    deno() {
      program ??= usableDeno(isRoot ? anybody : undefined).catch(error => {
        program = undefined
        throw error
      })
      return program
    },
    userOf(projectId) {
      if (!isRoot) return
      const number = createHash('sha256').update(projectId).digest().readUInt32BE(0) % userIds
      const id = firstUserId + number
      return { name: 'the worker of a project', uid: id, gid: id }
    },
  }
}

/** The process of the platform is part of the name, because several may use the same directory. */
export const directoryName = () =>
  `${process.pid}-${startTimeOf(process.pid) ?? ''}-${randomUUID().slice(0, 8)}`

/** Removes directories of platforms that were killed. */
export async function removeLeftovers(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [pid, startTime] = name.split('-')
    if (!isRunning({ pid: Number(pid), startTime: startTime || undefined }))
      await rm(join(parent, name), { recursive: true, force: true })
  }
}

/** Creates a directory that only the user can use. */
export async function makeOwnDir(dir: string, user: OsUser | undefined): Promise<void> {
  await mkdir(dir, { mode: 0o700 })
  if (user) lchownSync(dir, user.uid, user.gid)
}

const packages: Record<string, string> = {
  'linux-x64': '@deno/linux-x64-glibc',
  'linux-arm64': '@deno/linux-arm64-glibc',
  'darwin-x64': '@deno/darwin-x64',
  'darwin-arm64': '@deno/darwin-arm64',
}

/** The packaged program, or a copy if workers cannot reach it. */
async function usableDeno(user: OsUser | undefined): Promise<string> {
  const name = packages[`${process.platform}-${process.arch}`]
  if (!name) throw unavailable(`there is no Deno for ${process.platform} on ${process.arch}`)
  let manifest: string
  try {
    manifest = createRequire(import.meta.url).resolve(`${name}/package.json`)
  } catch (cause) {
    throw unavailable(`${name} is not installed; install with optional dependencies`, cause)
  }
  const packaged = join(dirname(manifest), 'deno')
  if (!user || canReach(user, packaged, 0o5)) return packaged
  const { version } = createRequire(import.meta.url)(manifest) as { version: string }
  const copy = join(systemDir, `deno-${version}`)
  if (existsSync(copy)) return copy
  makeTraversableDir(systemDir)
  const temporary = `${copy}.${process.pid}`
  try {
    await copyFile(packaged, temporary, constants.COPYFILE_FICLONE)
    await chmod(temporary, 0o755)
    await rename(temporary, copy)
  } finally {
    await rm(temporary, { force: true })
  }
  return copy
}

const unavailable = (why: string, cause?: unknown) =>
  new Refusal('functions_unavailable', `Functions cannot run here: ${why}`, { cause })
