import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer, Context } from '../context.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'
import {
  bornAt,
  childrenOf,
  commandLine,
  dataDirectory,
  inspect,
  isAlive,
  type LocalPlatform,
  type Lock,
  memoryBytes,
  postmasterPid,
} from '../local-platform.ts'
import { bytes, duration, table } from '../print.ts'
import { runServer } from '../server-process.ts'

const stopWaitMs = 30_000
const forceWaitMs = 5_000

export async function ps(context: Context): Promise<Answer> {
  const platform = inspect(dataDirectory(context))
  const processes = processesOf(platform)
  return {
    data: { data_dir: platform.dataDir, processes },
    hints: processes.length === 0 ? [`Nothing runs for ${platform.dataDir}: plinth start starts it.`] : [],
    text: paint =>
      processes.length === 0
        ? ''
        : table(
            paint,
            ['PID', 'NAME', 'STATE', 'UP', 'MEMORY'],
            processes.map(each => [
              each.pid,
              each.name,
              each.state,
              each.uptime_seconds === null ? null : duration(each.uptime_seconds),
              each.memory_bytes === null ? null : bytes(each.memory_bytes),
            ]),
          ),
  }
}

interface Process {
  pid: number
  name: string
  state: string
  uptime_seconds: number | null
  memory_bytes: number | null
}

function processesOf({ dataDir, lock, state }: LocalPlatform): Process[] {
  const describe = (each: number, name: string, itsState = 'running'): Process => {
    const born = bornAt(each)
    const uptime = born === null ? null : Math.max(0, Math.round((Date.now() - born) / 1000))
    return { pid: each, name, state: itsState, uptime_seconds: uptime, memory_bytes: memoryBytes(each) }
  }
  const postmaster = postmasterPid(dataDir)
  const workers = postmaster === null ? [] : childrenOf(postmaster)
  return [
    ...(lock ? [describe(lock.pid, 'platform', state)] : []),
    ...(postmaster === null ? [] : [describe(postmaster, 'postgres')]),
    ...workers.flatMap(each => {
      const name = commandLine(each)?.trim()
      return name ? [describe(each, name)] : []
    }),
  ]
}

export async function stop(context: Context): Promise<Answer> {
  const platform = inspect(dataDirectory(context))
  await stopPlatform(context, platform)
  const { dataDir } = platform
  const pid = platform.lock?.pid ?? null
  return {
    data: { data_dir: dataDir, stopped: pid !== null, pid },
    text: () =>
      pid === null ? `No platform runs for ${dataDir}.` : 'The platform is stopped; its data stays.',
  }
}

/** SIGTERM lets it finish its requests. Only a process proven to be this platform is ever signalled. */
export async function stopPlatform({ given, screen }: Context, platform: LocalPlatform): Promise<void> {
  const { lock } = platform
  if (!lock) return
  const { pid } = lock
  screen.progress(`Stopping the platform (pid ${pid})`)
  signal(pid, 'SIGTERM')
  const isForced = given.switches.has('force')
  const patience = isForced ? forceWaitMs : stopWaitMs
  if (await isGone(lock, patience)) return screen.step('Stopped')
  if (!isForced) {
    throw new Failure(
      'stop_timeout',
      `The platform (pid ${pid}) was told to stop and is still running after ${patience / 1000} s.`,
      'Wait and run plinth ps, or end it with plinth stop --force.',
    )
  }
  signal(pid, 'SIGKILL')
  if (!(await isGone(lock, forceWaitMs)))
    throw new Failure('stop_timeout', `The platform (pid ${pid}) does not end, not even when killed.`)
  screen.step('Killed; its database is tidied up by the next start')
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ESRCH') return
    throw new Failure(
      'not_permitted',
      `The platform (pid ${pid}) may not be stopped by this user (${code}).`,
      'Run the command as the user who started it.',
      cause,
    )
  }
}

async function isGone(lock: Lock, waitMs: number): Promise<boolean> {
  const deadline = performance.now() + waitMs
  while (isAlive(lock)) {
    if (performance.now() > deadline) return false
    await sleep(50)
  }
  return true
}

export async function down(context: Context): Promise<Answer> {
  const { given } = context
  const platform = inspect(dataDirectory(context))
  const removes = given.switches.has('volumes')
  if (removes) await confirmRemoval(context, platform.dataDir)
  await stopPlatform(context, platform)
  const removed = removes ? await removeData(context) : []
  const stopped = platform.lock ? 'The platform is stopped' : 'No platform was running'
  return {
    data: { data_dir: platform.dataDir, stopped: platform.lock !== null, removed },
    text: () =>
      removes
        ? [`${stopped}. Removed:`, ...removed.map(path => `  ${path}`)].join('\n')
        : `${stopped}; its data stays in ${platform.dataDir}.`,
  }
}

async function confirmRemoval({ given, screen, cwd, environment }: Context, dataDir: string): Promise<void> {
  if (setting(environment, 'DATABASE_URL'))
    screen.warn('DATABASE_URL is set: what is in that database is not removed.')
  if (given.switches.has('yes')) return
  if (!screen.isInteractive) {
    throw new Failure(
      'confirmation_missing',
      `Removing ${dataDir} needs a confirmation and nobody can be asked for it here.`,
      'Run it again with --yes',
    )
  }
  const [{ ask }, { sizeOfData }, { relative }] = await Promise.all([
    import('../prompt.ts'),
    import('../data-size.ts'),
    import('node:path'),
  ])
  const name = relative(cwd, dataDir) || dataDir
  screen.hint(`Every project in ${dataDir} goes for good: ${bytes(sizeOfData(dataDir))}.`)
  if ((await ask(`Type ${name} to remove it: `)).trim() === name) return
  throw new Failure('confirmation_mismatch', `That is not ${name}. Nothing was removed.`, 'Run it again.')
}

async function removeData(context: Context): Promise<string[]> {
  const { code, stdout, stderr } = await runServer(context, ['remove-data'])
  if (code !== 0) throw new Failure('remove_failed', stderr.trim() || `the server ended with code ${code}`)
  const { removed } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { removed: string[] }
  return removed
}
