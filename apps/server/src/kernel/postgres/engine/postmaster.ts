import { closeSync, constants, fstatSync, openSync, readSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { clearLeftovers, endLingeringBackends } from './leftovers.ts'
import type { Place } from './place.ts'
import { endPostgres, hasExited, type Started, startProcess } from './process.ts'
import { isReady } from './ready.ts'
import { asArguments, quotedDirectory } from './settings.ts'

export interface Launch {
  place: Place
  native: string
  port: number
  settings: Record<string, string>
  /** Once aborted, a launch under way is undone and rejects. */
  stopping: AbortSignal
}

export interface Postmaster {
  /** Says how it ended. */
  exited: Promise<string>
  stop(): Promise<void>
}

/** It ended before it took connections; `log` is what it wrote. */
interface EarlyExit {
  how: string
  log: string
}

const maxLogBytes = 10 * 1024 * 1024
const sharedMemoryWaitMs = 10_000

/** Resolves when the server takes connections; `undefined` when somebody else holds the port. */
export async function launchPostmaster(launch: Launch): Promise<Postmaster | undefined> {
  const { clusterDir, socketDir, logFile } = launch.place
  const deadline = performance.now() + sharedMemoryWaitMs
  for (;;) {
    await clearLeftovers(clusterDir, socketDir)
    const outcome = await attempt(launch)
    if ('exited' in outcome) return outcome
    if (outcome.log.includes('Address already in use')) return undefined
    if (!outcome.log.includes('pre-existing shared memory block') || performance.now() > deadline) {
      const lastLines = outcome.log.trim().split('\n').slice(-10).join('\n')
      throw new Error(`Postgres ended with ${outcome.how} while starting (see ${logFile}):\n${lastLines}`)
    }
    endLingeringBackends(clusterDir)
    await sleep(100)
  }
}

async function attempt(launch: Launch): Promise<Postmaster | EarlyExit> {
  const { place, port, stopping } = launch
  stopping.throwIfAborted()
  const log = openLog(place.logFile)
  try {
    const started = await startProcess({
      ...(place.user && { user: place.user }),
      binary: join(launch.native, 'bin/postgres'),
      args: ['-D', place.clusterDir, ...asArguments(allSettings(launch))],
      cwd: place.home,
      // A file, because a pipe breaks when Node is killed, and the orphan with it.
      stdio: ['ignore', log.descriptor, log.descriptor],
      detached: true,
    })
    started.child.unref()
    const postmaster = { exited: started.exited, stop: () => stop(started) }
    while (!hasExited(started)) {
      if (stopping.aborted) {
        await postmaster.stop()
        stopping.throwIfAborted()
      }
      // Recovery after a crash takes as long as it takes; while the process lives there is nothing to give up on.
      if (await isReady(place.clusterDir, place.socketDir, port)) return postmaster
      await sleep(10)
    }
    return { how: await started.exited, log: log.written() }
  } finally {
    closeSync(log.descriptor)
  }
}

function allSettings({ place, port, settings }: Launch): Record<string, string> {
  return { ...settings, port: String(port), unix_socket_directories: quotedDirectory(place.socketDir) }
}

function stop(started: Started): Promise<void> {
  return endPostgres(
    started.child.pid!,
    name => started.child.kill(name),
    () => hasExited(started),
    10_000,
  )
}

/** Remembers where it ended when opened, to show what one launch has written. */
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
