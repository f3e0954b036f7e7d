// Keeps the logs of projects within their age and size.
import { startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import * as store from './store.ts'

export interface StorageLimits {
  /** Of the lines of a project, and of its access log. */
  maxProjectBytes: number
  trimEveryMs: number
  pruneEveryMs: number
}

const usual: StorageLimits = {
  maxProjectBytes: 64 * 1024 * 1024,
  trimEveryMs: 60_000,
  pruneEveryMs: 3_600_000,
}
/** An access log that is too large is trimmed to this part, so that it is not trimmed every time. */
const trimmedTo = 0.9

interface CleaningDeps extends Partial<StorageLimits> {
  control: Database
  log: Log
  retentionDays: number
}

export function startCleaning({ control, log, retentionDays, ...limits }: CleaningDeps) {
  const { maxProjectBytes, trimEveryMs, pruneEveryMs } = { ...usual, ...limits }

  /** Projects with new lines since they were last trimmed. */
  const grown = new Set<string>()

  async function trim(signal: AbortSignal): Promise<void> {
    const large = await store.projectsWithLargeBlocks(control, maxProjectBytes)
    for (const { project_id: id } of large) {
      const maxBytes = Math.floor(maxProjectBytes * trimmedTo)
      while (!signal.aborted && (await store.removeExcessBlocks(control, id, maxBytes)) > 0);
    }
    for (const id of grown) {
      if (signal.aborted) return
      grown.delete(id)
      await store.trim(control, id, maxProjectBytes)
    }
  }

  async function prune(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && (await store.removeOld(control, retentionDays)) > 0);
    for (;;) {
      const old = await store.projectsWithOldBlocks(control, retentionDays)
      if (old.length === 0) return
      for (const { project_id: id } of old)
        while ((await store.removeOldBlocks(control, id, retentionDays)) > 0) if (signal.aborted) return
    }
  }

  const chores = [
    startChore({ name: 'trim the logs of projects', everyMs: trimEveryMs, run: trim }, log),
    startChore(
      { name: 'remove old log entries of projects', everyMs: pruneEveryMs, runsAtStart: true, run: prune },
      log,
    ),
  ]
  return {
    linesWritten: (projectId: string) => void grown.add(projectId),
    async stop() {
      await Promise.all(chores.map(chore => chore.stop()))
    },
  }
}
