import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isSameLoopback, resolveTarget } from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'
import { launch, openLog, waitForLock, waitUntilHealthy } from '../launch.ts'
import {
  dataDirectory,
  inspect,
  type LocalPlatform,
  type PlatformRecord,
  readSecrets,
} from '../local-platform.ts'
import { fields } from '../print.ts'
import { repository } from '../server-process.ts'
import { stopPlatform } from './stop.ts'

export async function start(context: Context): Promise<Answer> {
  const dataDir = dataDirectory(context)
  const expected = resolveTarget(context).connectUrl
  const before = inspect(dataDir)
  if (before.state !== 'stopped') return alreadyRunning(before)
  if (context.given.switches.has('build')) await build(context)

  const isFirst = !existsSync(join(dataDir, 'secrets.json'))
  const log = openLog(dataDir)
  const server = await launch(context, log)
  context.screen.step(`Started the process (pid ${server.pid}), log in ${log.path}`)
  if (context.given.switches.has('no-wait')) {
    await waitForLock(dataDir, server, log)
    return started(dataDir, server.pid)
  }

  if (isFirst) context.screen.progress('Preparing the database; the first start takes a few seconds')
  const record = await waitUntilHealthy(context, dataDir, server, log)
  return running(context, record, { dataDir, isFirst, isDefaultTarget: isSameLoopback(record.url, expected) })
}

export async function restart(context: Context): Promise<Answer> {
  await stopPlatform(context, inspect(dataDirectory(context)))
  return start(context)
}

function alreadyRunning({ state, lock, record, dataDir }: LocalPlatform): Answer {
  const pid = lock?.pid ?? null
  const url = record?.url ?? null
  const where = url ? ` at ${url}` : ''
  return {
    data: { state, pid, url, version: record?.version ?? null, data_dir: dataDir, already_running: true },
    text: () => `The platform of ${dataDir} is already ${state}${where} (pid ${pid}).`,
  }
}

const started = (dataDir: string, pid: number): Answer => ({
  data: { state: 'starting', pid, url: null, version: null, data_dir: dataDir, already_running: false },
  text: () => `The platform is starting (pid ${pid}); plinth status --local shows its state.`,
})

async function build({ screen, environment, stderr }: Context): Promise<void> {
  screen.progress('npm ci')
  const npm = spawn('npm', ['ci'], {
    cwd: repository,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  // stdout is for the result of the command.
  npm.stdout.pipe(stderr, { end: false })
  npm.stderr.pipe(stderr, { end: false })
  const [code] = (await once(npm, 'close').catch(cause => {
    throw new Failure('build_failed', 'npm could not be run.', 'Install npm, which comes with Node.', cause)
  })) as [number | null]
  if (code !== 0)
    throw new Failure(
      'build_failed',
      `npm ci in ${repository} ended with code ${code}.`,
      'See the output of npm above.',
    )
  screen.step('Installed the packages of the lockfile')
}

interface StartState {
  dataDir: string
  /** This start generated the secrets. */
  isFirst: boolean
  /** The command line calls this platform without further settings. */
  isDefaultTarget: boolean
}

function running(
  context: Context,
  record: PlatformRecord,
  { dataDir, isFirst, isDefaultTarget }: StartState,
): Answer {
  const { environment, screen } = context
  const { url, version, pid, next_command: next } = record
  const token = setting(environment, 'DATABASE_URL')
    ? undefined
    : readSecrets(dataDir)['PLATFORM_ADMIN_TOKEN']
  const isGenerated = token !== undefined && !setting(environment, 'PLATFORM_ADMIN_TOKEN')
  const isShown = isGenerated && isFirst && screen.isTerminal && screen.format === 'text'
  const where = isGenerated
    ? `in ${join(dataDir, 'secrets.json')}; plinth reads it from there`
    : setting(environment, 'PLATFORM_ADMIN_TOKEN')
      ? 'as set in PLATFORM_ADMIN_TOKEN'
      : 'none: plinth bootstrap --email … creates the first super_admin'
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
    hints: [
      ...(isDefaultTarget ? [] : [`To use it from this directory: plinth link ${url}`]),
      ...(next === null ? [] : [`Next: plinth ${next}`]),
    ],
  }
}
