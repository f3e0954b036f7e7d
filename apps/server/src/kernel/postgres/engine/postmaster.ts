import { closeSync, constants, fstatSync, openSync, readSync, renameSync, statSync } from 'node:fs'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { EarlyExit, type LaunchedChild, launch } from '#src/kernel/child-processes/launch.ts'
import { clearLeftovers, endLingeringBackends } from './leftovers.ts'
import type { Place } from './place.ts'
import { isReady } from './ready.ts'
import { asArguments, engineEnvironment, quotedDirectory } from './settings.ts'
import { postgresStopSteps } from './stop-steps.ts'

export interface PostmasterOptions {
  place: Place
  native: string
  port: number
  settings: Record<string, string>
  /** If it aborts during the launch, the postmaster is stopped and the launch rejects. */
  stopping: AbortSignal
}

/** The postmaster ended before it accepted connections. */
interface FailedStart {
  how: string
  log: string
}

const maxLogBytes = 10 * 1024 * 1024
const sharedMemoryWaitMs = 10_000
const stopMs = 10_000
const pollMs = 10

/**
 * The memory of one session, besides the shared memory: an eighth of the machine's, at least 1 GiB. A statement that needs
 * more fails. Without a limit, one `alter table` could take all memory, and the system would kill a session, after which
 * Postgres ends all others and recovers.
 */
export const sessionBytes = Math.max(1024 ** 3, Math.floor(totalMemory() / 8))
/** Every session inherits the limit. Where the system has none, Postgres starts without it. */
const limited = ['-c', `ulimit -d ${Math.floor(sessionBytes / 1024)} 2>/dev/null; exec "$0" "$@"`]

/** Of the machine, or of the container. */
function totalMemory(): number {
  const allowed = process.constrainedMemory()
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem()
}

/** Resolves when the server accepts connections, or to undefined if another program uses the port. */
export async function launchPostmaster(options: PostmasterOptions): Promise<LaunchedChild | undefined> {
  const { clusterDir, socketDir, logFile } = options.place
  const deadline = performance.now() + sharedMemoryWaitMs
  for (;;) {
    await clearLeftovers(clusterDir, socketDir)
    const outcome = await attempt(options)
    if ('pid' in outcome) return outcome
    if (outcome.log.includes('Address already in use')) return undefined
    if (!outcome.log.includes('pre-existing shared memory block') || performance.now() > deadline) {
      const lastLines = outcome.log.trim().split('\n').slice(-10).join('\n')
      throw new Error(`Postgres ended with ${outcome.how} while starting (see ${logFile}):\n${lastLines}`)
    }
    endLingeringBackends(clusterDir)
    await sleep(100)
  }
}

async function attempt(options: PostmasterOptions): Promise<LaunchedChild | FailedStart> {
  const { place, port, stopping } = options
  stopping.throwIfAborted()
  const log = openLog(place.logFile)
  try {
    return await launch({
      name: 'Postgres',
      command: {
        user: place.user,
        binary: '/bin/sh',
        args: [
          ...limited,
          join(options.native, 'bin/postgres'),
          ...['-D', place.clusterDir],
          ...asArguments(allSettings(options)),
        ],
        env: engineEnvironment,
        cwd: place.home,
        // A file: if Node is killed, a pipe breaks, and Postgres ends when it writes to it.
        stdio: ['ignore', log.descriptor, log.descriptor],
        detached: true,
        inBackground: true,
      },
      // Without a deadline, because recovery after a crash may take long.
      async handshake(_, signal) {
        while (!(await isReady(place.clusterDir, place.socketDir, port)) && !signal.aborted)
          await sleep(pollMs)
      },
      stopSteps: pid => postgresStopSteps(pid, stopMs),
      signal: stopping,
    })
  } catch (error) {
    if (!(error instanceof EarlyExit)) throw error
    return { how: error.how, log: log.written() }
  } finally {
    closeSync(log.descriptor)
  }
}

function allSettings({ place, port, settings }: PostmasterOptions): Record<string, string> {
  return { ...settings, port: String(port), unix_socket_directories: quotedDirectory(place.socketDir) }
}

/** `written` returns what was added to the log since it was opened. */
function openLog(path: string): { descriptor: number; written(): string } {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size > maxLogBytes) renameSync(path, `${path}.1`)
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  const descriptor = openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
  const start = fstatSync(descriptor).size
  const written = () => {
    const buffer = Buffer.alloc(Math.min(fstatSync(descriptor).size - start, 64 * 1024))
    return buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, buffer.length, start))
  }
  return { descriptor, written }
}
