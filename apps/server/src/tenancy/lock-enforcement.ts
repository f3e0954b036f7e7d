// Ends sessions that fill the lock table. While the table is full, every statement that needs a lock fails. That includes
// the views pg_locks and pg_stat_activity, which read shared catalogues, and role lookups. So prepared statements that call
// functions and read no relation find the sessions. The watchdog also holds a few advisory locks as a reserve, and releases
// them when it needs entries to look up an unknown role.
import type { Session } from '#src/kernel/postgres/database.ts'
import { isLockTableFull } from '#src/kernel/postgres/full-lock-table.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { LockBounds } from './lock-bounds.ts'
import { tenantLogin } from './logins.ts'

export interface LockCheck {
  ended: number
  /** Locks of the project that holds the most. */
  most: number
}

interface Holder {
  pid: number
  role: string
  database: string
  locks: number
}

const maxCachedRoles = 100_000
const reserved = 64
const takeReserve = sql`select count(pg_advisory_lock(pg_backend_pid(), i)) from generate_series(1, ${reserved}::int) i`
const releaseReserve = sql`select pg_advisory_unlock_all()`

/** Returns the lock counts of sessions that hold many, and the roles of the others. */
const holders = (worthCounting: number) => sql`
  select coalesce(max(l.pid), 0) as pid, a.usesysid::text as role, a.datid::text as database,
         coalesce(max(l.locks), 0)::int as locks
    from pg_stat_get_activity(null) a
    left join (select pid, count(*) as locks from pg_lock_status() group by pid having count(*) > ${worthCounting}) l
      on l.pid = a.pid
   where a.usesysid is not null
   group by a.usesysid, a.datid, l.pid`
const endAll = (pids: readonly number[]) =>
  sql`select from unnest(${pids}::int[]) pid where pg_terminate_backend(pid)`
/** pg_get_userbyid leaves the role in the session's cache. pg_terminate_backend needs it there when the table is full. */
const tenantsAmong = (roles: readonly string[]) =>
  sql`select role, pg_get_userbyid(role::oid) ~ ${tenantLogin} as "isTenant" from unnest(${roles}::text[]) role`

/** To be called once per connection, because the statements must be prepared before the table is full. */
export async function enforceLockBounds(
  session: Session,
  bounds: LockBounds,
): Promise<() => Promise<LockCheck>> {
  const isTenant = new Map<string, boolean>()
  let hasReserve = false
  await session.repeat(endAll([]))
  await session.repeat(releaseReserve)

  async function loadRoles(found: readonly Holder[]): Promise<void> {
    const unknown = [...new Set(found.map(({ role }) => role))].filter(role => !isTenant.has(role))
    if (unknown.length === 0) return
    if (isTenant.size > maxCachedRoles) isTenant.clear()
    const roles = await session.repeatRows<{ role: string; isTenant: boolean }>(tenantsAmong(unknown))
    for (const { role, isTenant: is } of roles) isTenant.set(role, is)
  }

  /** Sessions over their bound, and all counted sessions of a project over its bound. */
  function overBounds(found: readonly Holder[]): { pids: number[]; most: number } {
    const ofProject = new Map<string, number>()
    const held = found.filter(({ role, locks }) => locks > 0 && isTenant.get(role))
    for (const { database, locks } of held) ofProject.set(database, (ofProject.get(database) ?? 0) + locks)
    const isOver = ({ database, locks }: Holder) =>
      locks > bounds.session || ofProject.get(database)! > bounds.project
    return { pids: held.filter(isOver).map(({ pid }) => pid), most: Math.max(0, ...ofProject.values()) }
  }

  async function check(): Promise<LockCheck> {
    const found = await session.repeatRows<Holder>(holders(bounds.worthCounting))
    await loadRoles(found)
    const { pids, most } = overBounds(found)
    return { ended: pids.length > 0 ? await session.repeat(endAll(pids)) : 0, most }
  }

  return async () => {
    try {
      const result = await check()
      if (!hasReserve) await session.repeat(takeReserve)
      hasReserve = true
      return result
    } catch (error) {
      if (!isLockTableFull(error)) throw error
      hasReserve = false
      await session.repeat(releaseReserve)
      return check()
    }
  }
}
