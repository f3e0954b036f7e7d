// Connections of the logins that work on users and sessions, a few per project, opened on first use and closed when
// idle. Tenants' triggers on auth.users run on them: whatever those leave in a session is discarded before the
// connection is used again.
import { retryLater } from '#src/kernel/errors.ts'
import { type Database, openDatabase, type Session } from '#src/kernel/postgres/database.ts'
import type { ConnectionBudget } from '#src/kernel/postgres/pool.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'

export type AuthDatabase = Pick<Database, 'rows' | 'row' | 'run' | 'transaction'>

interface OpenPool {
  database: Database
  /** Pieces of work that run or wait. */
  busy: number
  lastUsedAt: number
}

/** What a transaction can leave behind in its session. */
const forgetEverything =
  'reset all; close all; unlisten *; discard temp; discard sequences; select pg_advisory_unlock_all();'
const perProject = 4
/** A page of users with all that belongs to them; tenants decide how much that is. */
const maxAnswerBytes = 16 * 1024 * 1024
const mayWait = 60
const settings = {
  search_path: 'pg_catalog, pg_temp',
  role: 'none',
  local_preload_libraries: '',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  statement_timeout: '8s',
  lock_timeout: '5s',
  idle_in_transaction_session_timeout: '10s',
}

export interface AuthPools {
  of(tenant: Tenant): AuthDatabase
  /** True when something idle was closed to make room. */
  closeOneIdle(): boolean
  closeIdle(before: number): void
  disconnect(id: string): void
  readonly isEmpty: boolean
  close(): void
}

export function createAuthPools(control: Session, logins: Logins, budget: ConnectionBudget): AuthPools {
  const pools = new Map<string, OpenPool>()

  /** All of a pool's connections are set aside at once, so that none has to be refused in the middle of work. */
  function open({ id, ref }: Tenant): OpenPool {
    for (let taken = 0; taken < perProject; taken++)
      if (!budget.take()) {
        for (; taken > 0; taken--) budget.give()
        throw exhausted()
      }
    const database = openDatabase(logins.address(ref, 'auth'), ref, settings, () => {}, {
      max: perProject,
      beforeUse: forgetEverything,
      maxAnswerBytes,
    })
    const pool = { database, busy: 0, lastUsedAt: performance.now() }
    pools.set(id, pool)
    return pool
  }

  function retire(id: string, { database }: OpenPool): void {
    pools.delete(id)
    void database.close()
    for (let given = 0; given < perProject; given++) budget.give()
  }

  async function use<T>(tenant: Tenant, work: (database: Database) => Promise<T>): Promise<T> {
    const pool = pools.get(tenant.id) ?? open(tenant)
    if (pool.busy >= mayWait) throw exhausted()
    pool.busy++
    try {
      return await work(pool.database).catch(async error => {
        const { code } = error as { code?: string }
        if (code !== '28P01' && code !== '28000') throw error
        await logins.heal(control, tenant.ref, 'auth')
        return work(pool.database)
      })
    } finally {
      pool.busy--
      pool.lastUsedAt = performance.now()
    }
  }

  return {
    of: tenant => ({
      rows: statement => use(tenant, database => database.transaction(session => session.rows(statement))),
      row: statement => use(tenant, database => database.transaction(session => session.row(statement))),
      run: statement => use(tenant, database => database.transaction(session => session.run(statement))),
      transaction: work => use(tenant, database => database.transaction(work)),
    }),
    closeOneIdle() {
      for (const [id, pool] of pools)
        if (pool.busy === 0) {
          retire(id, pool)
          return true
        }
      return false
    },
    closeIdle(before) {
      for (const [id, pool] of pools) if (pool.busy === 0 && pool.lastUsedAt < before) retire(id, pool)
    },
    disconnect(id) {
      const pool = pools.get(id)
      if (pool) retire(id, pool)
    },
    get isEmpty() {
      return pools.size === 0
    },
    close() {
      for (const [id, pool] of pools) retire(id, pool)
    },
  }
}

const exhausted = () =>
  retryLater('pool_exhausted', 'All database connections of this project are busy; try again in a second', 1)
