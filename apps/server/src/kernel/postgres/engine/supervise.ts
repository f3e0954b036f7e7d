import { setTimeout as sleep } from 'node:timers/promises'
import type { Postmaster } from './postmaster.ts'

export interface EngineLog {
  info(o: object, msg: string): void
  warn(o: object, msg: string): void
  error(o: object, msg: string): void
}

const backoffMs = [200, 500, 1000, 2000, 5000]
const stableAfterMs = 60_000

/** Starts Postgres again whenever it ends by itself. Resolves when told to stop and it has ended. */
export async function keepRunning(
  first: Postmaster,
  relaunch: () => Promise<Postmaster | undefined>,
  stopping: AbortSignal,
  log: EngineLog,
): Promise<void> {
  const stopRequested = new Promise<'stop'>(resolve => {
    stopping.addEventListener('abort', () => resolve('stop'), { once: true })
  })
  let running: Postmaster | undefined = first
  let failures = 0
  while (!stopping.aborted) {
    if (running) {
      const since = performance.now()
      const how: string = await Promise.race([running.exited, stopRequested])
      if (stopping.aborted) return running.stop()
      log.error({ how }, 'the database ended by itself, starting it again')
      if (performance.now() - since > stableAfterMs) failures = 0
    }
    // Nothing here needs to keep Node alive: what Node leaves behind, the next start cleans up.
    await sleep(backoffMs[Math.min(failures++, backoffMs.length - 1)], null, {
      signal: stopping,
      ref: false,
    }).catch(() => {})
    running = stopping.aborted ? undefined : await tryAgain(relaunch, stopping, log)
  }
  await running?.stop()
}

async function tryAgain(
  relaunch: () => Promise<Postmaster | undefined>,
  stopping: AbortSignal,
  log: EngineLog,
): Promise<Postmaster | undefined> {
  try {
    const postmaster = await relaunch()
    if (postmaster) log.info({}, 'the database runs again')
    else log.error({}, 'another program took the port of the database, which cannot start until that is free')
    return postmaster
  } catch (error) {
    if (!stopping.aborted) log.error({ err: error }, 'the database could not be started again')
    return undefined
  }
}
