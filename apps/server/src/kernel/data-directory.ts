// The platform's own directory: one platform at a time, the secrets it made for itself, and a note of where
// it runs for the command line.
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
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

export interface Notice {
  pid: number
  url: string
  version: string
  started_at: string
}

export interface DataDirectory {
  readonly path: string
  readonly secretsFile: string
  /** The secrets kept here; those missing are made by `generate` and written down first. */
  secrets(generate: () => string): Secrets
  /** Whether the operator has been told of the admin token. */
  readonly isTold: boolean
  noteTold(): void
  announce(notice: Notice): void
  release(): void
}

const ownerOnly = 0o600

/** Takes the directory for this process, or throws a sentence saying who has it. */
export function takeDataDirectory(path: string): DataDirectory {
  try {
    prepareDataDir(path)
  } catch (cause) {
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${(cause as Error).message}.`, { cause })
  }
  if (!statSync(path).isDirectory())
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${path} is not a directory.`)
  const lockFile = join(path, 'platform.lock')
  const noticeFile = join(path, 'platform.json')
  const secretsFile = join(path, 'secrets.json')
  const toldFile = join(path, 'admin-token.told')
  takeLock(lockFile, path)
  rmSync(noticeFile, { force: true })
  return {
    path,
    secretsFile,
    secrets(generate) {
      const kept = readJson<Partial<Secrets>>(secretsFile) ?? {}
      const secrets: Secrets = {
        CONTROL_PLANE_SECRET: kept.CONTROL_PLANE_SECRET ?? generate(),
        PLATFORM_ADMIN_TOKEN: kept.PLATFORM_ADMIN_TOKEN ?? generate(),
        POSTGRES_PASSWORD: kept.POSTGRES_PASSWORD ?? generate(),
      }
      if (Object.keys(kept).length < Object.keys(secrets).length) writeWhole(secretsFile, secrets)
      else chmodSync(secretsFile, ownerOnly)
      return secrets
    },
    isTold: existsSync(toldFile),
    noteTold: () => writeFileSync(toldFile, '', { mode: ownerOnly }),
    announce: notice => writeWhole(noticeFile, notice),
    release() {
      rmSync(noticeFile, { force: true })
      rmSync(lockFile, { force: true })
    },
  }
}

/** Whether this is a directory of ours: there is something in it that only we put there. */
export const isDataDirectory = (path: string): boolean =>
  ['secrets.json', 'platform.lock', 'postgres', 'postgres.home', 'objects/.plinth'].some(name =>
    existsSync(join(path, name)),
  )

/** Whether a platform holds the directory right now. */
export const isTaken = (path: string): boolean => holderOf(join(path, 'platform.lock')) !== undefined

function takeLock(file: string, directory: string): void {
  const draft = `${file}.${process.pid}`
  const lock = { pid: process.pid, birth: startTimeOf(process.pid) }
  writeFileSync(draft, JSON.stringify(lock), { mode: ownerOnly })
  try {
    if (isLinked(draft, file)) return
    const holder = holderOf(file)
    if (holder !== undefined) throw taken(directory, holder)
    // Left by a process that was killed. Only one of several starters may take it away.
    alone(`${file}.taking`, () => {
      if (holderOf(file) === undefined) rmSync(file, { force: true })
    })
    if (!isLinked(draft, file)) throw taken(directory, holderOf(file))
  } finally {
    rmSync(draft, { force: true })
  }
}

const taken = (directory: string, holder: number | undefined) =>
  new Error(`Another platform (process ${holder}) uses ${directory}; stop it or set PLATFORM_DATA_DIR.`)

/** The lock appears with its content or not at all. */
function isLinked(draft: string, file: string): boolean {
  try {
    linkSync(draft, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Making a directory is something only one can do; whoever died with it in hand is not waited for. */
function alone(token: string, work: () => void): void {
  for (let attempt = 0; ; attempt++) {
    try {
      mkdirSync(token)
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (attempt === 100) rmSync(token, { recursive: true, force: true })
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
  }
  try {
    work()
  } finally {
    rmSync(token, { recursive: true, force: true })
  }
}

/** Nobody holds the lock of a process that was killed, is a zombie, or whose number another process has now. */
function holderOf(file: string): number | undefined {
  const lock = readLock(file)
  if (!lock || lock.pid === process.pid) return
  return isRunning({ pid: lock.pid, startTime: lock.birth }) ? lock.pid : undefined
}

/** Nobody holds a lock file that a crash of the machine has cut short. */
function readLock(file: string): { pid: number; birth?: string } | undefined {
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

/** Whole or not at all, and readable by its owner alone from the first byte. */
function writeWhole(file: string, content: object): void {
  const draft = `${file}.${process.pid}.tmp`
  writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: ownerOnly, flush: true })
  renameSync(draft, file)
}
