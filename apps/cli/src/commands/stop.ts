import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer, Context } from '../context.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'
import { dataDirectory, inspect, isAlive, type LocalPlatform, type Lock } from '../local-platform.ts'
import { bytes } from '../print.ts'
import { runServer } from '../server-process.ts'

const stopWaitMs = 30_000
const forceWaitMs = 5_000

export async function stop(context: Context): Promise<Answer> {
  const platform = inspect(dataDirectory(context))
  await stopPlatform(context, platform)
  const { dataDir } = platform
  const pid = platform.lock?.pid ?? null
  return {
    data: { data_dir: dataDir, stopped: pid !== null, pid },
    text: () =>
      pid === null ? `No platform is running for ${dataDir}.` : 'The platform is stopped. Its data is kept.',
  }
}

/** SIGTERM lets it finish its requests. Only a process that is verified to be this platform gets a signal. */
export async function stopPlatform({ given, screen }: Context, platform: LocalPlatform): Promise<void> {
  const { lock } = platform
  if (!lock) return
  const { pid } = lock
  screen.progress(`Stopping the platform (pid ${pid})`)
  signal(pid, 'SIGTERM')
  const isForced = given.switches.has('force')
  const timeoutMs = isForced ? forceWaitMs : stopWaitMs
  if (await isGone(lock, timeoutMs)) return screen.step('Stopped')
  if (!isForced) {
    throw new Failure(
      'stop_timeout',
      `The platform (pid ${pid}) received SIGTERM and is still running after ${timeoutMs / 1000} s.`,
      'Wait and run plinth ps, or kill it with plinth stop --force.',
    )
  }
  signal(pid, 'SIGKILL')
  if (!(await isGone(lock, forceWaitMs)))
    throw new Failure('stop_timeout', `The platform (pid ${pid}) is still running after SIGKILL.`)
  screen.step('Killed. The next start recovers its database')
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ESRCH') return
    throw new Failure(
      'not_permitted',
      `This user may not stop the platform (pid ${pid}): ${code}.`,
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
        : `${stopped}. Its data is kept in ${platform.dataDir}.`,
  }
}

async function confirmRemoval(context: Context, dataDir: string): Promise<void> {
  const { given, screen, cwd, environment } = context
  if (setting(environment, 'DATABASE_URL'))
    screen.warn('DATABASE_URL is set: the data in that database is not removed.')
  if (given.switches.has('yes')) return
  if (!screen.isInteractive) {
    throw new Failure(
      'confirmation_missing',
      `Removing ${dataDir} needs a confirmation, and there is no terminal to ask for it.`,
      'Run it again with --yes',
    )
  }
  const [{ ask }, { sizeOfData }, { relative }] = await Promise.all([
    import('../prompt.ts'),
    import('../data-size.ts'),
    import('node:path'),
  ])
  const name = relative(cwd, dataDir) || dataDir
  screen.hint(`Every project in ${dataDir} will be deleted permanently: ${bytes(sizeOfData(dataDir))}.`)
  if ((await ask(context, `Type ${name} to remove it: `)).trim() === name) return
  throw new Failure('confirmation_mismatch', `That is not ${name}. Nothing was removed.`, 'Run it again.')
}

async function removeData(context: Context): Promise<string[]> {
  const { code, stdout, stderr } = await runServer(context, ['remove-data'])
  if (code !== 0) throw new Failure('remove_failed', stderr.trim() || `the server ended with code ${code}`)
  const { removed } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { removed: string[] }
  return removed
}
