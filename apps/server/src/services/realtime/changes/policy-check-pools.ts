// Connections for policy checks. They use the login of callers; platform.judge then becomes each caller in turn within one
// statement. They are separate from the connections of requests, so that neither waits for the other, and limited per
// project and in total. When all are busy the check fails, and the subscriber does not receive the row.
import { createChore } from '#src/kernel/chores.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type ConnectionBudget, Pool } from '#src/kernel/postgres/pool.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { RequestHolds } from '#src/tenancy/request-holds.ts'
import { searchPathOf, sessionSettings } from '#src/tenancy/session-settings.ts'

export interface PolicyCheckPools {
  /** Runs one statement on a connection of its own, as the login without privileges or as `role`. */
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

interface PolicyCheckPoolsOptions {
  control: Database
  logins: Logins
  abandoned: Abandoned
  holds: RequestHolds
  perProject: number
  total: number
}

const begin = `select set_config('statement_timeout', $1, true), set_config('role', $2, true)`
const idleMs = 15_000
const sweepMs = 5_000
const maxWaiting = 64
/** How long a check waits for a connection. */
export const waitMs = 2000

export function createPolicyCheckPools(options: PolicyCheckPoolsOptions): PolicyCheckPools {
  const { control, logins, abandoned, holds, perProject, total } = options
  const pools = new Map<string, Pool>()
  let open = 0
  const sweeping = createChore({ name: 'close idle connections', everyMs: sweepMs, run: sweep })

  const budget: ConnectionBudget = {
    take() {
      if (open >= total && !pools.values().some(pool => pool.closeOneIdle())) return false
      open++
      return true
    },
    give: () => void open--,
  }

  function poolFor(tenant: Tenant): Pool {
    // Connections have a fixed search path. After a change of it, the old pool closes when it is idle.
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
      group: `${ref}:policy-checks`,
      check: () => logins.check(control, ref, 'api'),
      heal: () => logins.heal(control, ref, 'api'),
    })
    pools.set(name, pool)
    sweeping.start()
    return pool
  }

  holds.add({
    closeIdle: ({ id }) =>
      [...pools]
        .filter(([name]) => name.startsWith(id))
        .map(([, pool]) => pool.closeIdle(Number.POSITIVE_INFINITY))
        .every(Boolean),
  })

  function sweep(): 'idle' | undefined {
    const before = performance.now() - idleMs
    for (const [name, pool] of pools) if (pool.closeIdle(before)) pools.delete(name)
    return pools.size === 0 ? 'idle' : undefined
  }

  return {
    run(tenant, sql, values, timeoutMs, role) {
      const steps: Step[] = [
        { key: 'reset', sql: 'reset all', values: [] },
        { key: 'begin', sql: begin, values: [String(Math.ceil(timeoutMs)), role ?? 'none'] },
        { key: sql, sql, values },
      ]
      const how = { shape: sql, mayPipeline: false, timeoutMs }
      return holds.pass(tenant.ref, () => poolFor(tenant).run(steps, how))
    },
    disconnect(id) {
      for (const [name, pool] of pools) {
        if (!name.startsWith(id)) continue
        pool.close()
        pools.delete(name)
      }
    },
    close() {
      void sweeping.stop()
      for (const pool of pools.values()) pool.close()
      pools.clear()
    },
  }
}
