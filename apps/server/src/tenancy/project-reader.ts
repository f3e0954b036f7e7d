// Reads tables that a project owns. Postgres runs code of the tenant also for a plain SELECT: implicit casts of its types, and
// when the statement is planned, constants in its statistics and indexes. So the platform never does so as the superuser, but
// with the login that also serves secret keys. SET ROLE would not be enough, because a function can reset it.
import { type Database, guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { literal, raw } from '#src/kernel/postgres/sql.ts'
import type { Logins } from './logins.ts'

/** A session in a project database that takes plain statements and runs them with the rights of the project. */
export interface DatabaseReader {
  rows<Row extends object>(statement: string): Promise<Row[]>
}

export interface ProjectReaderDeps {
  control: Database
  logins: Logins
}

interface ReadDatabase {
  /** Of the project. */
  ref: string
  /** Another database of the project than the one that is served. */
  database?: string
  /** Exported by another session in this database. */
  snapshot?: string
}

/**
 * Sees all rows, whatever the policies are. Code of the tenant may never end. The watchdog ends transactions of this login that
 * are older than some seconds, so each statement has one of its own.
 */
const settings: Record<string, string> = {
  ...guardedSettings,
  role: 'service_role',
  lock_timeout: '10s',
  statement_timeout: '15s',
}
/** It may also return rows without end. */
const longestMs = 3_600_000
/** The tenant can change the password of the login. */
const rejected: readonly unknown[] = ['28P01', '28000']

export async function readProject<T>(
  { control, logins }: ProjectReaderDeps,
  { ref, database = ref, snapshot }: ReadDatabase,
  signal: AbortSignal,
  work: (reader: DatabaseReader) => Promise<T>,
): Promise<T> {
  let hasBegun = false
  const read = () =>
    withClient(
      logins.address(ref, 'svc'),
      database,
      settings,
      session => {
        hasBegun = true
        return work(readerOf(session, snapshot))
      },
      { signal: AbortSignal.any([signal, AbortSignal.timeout(longestMs)]) },
    )
  await logins.check(control, ref, 'svc')
  try {
    return await read()
  } catch (error) {
    if (hasBegun || !rejected.includes(sqlState(error))) throw error
    await logins.heal(control, ref, 'svc')
    return read()
  }
}

const readerOf = (session: Session, snapshot: string | undefined): DatabaseReader => ({
  async rows<Row>(statement: string) {
    if (snapshot === undefined) return session.rows<Row>(raw(statement))
    await session.script(
      `begin isolation level repeatable read read only; set transaction snapshot ${literal(snapshot)}`,
    )
    const rows = await session.rows<Row>(raw(statement))
    await session.script('commit')
    return rows
  },
})
