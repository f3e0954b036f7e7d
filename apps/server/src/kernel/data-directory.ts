// The platform's own directory: one platform at a time, the secrets it made for itself, and a note of where
// it runs for the command line.
import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepareDataDir } from '#src/kernel/postgres/engine/place.ts'

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
  secrets(generate: () => string): { secrets: Secrets; isNew: boolean }
  announce(notice: Notice): void
  release(): void
}

const ownerOnly = 0o600

/** Takes the directory for this process, or throws a sentence saying who has it. */
export function takeDataDirectory(path: string): DataDirectory {
  prepareDataDir(path)
  const lockFile = join(path, 'platform.lock')
  const noticeFile = join(path, 'platform.json')
  const secretsFile = join(path, 'secrets.json')
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
      const isNew = Object.keys(kept).length < Object.keys(secrets).length
      if (isNew) writeWhole(secretsFile, secrets)
      else chmodSync(secretsFile, ownerOnly)
      return { secrets, isNew }
    },
    announce: notice => writeWhole(noticeFile, notice),
    release() {
      rmSync(noticeFile, { force: true })
      rmSync(lockFile, { force: true })
    },
  }
}

/** Whether a platform holds the directory right now. */
export const isTaken = (path: string): boolean => holderOf(join(path, 'platform.lock')) !== undefined

function takeLock(file: string, directory: string): void {
  const mine = JSON.stringify({ pid: process.pid, birth: birthOf(process.pid) })
  for (let attempt = 0; attempt < 5; attempt++) {
    try {
      return writeFileSync(file, mine, { flag: 'wx', mode: ownerOnly })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = holderOf(file)
    if (holder !== undefined)
      throw new Error(
        `Another platform (process ${holder}) uses ${directory}; stop it or set PLATFORM_DATA_DIR.`,
      )
    // Left by a process that was killed. Renaming makes one of several starters win.
    try {
      renameSync(file, `${file}.${process.pid}`)
      rmSync(`${file}.${process.pid}`, { force: true })
    } catch {}
  }
  throw new Error(`${file} cannot be taken; remove it if no platform runs.`)
}

function holderOf(file: string): number | undefined {
  const lock = readJson<{ pid: number; birth: string | undefined }>(file)
  if (!lock || lock.pid === process.pid) return
  try {
    process.kill(lock.pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return
  }
  // The number may have passed to another process since.
  return birthOf(lock.pid) === lock.birth ? lock.pid : undefined
}

/** When a process started, in clock ticks since boot; the same number for any process where /proc is absent. */
function birthOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19]
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
