// Bounds what the deliveries of one project take in the control database, which its quota does not count. While too much
// waits, further changes stay in the project database, and nothing is lost. Of dead letters the oldest are deleted.
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { remember } from '#src/kernel/remember.ts'
import { deleteOldestDead, measureStored } from './deliveries-store.ts'

interface StoredDeps {
  control: Database
  /** Of waiting deliveries, and of dead letters as well. */
  maxBytes: number
  log: Log
}

export interface StoredBytes {
  /** Rejects while too much waits. */
  makeRoom(projectId: string): Promise<void>
  /** Counts what was queued since the last measurement. */
  added(projectId: string, bytes: number): void
}

interface Measured {
  isFull: boolean
  until: number
  added: number
}

const measureMs = 5000
/** Measuring takes longer the more is stored, and may use this part of the time. */
const share = 0.02
const maxRemembered = 10_000

export function createStoredBytes({ control, maxBytes, log }: StoredDeps): StoredBytes {
  const measured = new Map<string, Measured>()

  async function measure(projectId: string): Promise<Measured> {
    const startedAt = performance.now()
    const { waiting, dead } = await measureStored(control, projectId)
    if (dead > maxBytes) {
      const deleted = await deleteOldestDead(control, projectId, maxBytes * 0.9)
      log.warn({ project: projectId, deleted }, 'the oldest dead letters of a project were deleted')
    }
    const endedAt = performance.now()
    const found = {
      isFull: waiting > maxBytes,
      until: endedAt + Math.max(measureMs, (endedAt - startedAt) / share),
      added: 0,
    }
    remember(measured, projectId, found, maxRemembered)
    return found
  }

  return {
    async makeRoom(projectId) {
      const before = measured.get(projectId)
      const isKnown = before && performance.now() < before.until && before.added < maxBytes / 4
      const { isFull } = isKnown ? before : await measure(projectId)
      if (isFull)
        throw new Error(
          `over ${maxBytes / 1e6} MB of deliveries wait for the webhooks of the project (WEBHOOK_MAX_STORED_MB)`,
        )
    },
    added(projectId, bytes) {
      const entry = measured.get(projectId)
      if (entry) entry.added += bytes
    },
  }
}
