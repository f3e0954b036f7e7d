// Some harm a tenant can do is only stopped from outside: filling the shared lock table, holding a
// transaction open so that the notification queue cannot shrink, outliving its own timeouts. One warm
// connection looks four times a second; it must exist already, because a full lock table refuses new ones.
import type { Log } from '#src/kernel/log.ts'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { controlSettings } from './cluster.ts'
import { tenantLogin } from './logins.ts'

export interface Watchdog {
  /** What an operator should know, as sentences. */
  warnings(): readonly string[]
  close(): Promise<void>
}

const lookMs = 250
const agesEvery = 4
const queueEvery = 20
const maxLocks = 20_000
const maxLocksOfProject = 60_000
const worthCounting = 1000
const maxIdleInTransaction = '5 minutes'
/** It reads `projects`: whoever locks that must neither blind the watchdog nor keep it from being closed. */
const watchdogSettings = { ...controlSettings, lock_timeout: '100ms', statement_timeout: '2s' }
const lockNotAvailable = '55P03'

/** One session over its limit, or any that hold much while their project together holds too much. */
const hoarders = sql`
  with held as (
    select l.pid, a.datid, l.locks, sum(l.locks) over (partition by a.datid) as of_project
      from (select pid, count(*) as locks from pg_locks group by pid having count(*) > ${worthCounting}) l
      join pg_stat_activity a on a.pid = l.pid
     where a.usename ~ ${tenantLogin})
  select pg_terminate_backend(pid) from held where locks > ${maxLocks} or of_project > ${maxLocksOfProject}`

/** Callers are bound by statement_timeout; what is still there well past it has found a way around. */
const overdue = (callerMs: number) => sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and datname in (select ref from projects) and (
     (usename !~ '_owner$' and xact_start < now() - make_interval(secs => ${callerMs / 1000}))
     or (state like 'idle in transaction%' and state_change < now() - ${maxIdleInTransaction}::interval))`

// Calling it also lets the queue shrink after whoever held it up has gone.
const queueUsage = sql`select pg_notification_queue_usage() as used`

/** Further work on the watchdog's connection, at each look. */
export interface Task {
  look(session: Session): Promise<void>
}

export function startWatchdog(
  address: ServerAddress,
  control: string,
  callerTimeoutMs: number,
  log: Log,
  tasks: readonly Task[] = [],
): Watchdog {
  const late = overdue(callerTimeoutMs * 2 + 5000)
  let warnings: string[] = []
  let isClosed = false
  let wake: (() => void) | undefined
  const rest = (ms: number) =>
    new Promise<void>(resolve => {
      wake = resolve
      setTimeout(resolve, ms).unref()
    })

  const watching = (async () => {
    while (!isClosed) {
      try {
        await withClient(address, control, watchdogSettings, async session => {
          for (let look = 0; !isClosed; look++) {
            report('too many locks', await session.repeat(hoarders))
            if (look % agesEvery === 0)
              report('transaction too old', await session.repeat(late).catch(unlessLocked))
            if (look % queueEvery === 0)
              warnings = queueWarning(await session.row<{ used: number }>(queueUsage))
            for (const task of tasks) await task.look(session)
            await rest(lookMs)
          }
        })
      } catch (error) {
        if (!isClosed) log.warn({ err: error }, 'the watchdog lost its connection; trying again')
        await rest(lookMs)
      }
    }
  })()

  function unlessLocked(error: unknown): number {
    if ((error as { code?: string }).code !== lockNotAvailable) throw error
    return 0
  }

  function report(reason: string, ended: number): void {
    if (ended > 0) log.warn({ reason, ended }, 'the watchdog ended database sessions')
  }

  return {
    warnings: () => warnings,
    async close() {
      isClosed = true
      wake?.()
      await watching
    },
  }
}

const queueWarning = (queue: { used: number } | undefined): string[] =>
  queue && queue.used >= 0.5
    ? [
        `The notification queue of Postgres is ${Math.round(queue.used * 100)} % full; a session is holding it up.`,
      ]
    : []
