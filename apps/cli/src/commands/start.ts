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
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { defaultUrl } from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'
import {
  dataDirectory,
  inspect,
  type LocalPlatform,
  type PlatformRecord,
  readRecord,
  readSecrets,
  startingPath,
} from '../local-platform.ts'
import { fields } from '../print.ts'
import { repository, serverEntry } from '../server-process.ts'
import { stopPlatform } from './stack.ts'

const healthyWithinMs = 60_000
const maxLogBytes = 10 * 1024 * 1024

export async function start(context: Context): Promise<Answer> {
  const dataDir = dataDirectory(context)
  const before = inspect(dataDir)
  if (before.state !== 'stopped') return alreadyThere(before)
  if (context.given.switches.has('build')) await build(context)

  const isFirst = !existsSync(join(dataDir, 'secrets.json'))
  const log = openLog(dataDir)
  const server = await launch(context, dataDir, log)
  context.screen.step(`Started the process (pid ${server.pid}), log in ${log.path}`)
  if (context.given.switches.has('no-wait')) return started(dataDir, server.pid)

  if (isFirst) context.screen.progress('Preparing the database; the first start takes a few seconds')
  const record = await healthy(context, dataDir, server, log)
  return running(context, record, dataDir, isFirst)
}

export async function restart(context: Context): Promise<Answer> {
  await stopPlatform(context, inspect(dataDirectory(context)))
  return start(context)
}

function alreadyThere({ state, pid, record, dataDir }: LocalPlatform): Answer {
  const url = record?.url ?? null
  const where = url ? ` at ${url}` : ''
  return {
    data: { state, pid, url, version: record?.version ?? null, data_dir: dataDir, already_running: true },
    text: () => `The platform of ${dataDir} is already ${state}${where} (pid ${pid}).`,
  }
}

const started = (dataDir: string, pid: number): Answer => ({
  data: { state: 'starting', pid, url: null, version: null, data_dir: dataDir, already_running: false },
  text: () => `The platform is starting (pid ${pid}); plinth status --local shows how far it is.`,
})

async function build({ screen, environment }: Context): Promise<void> {
  screen.progress('npm ci')
  // What npm says is no result: it goes to our stderr.
  const npm = spawn('npm', ['ci'], { cwd: repository, env: environment, stdio: ['ignore', 2, 2] })
  const [code] = (await once(npm, 'close').catch(cause => {
    throw new Failure('build_failed', 'npm could not be run.', 'Install npm, which comes with Node.', cause)
  })) as [number | null]
  if (code !== 0) throw new Failure('build_failed', `npm ci in ${repository} ended with code ${code}.`)
  screen.step('Installed what the lockfile names')
}

interface Log {
  path: string
  /** Bytes it had before this start. */
  from: number
  descriptor: number
}

function openLog(dataDir: string): Log {
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

interface Server {
  pid: number
  /** How it ended, once it has. */
  ended(): string | null
}

/** In a session of its own, so that neither Ctrl-C here nor a closed terminal ends it. */
async function launch(context: Context, dataDir: string, log: Log): Promise<Server> {
  const child = spawn(process.execPath, [serverEntry()], {
    cwd: context.cwd,
    env: context.environment,
    detached: true,
    stdio: ['ignore', log.descriptor, log.descriptor],
  })
  await once(child, 'spawn')
  closeSync(log.descriptor)
  child.unref()
  const pid = child.pid!
  const note = { pid, started_at: new Date().toISOString() }
  writeFileSync(startingPath(dataDir), `${JSON.stringify(note)}\n`, { mode: 0o600 })
  const ended = () => child.signalCode ?? (child.exitCode === null ? null : `code ${child.exitCode}`)
  return { pid, ended }
}

async function healthy(context: Context, dataDir: string, server: Server, log: Log): Promise<PlatformRecord> {
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
          rmSync(startingPath(dataDir), { force: true })
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

async function isHealthy(url: string): Promise<boolean> {
  try {
    const reply = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5000) })
    await reply.arrayBuffer()
    return reply.ok
  } catch {
    return false
  }
}

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

function running(context: Context, record: PlatformRecord, dataDir: string, isFirst: boolean): Answer {
  const { environment, screen } = context
  const { url, version, pid } = record
  if (url !== defaultUrl && !url.endsWith('127.0.0.1:39001'))
    screen.hint(`Tell the command line where it is: plinth link ${url}`)
  screen.hint('Next: plinth projects create my-app')
  const token = readSecrets(dataDir)['PLATFORM_ADMIN_TOKEN']
  const isGenerated = token !== undefined && !setting(environment, 'PLATFORM_ADMIN_TOKEN')
  const isShown = isGenerated && isFirst && screen.isTerminal && screen.format === 'text'
  const where = isGenerated
    ? `in ${join(dataDir, 'secrets.json')}; plinth finds it there by itself`
    : setting(environment, 'PLATFORM_ADMIN_TOKEN')
      ? 'as set in PLATFORM_ADMIN_TOKEN'
      : 'none: plinth bootstrap --email … makes the first super_admin'
  return {
    data: { state: 'running', pid, url, version, data_dir: dataDir, already_running: false },
    text: paint =>
      [
        `Plinth ${version} is running at ${paint.bold(url)}`,
        fields(paint, [
          ['data', dataDir],
          ...(isShown ? [['admin token (shown once)', token] as const] : []),
          ['admin token', where],
        ]),
      ].join('\n'),
  }
}
