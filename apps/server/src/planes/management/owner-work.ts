// The management plane's work inside a project's database: always as the project's owner, never as superuser, each
// piece one transaction with settings of ours, and with Postgres' complaints told as refusals.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { isOfTenant, isServerError } from '#src/kernel/postgres/error-text.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { refusalFromOwnerSql } from './database-refusal.ts'

export type OwnerTask<T> = (session: Session, tenant: Tenant) => Promise<T>

export interface OwnerWork {
  tenant(projectId: string): Promise<Tenant>
  /** Reads, all of one moment. */
  look<T>(projectId: string, task: OwnerTask<T>): Promise<T>
  /** All of it happens, or nothing. */
  change<T>(projectId: string, task: OwnerTask<T>): Promise<T>
  /** Whatever it does is undone. */
  rehearse<T>(projectId: string, task: OwnerTask<T>): Promise<T>
}

/** Whoever waits for a lock holds up everybody behind it: not for long. */
const limits = { statementMs: 30_000, lock: '3s' }
/** Postgres' own names win over a tenant's; then come those an expression may use unqualified. */
const searchPath = 'pg_catalog, public, extensions, pg_temp'

export function createOwnerWork(directory: Directory, databases: Databases): OwnerWork {
  /** Ids are compared and remembered as text: one spelling of each. */
  async function tenant(projectId: string): Promise<Tenant> {
    const found = await directory.find(projectId.toLowerCase())
    if (!found) throw new Refusal('project_not_found', 'No project has this id')
    return found
  }

  /** Without the last word the connection is closed with the transaction open, which undoes it. */
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

/** Runs one statement composed of the owner's own SQL; what Postgres says to it is for whoever sent it. */
export const execute = (session: Session, statement: string): Promise<number> =>
  session.run(raw(statement)).catch(error => refused(error, statement))

/** The catalogue is full of a tenant's objects: describing one can take too long, or meet a limit or a lock. */
function refusedIfOfTenant(error: unknown): never {
  throw isServerError(error) && isOfTenant(error) ? refusalFromOwnerSql(error) : error
}

/** For `catch` behind a statement that runs code or reads values of the owner's. */
export function refused(error: unknown, statement = ''): never {
  throw refusalFromOwnerSql(error, statement)
}
