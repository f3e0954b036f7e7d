// Connection pools of the auth logins, a few connections per project, opened on first use and closed when
// idle. Triggers of tenants on auth.users run on them, so session state is discarded before a connection is
// reused.
import { retryLater } from '#src/kernel/errors.ts'
import type { Abandoned, Backend } from '#src/kernel/postgres/abandoned.ts'
import {
  type Database,
  openDatabase,
  type PooledDatabase,
  type Session,
} from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { isPoolClosed } from '#src/kernel/postgres/driver-internals.ts'
import type { ConnectionBudget } from '#src/kernel/postgres/pool.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'

export type AuthDatabase = Pick<Database, 'rows' | 'row' | 'run' | 'transaction'>

interface OpenPool {
  database: PooledDatabase
  /** Connections reserved in the budget: the highest concurrency so far. */
  reserved: number
  /** Running and waiting work. */
  busy: number
  lastUsedAt: number
}

/** Discards what a transaction can leave in its session. */
const forgetEverything =
  'reset all; close all; unlisten *; discard temp; discard sequences; select pg_advisory_unlock_all();'
const perProject = 4
/** Bounds a page of users with their data, whose size tenants control. */
const maxAnswerBytes = 16 * 1024 * 1024
const mayWait = 60
const mostWaitMs = 2000
const retryMs = 50
const timeoutMs = 8000
const settings = {
  search_path: 'pg_catalog, pg_temp',
  role: 'none',
  local_preload_libraries: '',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  statement_timeout: `${timeoutMs}ms`,
  lock_timeout: '5s',
  idle_in_transaction_session_timeout: '10s',
}

export interface AuthPools {
  of(tenant: Tenant): AuthDatabase
  /** True if an idle connection was closed to free budget. */
  closeOneIdle(): boolean
  closeIdle(before: number): void
  /** Closes the connections of a project if they are idle. True if none is left. */
  closeIdleOf(id: string): boolean
  disconnect(id: string): void
  readonly isEmpty: boolean
  use(): { busy: number; waiting: number }
  close(): void
}

export function createAuthPools(
  control: Session,
  logins: Logins,
  budget: ConnectionBudget,
  abandoned: Abandoned,
): AuthPools {
  const pools = new Map<string, OpenPool>()
  const places = (ref: string) => perProject - abandoned.count(groupOf(ref))

  function open({ id, ref }: Tenant): OpenPool {
    const database = openDatabase(logins.address(ref, 'auth'), ref, settings, () => {}, {
      max: 1,
      beforeUse: forgetEverything,
      isRepeatable: true,
      maxAnswerBytes,
      timeoutMs,
      onAbandoned: processId => abandon(pool, { processId, database: ref }),
    })
    const pool: OpenPool = { database, reserved: 0, busy: 0, lastUsedAt: performance.now() }
    pools.set(id, pool)
    return pool
  }

  /** Its budget is released when the backend has ended. */
  function abandon(pool: OpenPool, backend: Backend): void {
    const isCounted = pool.reserved > 0
    if (isCounted) {
      pool.reserved--
      pool.database.resize(Math.max(1, pool.reserved))
    }
    abandoned.add(groupOf(backend.database), backend, isCounted ? budget.give : undefined)
  }

  /** With one connection work continues more slowly. Without any it waits shortly for connections of other projects. */
  async function reserve({ id, ref }: Tenant, pool: OpenPool): Promise<void> {
    const until = performance.now() + mostWaitMs
    // During the wait, other work of the project may have got a connection, or the pool may have been closed.
    while (pools.get(id) === pool && pool.reserved < Math.min(pool.busy, places(ref))) {
      if (budget.take()) {
        pool.reserved++
        return pool.database.resize(pool.reserved)
      }
      if (pool.reserved > 0) return
      if (performance.now() > until) throw exhausted()
      await new Promise(resolve => setTimeout(resolve, retryMs))
    }
  }

  function retire(id: string, { database, reserved }: OpenPool): void {
    pools.delete(id)
    void database.close()
    for (let given = 0; given < reserved; given++) budget.give()
  }

  async function use<T>(tenant: Tenant, work: (database: Database) => Promise<T>): Promise<T> {
    const pool = pools.get(tenant.id) ?? open(tenant)
    if (pool.busy >= mayWait || places(tenant.ref) <= 0) throw exhausted()
    pool.busy++
    try {
      await reserve(tenant, pool)
      return await work(pool.database).catch(async error => {
        const code = sqlState(error)
        // The project was suspended or resumed meanwhile, which replaced its pool.
        if (pools.get(tenant.id) !== pool && isPoolClosed(error)) return use(tenant, work)
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
    closeIdleOf(id) {
      const pool = pools.get(id)
      if (pool && pool.busy > 0) return false
      if (pool) retire(id, pool)
      return true
    },
    disconnect(id) {
      const pool = pools.get(id)
      if (pool) retire(id, pool)
    },
    get isEmpty() {
      return pools.size === 0
    },
    use() {
      let [busy, waiting] = [0, 0]
      for (const pool of pools.values()) {
        busy += Math.min(pool.busy, pool.reserved)
        waiting += Math.max(0, pool.busy - pool.reserved)
      }
      return { busy, waiting }
    },
    close() {
      for (const [id, pool] of pools) retire(id, pool)
    },
  }
}

const groupOf = (ref: string) => `${ref}:auth sessions`

/** The same error as that of the statement pools. */
const exhausted = () =>
  retryLater('pool_exhausted', 'All database connections of this project are busy; try again in a second', 1)
