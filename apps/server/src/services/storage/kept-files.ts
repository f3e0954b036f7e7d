// Bytes of removed files that a recovery to a time may still need. They are outside the quota of the project, but at most as
// many as the quota are kept.
import type { RunningChore } from '#src/kernel/chores.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import { pieceNames } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { hasWayBack } from '#src/tenancy/instance-cutover.ts'
import { insertKept, takeOver } from './kept-files-store.ts'
import { defaultQuotaMegabytes } from './usage.ts'
import type { StoredFile } from './usage-store.ts'

export interface KeptFiles {
  /** Keeps files that are being removed. Returns those that are not kept. */
  keep(project: string, files: readonly StoredFile[]): Promise<readonly StoredFile[]>
  close(): Promise<void>
}

const hourMs = 3_600_000
const batch = 500

/**
 * With 0 days nothing is kept, and what was kept before is removed. While the cluster before a recovery of the instance can
 * be put back, everything is kept.
 */
export function createKeptFiles(control: Database, pieces: Pieces, days: number, log: Log): KeptFiles {
  async function removeOver(signal: AbortSignal): Promise<void> {
    if (await hasWayBack(control)) return
    for (;;) {
      const over = await takeOver(control, days, batch)
      for (const { project, version, size } of over) await pieces.remove(pieceNames(project, version, size))
      if (over.length < batch || signal.aborted) return
    }
  }
  const chore: RunningChore = startChore(
    { name: 'storage: kept files', everyMs: hourMs, runsAtStart: true, run: removeOver },
    log,
  )
  return {
    async keep(project, files) {
      if (files.length === 0 || (days === 0 && !(await hasWayBack(control)))) return files
      const kept = await insertKept(control, project, files, defaultQuotaMegabytes)
      return files.filter(({ version }) => !kept.has(version))
    },
    close: () => chore.stop(),
  }
}
