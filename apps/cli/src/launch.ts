// Starting the server in the background and watching it until it is healthy.
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
import { Failure } from './failure.ts'
import { askHealth } from './health.ts'
import { inspect, type PlatformRecord, readRecord } from './local-platform.ts'
import { serverEntry, serverOptions } from './server-process.ts'

const healthyWithinMs = 60_000
const maxLogBytes = 10 * 1024 * 1024

export interface Log {
  path: string
  /** Bytes it had before this start. */
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

/** As the server makes it: as root the database user must be able to pass through, and may not look around. */
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
  /** How it ended, once it has. */
  ended(): string | null
}

/** In a session of its own, so that neither Ctrl-C here nor a closed terminal ends it. */
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
  const ended = () => child.signalCode ?? (child.exitCode === null ? null : `code ${child.exitCode}`)
  return { pid, ended }
}

/** So that `plinth stop` right after `plinth start --no-wait` finds it, and a wrong setting is still reported. */
export async function taken(dataDir: string, server: Server, log: Log): Promise<void> {
  const deadline = performance.now() + 5000
  while (inspect(dataDir).lock?.pid !== server.pid && performance.now() < deadline) {
    const how = server.ended()
    if (how !== null) throw endedEarly(how, log)
    await sleep(20)
  }
}

export async function healthy(
  context: Context,
  dataDir: string,
  server: Server,
  log: Log,
): Promise<PlatformRecord> {
  const { screen } = context
  const leave = () => screen.hint(`\nThe platform keeps starting (pid ${server.pid}); plinth stop ends it.`)
  process.prependOnceListener('SIGINT', leave)
  const deadline = performance.now() + healthyWithinMs
  let listening = false
  try {
    for (;;) {
      const how = server.ended()
      if (how !== null) throw endedEarly(how, log)
      const record = readRecord(dataDir)
      if (record?.pid === server.pid) {
        if (!listening) screen.step('The database is ready')
        listening = true
        if (await isHealthy(record.url)) {
          screen.step(`Healthy at ${record.url}`)
          return record
        }
      }
      if (performance.now() > deadline) throw tooSlow(server.pid, log)
      await sleep(50)
    }
  } finally {
    process.off('SIGINT', leave)
  }
}

const isHealthy = (url: string): Promise<boolean> =>
  askHealth(url, '/health', AbortSignal.timeout(5000))
    .then(({ isOk }) => isOk)
    .catch(() => false)

function endedEarly(how: string, log: Log): Failure {
  const lines = lastLines(log)
  const said = lines.length > 0 ? ` It said:\n${lines.map(line => `    ${line}`).join('\n')}` : ''
  return new Failure(
    'start_failed',
    `The platform ended with ${how} while starting.${said}`,
    `See ${log.path}`,
  )
}

const tooSlow = (pid: number, log: Log) =>
  new Failure(
    'start_timeout',
    `The platform (pid ${pid}) is not healthy after ${healthyWithinMs / 1000} s; it keeps trying.`,
    `See ${log.path}; plinth stop ends it.`,
  )

/** Of this start only; entries of the structured log are reduced to what they say. */
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
