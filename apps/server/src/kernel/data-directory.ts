// The data directory of the platform. A lock file lets only one platform use it at a time. It has the generated secrets,
// and `platform.json`, from which the command line reads the address of the running platform.
import {
  chmodSync,
  existsSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { prepareDataDir } from '#src/kernel/postgres/engine/place.ts'
import { isRunning, startTimeOf } from '#src/kernel/running-process.ts'

export interface Secrets {
  CONTROL_PLANE_SECRET: string
  PLATFORM_ADMIN_TOKEN: string
  POSTGRES_PASSWORD: string
}

/** The content of `platform.json`. */
export interface RunningPlatform {
  pid: number
  url: string
  version: string
  started_at: string
  /** What the operator does next, as arguments of the command line. */
  next_command: string | null
}

export interface DataDirectory {
  readonly path: string
  readonly secretsFile: string
  /** The stored secrets. Missing ones are generated and stored before this returns. */
  secrets(generate: () => string): Secrets
  /** Whether the admin token was shown to the operator. */
  readonly isAdminTokenShown: boolean
  markAdminTokenShown(): void
  writeRunningPlatform(platform: RunningPlatform): void
  release(): void
}

const ownerOnly = 0o600

/** Locks the directory for this process, or throws an error that names the process that holds the lock. */
export function lockDataDirectory(path: string): DataDirectory {
  try {
    prepareDataDir(path)
  } catch (cause) {
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${(cause as Error).message}.`, { cause })
  }
  if (!statSync(path).isDirectory())
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${path} is not a directory.`)
  const lockFile = join(path, 'platform.lock')
  const runningPlatformFile = join(path, 'platform.json')
  const secretsFile = join(path, 'secrets.json')
  const tokenShownFile = join(path, 'admin-token.told')
  acquireLock(lockFile, path)
  rmSync(runningPlatformFile, { force: true })
  return {
    path,
    secretsFile,
    secrets(generate) {
      const stored = readJson<Partial<Secrets>>(secretsFile) ?? {}
      const secrets: Secrets = {
        CONTROL_PLANE_SECRET: stored.CONTROL_PLANE_SECRET ?? generate(),
        PLATFORM_ADMIN_TOKEN: stored.PLATFORM_ADMIN_TOKEN ?? generate(),
        POSTGRES_PASSWORD: stored.POSTGRES_PASSWORD ?? generate(),
      }
      if (Object.keys(stored).length < Object.keys(secrets).length) writeAtomically(secretsFile, secrets)
      else chmodSync(secretsFile, ownerOnly)
      return secrets
    },
    isAdminTokenShown: existsSync(tokenShownFile),
    markAdminTokenShown: () => writeFileSync(tokenShownFile, '', { mode: ownerOnly }),
    writeRunningPlatform: platform => writeAtomically(runningPlatformFile, platform),
    release() {
      rmSync(runningPlatformFile, { force: true })
      rmSync(lockFile, { force: true })
    },
  }
}

/** The secrets of a data directory that another process has locked. */
export const storedSecrets = (path: string): Partial<Secrets> =>
  readJson<Partial<Secrets>>(join(path, 'secrets.json')) ?? {}

/** Whether this is a data directory: it contains a file or directory that only the platform creates. */
export const isDataDirectory = (path: string): boolean =>
  ['secrets.json', 'platform.lock', 'postgres', 'postgres.home', 'objects/.plinth'].some(name =>
    existsSync(join(path, name)),
  )

/** Whether a running platform holds the lock of the directory. */
export const isDataDirectoryLocked = (path: string): boolean =>
  holderOf(join(path, 'platform.lock')) !== undefined

function acquireLock(file: string, directory: string): void {
  const draft = `${file}.${process.pid}`
  const lock = { pid: process.pid, birth: startTimeOf(process.pid) }
  writeFileSync(draft, JSON.stringify(lock), { mode: ownerOnly })
  try {
    // Without mutual exclusion, a process that removes the lock of a killed one could remove a lock that is new.
    exclusively(draft, `${file}.taking`, directory, () => {
      const holder = holderOf(file)
      if (holder !== undefined) throw lockedBy(directory, holder)
      rmSync(file, { force: true })
      linkSync(draft, file)
    })
  } finally {
    rmSync(draft, { force: true })
  }
}

const lockedBy = (directory: string, holder: number | undefined) =>
  new Error(`Another platform (process ${holder}) uses ${directory}; stop it or set PLATFORM_DATA_DIR.`)

/** A hard link is created atomically and with its content. False if the file exists. */
function tryLink(draft: string, file: string): boolean {
  try {
    linkSync(draft, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

const waitMs = 20
const maxWaits = 500

/** Runs the work while no other process does. The mutex is a lock, too: the one of a killed process is removed. */
function exclusively(draft: string, mutex: string, directory: string, work: () => void): void {
  for (let waits = 0; !tryLink(draft, mutex); waits++) {
    if (isLeftBehind(mutex)) rmSync(mutex, { recursive: true, force: true })
    else if (waits === maxWaits) throw lockedBy(directory, holderOf(mutex))
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, waitMs)
  }
  try {
    work()
  } finally {
    rmSync(mutex, { force: true })
  }
}

/** False if the file does not exist: its process has finished, and the next one may create it at any moment. */
function isLeftBehind(file: string): boolean {
  try {
    const lock = readJson<Lock>(file)
    return lock !== undefined && !isHeld(lock)
  } catch {
    return true
  }
}

interface Lock {
  pid: number
  birth?: string
}

/** Not if its process was killed, is a zombie, or another process has its id now. */
const isHeld = ({ pid, birth }: Lock): boolean => pid !== process.pid && isRunning({ pid, startTime: birth })

function holderOf(file: string): number | undefined {
  const lock = readLock(file)
  return lock && isHeld(lock) ? lock.pid : undefined
}

/** Undefined for a lock file that a crash of the machine has truncated. */
function readLock(file: string): Lock | undefined {
  try {
    return readJson(file)
  } catch {
    return
  }
}

function readJson<T>(file: string): T | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw new Error(`${file} is damaged: it is not valid JSON.`, { cause })
  }
}

/** Replaces the file atomically. Only its owner can read it, from its creation on. */
function writeAtomically(file: string, content: object): void {
  const draft = `${file}.${process.pid}.tmp`
  writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: ownerOnly, flush: true })
  renameSync(draft, file)
}
