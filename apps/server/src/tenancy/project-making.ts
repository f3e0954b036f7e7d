// Projects that are made from a backup or from another project. A task makes them, because it takes longer than a request.
// If its node dies, another one begins the task again.
import { startChore } from '#src/kernel/chores.ts'
import { type Database, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'
import { insertCreating, insertOwner, isBeingMade, markMade, type NewProject } from './lifecycle-store.ts'

export interface ProjectMaking {
  /** Inserts a project that a task will make; `record` stores the task. False if the slug is taken. */
  begin(project: NewProject, record: (session: Session) => Promise<void>): Promise<boolean>
  /**
   * Runs the work of such a task, which creates logins and database. It is aborted if the project is deleted meanwhile.
   * Rejects with MadeElsewhere if another node still works on it.
   */
  make(id: string, work: (signal: AbortSignal) => Promise<void>): Promise<void>
  /** The project is served from now on. `record` runs in the same transaction. */
  complete(id: string, record: (session: Session) => Promise<void>): Promise<void>
}

/** A node that was interrupted has not released the project yet. */
export class MadeElsewhere extends Error {}

/** Interval at which a task notices the deletion of its project. */
export const noticeMs = 500

export function createProjectMaking(
  control: Database,
  cluster: Cluster,
  /** Called when a project is complete. */
  attach: (id: string) => Promise<void>,
  closing: AbortSignal,
): ProjectMaking {
  return {
    begin: (project, record) =>
      control.transaction(async session => {
        if (!(await insertCreating(session, project, cluster.projectVersion, true))) return false
        await insertOwner(session, project)
        await record(session)
        return true
      }),

    make: (id, work) =>
      withClient(cluster.address, cluster.control, controlSettings, async session => {
        const lock = await session.row<{ taken: boolean }>(
          sql`select pg_try_advisory_lock(hashtextextended(${id}, 0)) as taken`,
        )
        if (!lock?.taken) throw new MadeElsewhere('another node works on the project')
        const deleted = new AbortController()
        const look = async () => {
          if (!(await isBeingMade(control, id))) deleted.abort(new Error('the project was deleted meanwhile'))
        }
        await look()
        const chore = startChore({ name: 'notice a deletion', everyMs: noticeMs, run: look })
        try {
          deleted.signal.throwIfAborted()
          await work(AbortSignal.any([deleted.signal, closing]))
        } finally {
          await chore.stop()
        }
      }),

    async complete(id, record) {
      await control.transaction(async session => {
        if (!(await markMade(session, id))) throw new Error('the project was deleted meanwhile')
        await record(session)
      })
      await attach(id)
    },
  }
}
