// Puts a database in the place of another one. Both renames and what the control database records of them are one
// transaction, so a crash leaves either all or nothing of it.
import { startChore } from '#src/kernel/chores.ts'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'

interface Swap {
  /** The name that both have, one after the other. */
  live: string
  made: string
  /** The name that the live one gets. A database that has it gets the name of the made one. */
  kept: string
}

const endMs = 20
const lockTimeout = '20s'
const usualLimit = 250

/** `record` runs in the same transaction. New sessions wait until the commit and then find the other database. */
export function swapDatabases(
  cluster: Cluster,
  { live, made, kept }: Swap,
  record: (session: Session) => Promise<void>,
): Promise<void> {
  const { address, control } = cluster
  return withClient(address, control, controlSettings, ending =>
    withClient(address, control, controlSettings, async session => {
      await session.script(`begin; set local lock_timeout = '${lockTimeout}'`)
      await record(session)
      const isTaken = await session.row(sql`select from pg_database where datname = ${kept}`)
      const aside = `${made}_aside`
      const rename = (from: string, to: string) =>
        `alter database ${identifier(from)} rename to ${identifier(to)};`
      // RENAME waits up to five seconds for sessions, and no new one can start meanwhile.
      const chore = startChore({
        name: 'end sessions',
        everyMs: endMs,
        runsAtStart: true,
        run: () => endSessions(ending, [live, made]),
      })
      try {
        await session.script(`
          ${isTaken ? rename(kept, aside) : ''}
          ${rename(live, kept)}
          ${rename(made, live)}
          ${isTaken ? rename(aside, made) : ''}
          alter database ${identifier(live)} connection limit ${usualLimit};
          alter database ${identifier(kept)} connection limit 0;
          commit`)
      } finally {
        await chore.stop()
      }
    }),
  )
}

const endSessions = (session: Session, databases: readonly string[]) =>
  session.run(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = any(${databases}) and pid <> pg_backend_pid() and backend_type = 'client backend'`)
