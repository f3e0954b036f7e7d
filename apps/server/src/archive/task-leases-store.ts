// Tasks that take long, such as backups and branches. A node has a lease of a task and extends it while it works, together
// with the progress that people see. If the node dies, another one begins the task again when the lease is over.
import type { BackupProgress } from '@plinth/contract/backups.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { Watching } from './write-database.ts'

export const leaseSeconds = 30
export const extendMs = 2000
/** After this time a task that was interrupted is begun again. */
export const pauseSeconds = 2

export interface LeasedTask {
  id: string
  /** Counts the nodes that have begun it, so that an earlier one does not extend the lease of a later one. */
  attempts: number
}

/** Whether Postgres was started after this time, which may be why a task has failed. */
export const hasRestarted = async (control: Session, since: string) =>
  (await control.row(sql`select where pg_postmaster_start_time() > ${since}::timestamptz`)) !== undefined

export function createTaskLeases(
  control: Pick<Session, 'run'>,
  table: 'backup_tasks' | 'branch_tasks' | 'pitr_jobs',
) {
  const progressOf = new Map<string, BackupProgress>()
  const withProgress = ({ id, attempts }: LeasedTask) => ({
    id,
    attempts,
    progress: progressOf.get(id) ?? { step: 'starting', bytes: 0 },
  })

  return {
    watching: ({ id }: LeasedTask, signal: AbortSignal): Watching => ({
      signal,
      progress(step, bytes) {
        const now = progressOf.get(id)
        progressOf.set(id, { step, bytes: now?.step === step ? now.bytes + bytes : bytes })
      },
    }),
    /** To be called when this node does not work on the task any more. */
    forget: ({ id }: LeasedTask): boolean => progressOf.delete(id),
    /**
     * For the worker, which may extend leases while it postpones a task. That task would wait for a whole lease, so a lease
     * that ends so soon is not extended.
     */
    lease: {
      everyMs: extendMs,
      extend: (tasks: readonly LeasedTask[]) =>
        control.run(sql`
          update ${raw(table)} t
             set leased_until = now() + make_interval(secs => ${leaseSeconds}), progress = g.progress
            from json_to_recordset(${JSON.stringify(tasks.map(withProgress))}::json) as g (id uuid, attempts int, progress jsonb)
           where t.id = g.id and t.attempts = g.attempts
             and t.leased_until not between now() and now() + make_interval(secs => ${pauseSeconds})`),
    },
  }
}
