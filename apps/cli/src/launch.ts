// Starts the server in the background and waits until it is healthy.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from './context.ts'
import { Failure, throwIfInterrupted } from './failure.ts'
import { requestHealth } from './health.ts'
import { inspect, type PlatformRecord, readRecord } from './local-platform.ts'
import { serverEntry, serverOptions } from './server-process.ts'

const healthyWithinMs = 60_000
const maxLogBytes = 10 * 1024 * 1024

export interface Log {
  path: string
  /** Its size before this start. */
  from: number
  descriptor: number
}

export function openLog(dataDir: string): Log {
  makeDataDir(dataDir)
  const path = join(dataDir, 'platform.log')
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > maxLogBytes) renameSync(path, `${path}.1`)
  const descriptor = openSync(path, 'a', 0o600)
  return { path, from: statSync(path).size, descriptor }
}

/**
 * Creates it with the modes that the server uses: as root, the database user must be able to enter the
 * directory but not list it.
 */
function makeDataDir(dataDir: string): void {
  const isRoot = process.getuid?.() === 0
  const missing: string[] = []
  for (let dir = dataDir; !existsSync(dir); dir = dirname(dir)) missing.unshift(dir)
  for (const dir of missing) {
    mkdirSync(dir)
    if (isRoot) chmodSync(dir, 0o711)
    else if (dir === dataDir) chmodSync(dir, 0o700)
  }
}

export interface Server {
  pid: number
  /** Its signal or exit code, once it has ended. */
  exitReason(): string | null
}

/** In its own session, so that Ctrl-C and a closed terminal do not end it. */
export async function launch(context: Context, log: Log): Promise<Server> {
  const child = spawn(process.execPath, [...serverOptions, serverEntry()], {
    cwd: context.cwd,
    env: context.environment,
    detached: true,
    stdio: ['ignore', log.descriptor, log.descriptor],
  })
  await once(child, 'spawn')
  closeSync(log.descriptor)
  child.unref()
  const pid = child.pid!
  const exitReason = () => child.signalCode ?? (child.exitCode === null ? null : `code ${child.exitCode}`)
  return { pid, exitReason }
}

/** Waits for the lock, so that `plinth stop` right after `plinth start --no-wait` finds the server, and an invalid setting is reported. */
export async function waitForLock(dataDir: string, server: Server, log: Log): Promise<void> {
  const deadline = performance.now() + 5000
  while (inspect(dataDir).lock?.pid !== server.pid && performance.now() < deadline) {
    const reason = server.exitReason()
    if (reason !== null) throw endedEarly(reason, log)
    await sleep(20)
  }
}

export async function waitUntilHealthy(
  context: Context,
  dataDir: string,
  server: Server,
  log: Log,
): Promise<PlatformRecord> {
  const { screen } = context
  const signal = context.interruption()
  const deadline = performance.now() + healthyWithinMs
  let isListening = false
  for (;;) {
    if (signal.aborted)
      screen.hint(`\nThe platform continues to start (pid ${server.pid}). plinth stop stops it.`)
    throwIfInterrupted(signal)
    const reason = server.exitReason()
    if (reason !== null) throw endedEarly(reason, log)
    const record = readRecord(dataDir)
    if (record?.pid === server.pid) {
      if (!isListening) screen.step('The database is ready')
      isListening = true
      if (await isHealthy(record.url, signal)) {
        screen.step(`Healthy at ${record.url}`)
        return record
      }
    }
    if (performance.now() > deadline) throw tooSlow(server.pid, log)
    await sleep(50, undefined, { signal }).catch(() => {})
  }
}

const isHealthy = (url: string, signal: AbortSignal): Promise<boolean> =>
  requestHealth(url, '/health', { signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]) })
    .then(({ isOk }) => isOk)
    .catch(() => false)

function endedEarly(reason: string, log: Log): Failure {
  const lines = lastLines(log)
  const output =
    lines.length > 0 ? ` Last lines of its log:\n${lines.map(line => `    ${line}`).join('\n')}` : ''
  return new Failure(
    'start_failed',
    `The platform ended with ${reason} while starting.${output}`,
    `See ${log.path}`,
  )
}

const tooSlow = (pid: number, log: Log) =>
  new Failure(
    'start_timeout',
    `The platform (pid ${pid}) is not healthy after ${healthyWithinMs / 1000} s. It continues to start.`,
    `See ${log.path}. plinth stop stops it.`,
  )

/** Of this start only. Entries of the structured log are reduced to their message. */
function lastLines({ path, from }: Log): string[] {
  const written = readFileSync(path).subarray(from).toString('utf8')
  return written.trim().split('\n').filter(Boolean).slice(-10).map(plain)
}

function plain(line: string): string {
  try {
    const { level, msg, err } = JSON.parse(line) as { level: string; msg: string; err?: { message?: string } }
    return [level, msg, err?.message].filter(Boolean).join(' ')
  } catch {
    return line
  }
}
