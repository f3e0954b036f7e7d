// Named times to which a project may be recovered later, because something replaced its state then.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export type RestorePointKind = 'upgrade' | 'restore' | 'reset'

/**
 * Records the time before a change: the start of the transaction, or now outside of one, unless it is given. Without a
 * project it is a point of all projects.
 */
export const noteRestorePoint = (
  session: Session,
  kind: RestorePointKind,
  projectId: string | null,
  at?: string,
) =>
  session.run(sql`
    insert into restore_points (kind, project_id, at)
    values (${kind}, ${projectId}, coalesce(${at ?? null}::timestamptz, now()))`)
