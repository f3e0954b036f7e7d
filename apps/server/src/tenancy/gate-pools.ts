// Connections on which changed rows are judged: the platform logs in as it does for callers, and becomes each of them in
// turn inside one statement. A few per project and a few in all, apart from the connections of requests, so that neither
// waits for the other. When all are busy nobody is judged, and whoever was to be judged sees nothing.
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type ConnectionBudget, Pool } from '#src/kernel/postgres/pool.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'
import { searchPathOf, sessionSettings } from './session-settings.ts'

export interface GatePools {
  /** One statement on a connection to itself; as the login, who is nobody yet, or as one it may become. */
  run(
    tenant: Tenant,
    sql: string,
    values: readonly Value[],
    timeoutMs: number,
    role?: 'anon' | 'authenticated',
  ): Promise<Answer>
  disconnect(id: string): void
  close(): void
}

interface GatePoolsOptions {
  control: Database
  logins: Logins
  abandoned: Abandoned
  perProject: number
  inAll: number
}

const begin = `select set_config('statement_timeout', $1, true), set_config('role', $2, true)`
const idleMs = 15_000
const sweepMs = 5_000
const maxWaiting = 64
/** How long somebody waits for a connection. */
export const waitMs = 2000

export function createGatePools(options: GatePoolsOptions): GatePools {
  const { control, logins, abandoned, perProject, inAll } = options
  const pools = new Map<string, Pool>()
  let held = 0
  let sweeper: NodeJS.Timeout | undefined

  const budget: ConnectionBudget = {
    take() {
      if (held >= inAll && !pools.values().some(pool => pool.closeOneIdle())) return false
      held++
      return true
    },
    give: () => void held--,
  }

  function poolFor(tenant: Tenant): Pool {
    // Another search path is another pool; the one before it ends when it is idle.
    const name = `${tenant.id}:${searchPathOf(tenant)}`
    const existing = pools.get(name)
    if (existing) return existing
    const { ref } = tenant
    const pool = new Pool({
      address: logins.address(ref, 'api'),
      database: ref,
      settings: { ...sessionSettings, search_path: searchPathOf(tenant) },
      maxConnections: perProject,
      maxWaiting,
      maxWaitMs: waitMs,
      budget,
      abandoned,
      group: `${ref}:gate`,
      check: () => logins.check(control, ref, 'api'),
      heal: () => logins.heal(control, ref, 'api'),
    })
    pools.set(name, pool)
    sweeper ??= setInterval(sweep, sweepMs).unref()
    return pool
  }

  function sweep(): void {
    const before = performance.now() - idleMs
    for (const [name, pool] of pools) if (pool.closeIdle(before)) pools.delete(name)
    if (pools.size > 0) return
    clearInterval(sweeper)
    sweeper = undefined
  }

  return {
    run(tenant, sql, values, timeoutMs, role) {
      const steps: Step[] = [
        { key: 'reset', sql: 'reset all', values: [] },
        { key: 'begin', sql: begin, values: [String(Math.ceil(timeoutMs)), role ?? 'none'] },
        { key: sql, sql, values },
      ]
      return poolFor(tenant).run(steps, { shape: sql, mayPipeline: false, timeoutMs })
    },
    disconnect(id) {
      for (const [name, pool] of pools) {
        if (!name.startsWith(id)) continue
        pool.close()
        pools.delete(name)
      }
    },
    close() {
      clearInterval(sweeper)
      for (const pool of pools.values()) pool.close()
      pools.clear()
    },
  }
}
