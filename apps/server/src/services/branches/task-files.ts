// Removes the files of tasks that have ended, if that was not possible at their end. In places of its own, because a service
// for files that hangs would keep those in which branches are made.
import type { Log } from '#src/kernel/log.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import * as store from './store.ts'

/** Between two attempts. */
export const filesPauseSeconds = 60
/** The next attempt goes on with what is left. */
const longestMs = 60_000
const leaseSeconds = 90

type Outcome = 'removed' | 'left'

interface TaskFilesDeps {
  control: Database
  pieces: Pieces
  log: Log
}

export function startTaskFilesWorker({ control, pieces, log }: TaskFilesDeps): Worker {
  async function act({ id, branch_id: project }: store.Task, signal: AbortSignal): Promise<Outcome> {
    try {
      await pieces.removeFolder(id, AbortSignal.any([signal, AbortSignal.timeout(longestMs)]))
      return 'removed'
    } catch (error) {
      log.warn({ err: error, project }, 'could not remove the archive of a branch; will retry')
      return 'left'
    }
  }

  return startWorker<store.Task, Outcome>(
    {
      name: 'branches: files of tasks',
      bounds: { all: 2, perProject: 2 },
      pollMs: 10_000,
      graceMs: 1000,
      claim: room => store.claimFileTasks(control, room.jobs, leaseSeconds),
      nextDueMs: () => store.nextFilesDueMs(control),
      act,
      async record(task, outcome) {
        await (outcome === 'removed'
          ? store.deleteTask(control, task)
          : store.keepForFiles(control, task, filesPauseSeconds))
      },
    },
    log,
  )
}
