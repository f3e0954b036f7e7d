// A tenant can hold a lock for as long as it likes. Work that must not wait for it, such as an upgrade, ends its session.
import { startChore } from '#src/kernel/chores.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { tenantLogin } from './logins.ts'

const everyMs = 250

/** Meanwhile ends sessions of tenants for whose locks a session of the platform in this database waits. */
export async function endingLockHolders<T>(
  control: Database,
  database: string,
  work: () => Promise<T>,
): Promise<T> {
  const ending = startChore({
    name: 'end holders of locks',
    everyMs,
    run: () =>
      control.run(sql`
        select pg_terminate_backend(holder.pid)
          from pg_stat_activity waiting cross join lateral unnest(pg_blocking_pids(waiting.pid)) as blocking (pid)
          join pg_stat_activity holder on holder.pid = blocking.pid
         where waiting.datname = ${database} and waiting.usename = current_user and waiting.wait_event_type = 'Lock'
           and holder.usename ~ ${tenantLogin}`),
  })
  try {
    return await work()
  } finally {
    await ending.stop()
  }
}
