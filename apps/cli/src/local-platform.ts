// The platform of a data directory on this machine: its files and its processes.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Environment, setting } from './environment.ts'

/** `platform.json`, written by the server when it listens. */
export interface PlatformRecord {
  pid: number
  url: string
  version: string
  started_at: string
  /** What the operator does next, as arguments of the command line. */
  next_command: string | null
}

/** `platform.lock`, held by the server from start to end. */
export interface Lock {
  pid: number
  /** Start time of the process in clock ticks since boot; null where the system does not report it. */
  birth: string | null
}

export interface LocalPlatform {
  dataDir: string
  state: 'running' | 'starting' | 'stopped'
  /** Of a process verified to be the platform; null when stopped. */
  lock: Lock | null
  record: PlatformRecord | null
}

export function dataDirectory({ environment, cwd }: { environment: Environment; cwd: string }): string {
  return resolve(cwd, setting(environment, 'PLATFORM_DATA_DIR') ?? '.plinth/data')
}

/** The lock exists as long as the process; `platform.json` only while it listens. */
export function inspect(dataDir: string): LocalPlatform {
  const lock = readLock(dataDir)
  if (!lock || !isAlive(lock)) return { dataDir, state: 'stopped', lock: null, record: null }
  const record = readRecord(dataDir)
  return record?.pid === lock.pid
    ? { dataDir, state: 'running', lock, record }
    : { dataDir, state: 'starting', lock, record: null }
}

/** Null also for a file that is incomplete or not readable. */
export function readRecord(dataDir: string): PlatformRecord | null {
  const { pid, url, version, started_at, next_command: next } = readObject(join(dataDir, 'platform.json'))
  if (typeof pid !== 'number' || typeof url !== 'string') return null
  return {
    pid,
    url,
    version: String(version ?? ''),
    started_at: String(started_at ?? ''),
    next_command: typeof next === 'string' ? next : null,
  }
}

export function readSecrets(dataDir: string): Record<string, string> {
  const entries = Object.entries(readObject(join(dataDir, 'secrets.json')))
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

function readLock(dataDir: string): Lock | null {
  const { pid, birth } = readObject(join(dataDir, 'platform.lock'))
  return typeof pid === 'number' ? { pid, birth: typeof birth === 'string' ? birth : null } : null
}

/** As root the cluster may be elsewhere; the server writes the path into `postgres.home`. */
export function clusterDirectory(dataDir: string): string {
  return join(readText(join(dataDir, 'postgres.home'))?.trim() || dataDir, 'postgres')
}

/** Null unless the process uses this cluster, because a pid in an old file may have been reused. */
export function postmasterPid(dataDir: string): number | null {
  const cluster = clusterDirectory(dataDir)
  const pid = Number(readText(join(cluster, 'postmaster.pid'))?.split('\n')[0])
  return Number.isInteger(pid) && pid > 0 && commandLine(pid)?.includes(`-D ${realPath(cluster)} `)
    ? pid
    : null
}

/** False for a zombie, which has no command line, and for another process that reuses the pid. */
export function isAlive({ pid, birth }: Lock): boolean {
  if (birth !== null) return startTicksOf(pid) === birth && commandLine(pid) !== ''
  return commandLine(pid)?.includes('main.ts') ?? false
}

export function startTicksOf(pid: number): string | undefined {
  // Fields are counted after the name, because the name may contain spaces and brackets.
  const stat = readText(`/proc/${pid}/stat`)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}

/** Start time of a process in milliseconds; null where the system does not report it. */
export function startedAt(pid: number): number | null {
  const bootSeconds = Number(/^btime (\d+)/m.exec(readText('/proc/stat') ?? '')?.[1])
  const ticks = Number(startTicksOf(pid))
  return bootSeconds > 0 && ticks >= 0 ? (bootSeconds + ticks / 100) * 1000 : null
}

export const childrenOf = (pid: number): number[] =>
  (readText(`/proc/${pid}/task/${pid}/children`) ?? '').split(' ').filter(Boolean).map(Number)

export function commandLine(pid: number): string | undefined {
  if (existsSync('/proc/self')) return readText(`/proc/${pid}/cmdline`)?.replaceAll('\0', ' ')
  try {
    return execFileSync('ps', ['-p', String(pid), '-o', 'args='], { encoding: 'utf8', stdio: 'pipe' })
  } catch {
    return undefined
  }
}

/** Resident memory; null where the system does not report it. */
export function memoryBytes(pid: number): number | null {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readText(`/proc/${pid}/status`) ?? '')?.[1]
  return kilobytes ? Number(kilobytes) * 1024 : null
}

/** The server passes Postgres its directory without symbolic links. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

function readObject(path: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {}
  } catch {
    return {}
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
