// Held by what removes files of a project that nothing refers to, and by what copies files to a project that is served before
// anything refers to them.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

const key = (projectId: string) => sql`hashtextextended(${`files of ${projectId}`}, 0)`

/** Until the end of the session. False if it is held. */
export const tryFilesLock = async (session: Session, projectId: string) =>
  (await session.row<{ taken: boolean }>(sql`select pg_try_advisory_lock(${key(projectId)}) as taken`))!.taken

/** Until the end of the transaction. */
export const tryFilesLockInTransaction = async (session: Session, projectId: string) =>
  (await session.row<{ taken: boolean }>(sql`select pg_try_advisory_xact_lock(${key(projectId)}) as taken`))!
    .taken
