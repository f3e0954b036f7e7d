// Ends the sessions that fill the lock table. While it is full, every statement that needs an entry in it fails: the views
// pg_locks and pg_stat_activity do, because they read shared catalogues, and so does looking up a role. So sessions are
// found by prepared statements that call functions and read no relation, and the watchdog keeps a few entries of the
// table in reserve, as advisory locks, which it releases when it needs entries for a role it does not know.
import type { Session } from '#src/kernel/postgres/database.ts'
import { isLockTableFull } from '#src/kernel/postgres/full-lock-table.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { LockBounds } from './lock-bounds.ts'
import { tenantLogin } from './logins.ts'

export interface Looked {
  ended: number
  /** Locks of the project that holds most. */
  most: number
}

interface Holder {
  pid: number
  role: string
  database: string
  locks: number
}

const rememberedRoles = 100_000
const reserved = 64
const takeReserve = sql`select count(pg_advisory_lock(pg_backend_pid(), i)) from generate_series(1, ${reserved}::int) i`
const releaseReserve = sql`select pg_advisory_unlock_all()`

/** Locks of each session that holds many; of the others, which roles are logged in. */
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
/** By a function that leaves each role in the cache of the session: ending a session looks its role up again. */
const tenantsAmong = (roles: readonly string[]) =>
  sql`select role, pg_get_userbyid(role::oid) ~ ${tenantLogin} as "isTenant" from unnest(${roles}::text[]) role`

/** One per connection: what it needs is prepared while there is room. */
export async function watchHoarders(session: Session, bounds: LockBounds): Promise<() => Promise<Looked>> {
  const isTenant = new Map<string, boolean>()
  let hasReserve = false
  await session.repeat(endAll([]))
  await session.repeat(releaseReserve)

  async function learn(found: readonly Holder[]): Promise<void> {
    const unknown = [...new Set(found.map(({ role }) => role))].filter(role => !isTenant.has(role))
    if (unknown.length === 0) return
    if (isTenant.size > rememberedRoles) isTenant.clear()
    const roles = await session.repeatRows<{ role: string; isTenant: boolean }>(tenantsAmong(unknown))
    for (const { role, isTenant: is } of roles) isTenant.set(role, is)
  }

  /** One session over its bound, or any that hold much while their project together holds too much. */
  function tooMuch(found: readonly Holder[]): { pids: number[]; most: number } {
    const ofProject = new Map<string, number>()
    const held = found.filter(({ role, locks }) => locks > 0 && isTenant.get(role))
    for (const { database, locks } of held) ofProject.set(database, (ofProject.get(database) ?? 0) + locks)
    const isOver = ({ database, locks }: Holder) =>
      locks > bounds.session || ofProject.get(database)! > bounds.project
    return { pids: held.filter(isOver).map(({ pid }) => pid), most: Math.max(0, ...ofProject.values()) }
  }

  async function look(): Promise<Looked> {
    const found = await session.repeatRows<Holder>(holders(bounds.worthCounting))
    await learn(found)
    const { pids, most } = tooMuch(found)
    return { ended: pids.length > 0 ? await session.repeat(endAll(pids)) : 0, most }
  }

  return async () => {
    try {
      const looked = await look()
      if (!hasReserve) await session.repeat(takeReserve)
      hasReserve = true
      return looked
    } catch (error) {
      if (!isLockTableFull(error)) throw error
      hasReserve = false
      await session.repeat(releaseReserve)
      return look()
    }
  }
}
