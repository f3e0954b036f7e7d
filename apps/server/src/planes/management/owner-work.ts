// Runs work of the management plane in a project database: as the project's owner, never as superuser, each in one
// transaction with fixed settings. Postgres errors become Refusals.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { isOfTenant } from '#src/kernel/postgres/error-origin.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { refusalFromOwnerSql } from './database-refusal.ts'

export type OwnerTask<T> = (session: Session, tenant: Tenant) => Promise<T>

export interface OwnerWork {
  tenant(projectId: string): Promise<Tenant>
  /** Reads in one snapshot. */
  look<T>(projectId: string, task: OwnerTask<T>): Promise<T>
  /** Commits all changes or none. */
  change<T>(projectId: string, task: OwnerTask<T>): Promise<T>
  /** Rolls back at the end. */
  rehearse<T>(projectId: string, task: OwnerTask<T>): Promise<T>
}

/** A session that waits for a lock blocks all later ones on that table, so the wait is short. */
const limits = { statementMs: 30_000, lock: '3s' }
/** pg_catalog first, so that tenants cannot shadow built-in names. Then the schemas that expressions may use unqualified. */
const searchPath = 'pg_catalog, public, extensions, pg_temp'

export function createOwnerWork(directory: Directory, databases: Databases): OwnerWork {
  /** Ids are compared as text, so they are normalized to lower case. */
  async function tenant(projectId: string): Promise<Tenant> {
    const found = await directory.find(projectId.toLowerCase())
    if (!found) throw new Refusal('project_not_found', 'No project has this id')
    return found
  }

  /** Without the final statement the connection closes inside the transaction, which rolls it back. */
  async function transaction<T>(
    begin: string,
    end: string,
    projectId: string,
    task: OwnerTask<T>,
  ): Promise<T> {
    const project = await tenant(projectId)
    const work = async (session: Session) => {
      await session.script(begin)
      await session.run(sql`
        select pg_catalog.set_config('search_path', ${searchPath}, true),
               pg_catalog.set_config('standard_conforming_strings', 'on', true),
               pg_catalog.set_config('statement_timeout', ${String(limits.statementMs)}, true),
               pg_catalog.set_config('lock_timeout', ${limits.lock}, true)`)
      const result = await task(session, project).catch(refusedIfOfTenant)
      await session.script(end).catch(refused)
      return result
    }
    return databases.asOwner(project, work, { timeoutMs: limits.statementMs })
  }

  return {
    tenant,
    look: (id, task) => transaction('begin isolation level repeatable read read only', 'commit', id, task),
    change: (id, task) => transaction('begin', 'commit', id, task),
    rehearse: (id, task) => transaction('begin', 'rollback', id, task),
  }
}

/** Runs one statement that contains the owner's SQL. The Postgres error is reported to the sender. */
export const execute = (session: Session, statement: string): Promise<number> =>
  session.run(raw(statement)).catch(error => refused(error, statement))

/** Catalogue queries depend on the tenant's objects, so they can time out, hit a limit or wait for a lock. */
function refusedIfOfTenant(error: unknown): never {
  throw error instanceof DatabaseError && isOfTenant(error) ? refusalFromOwnerSql(error) : error
}

/** For `catch` after a statement that runs the owner's code or reads the owner's values. */
export function refused(error: unknown, statement = ''): never {
  throw refusalFromOwnerSql(error, statement)
}
