// Some harm that one project does to all can only be stopped from outside: filling the shared lock table, holding a
// transaction open so that the notification queue cannot shrink, outliving its own timeouts. One warm connection looks
// four times a second; it must exist already, because a full lock table refuses new ones.
import type { Log } from '#src/kernel/log.ts'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import { isLockTableFull } from '#src/kernel/postgres/full-lock-table.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { controlSettings } from './cluster.ts'
import { type LockBounds, type LockSettings, lockBounds, lockSettings, lockWarnings } from './lock-bounds.ts'
import { type Looked, watchHoarders } from './lock-hoarders.ts'
import { tenantLogin } from './logins.ts'

export interface Watchdog {
  /** What an operator should know, as sentences. */
  warnings(): readonly string[]
  close(): Promise<void>
}

const lookMs = { usually: 250, whileLocksGrow: 50, whileTableIsFull: 20 }
const agesEvery = 4
const queueEvery = 20
/** From here on a project's locks, or the notification queue, are looked at more often. */
const growing = { locks: 0.25, queue: 0.25 }
const queueTooFull = 0.5
const maxIdleInTransaction = '5 minutes'
const maxIdleWhileQueueIsFull = '2 seconds'
/** It reads `projects`: a lock on that must neither blind the watchdog nor keep it from being closed. */
const watchdogSettings = { ...controlSettings, lock_timeout: '100ms', statement_timeout: '2s' }
const lockNotAvailable = '55P03'

/** Callers are bound by statement_timeout; what is still there well past it has found a way around. */
const overdue = (callerMs: number) => sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and datname in (select ref from projects) and (
     (usename !~ '_owner$' and xact_start < now() - make_interval(secs => ${callerMs / 1000}))
     or (state like 'idle in transaction%' and state_change < now() - ${maxIdleInTransaction}::interval))`

// Calling it also lets the queue shrink after whoever held it up has gone.
const queueUsage = sql`select pg_notification_queue_usage() as used`

/** Which sessions listen cannot be seen from outside. Of those in a transaction, idle ones lose nothing but it. */
const idleTransactions = sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and state like 'idle in transaction%'
     and state_change < now() - ${maxIdleWhileQueueIsFull}::interval`

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
  let settings: LockSettings | undefined
  let queueUsed = 0
  let isClosed = false
  let wake: (() => void) | undefined
  const rest = (ms: number) =>
    new Promise<void>(resolve => {
      wake = resolve
      setTimeout(resolve, ms).unref()
    })

  async function watch(session: Session): Promise<void> {
    settings = await session.row<LockSettings>(lockSettings)
    const bounds = lockBounds(settings!)
    const endHoarders = await watchHoarders(session, bounds)
    for (let look = 0; !isClosed; look++) {
      const restMs = await endHoarders()
        .then(locks => lookFurther(session, bounds, locks, look))
        .catch(tableIsFull)
      await rest(restMs)
    }
  }

  /** Says how long to wait until the next look. */
  async function lookFurther(
    session: Session,
    bounds: LockBounds,
    { ended, most }: Looked,
    look: number,
  ): Promise<number> {
    report('too many locks', ended)
    if (look % agesEvery === 0) report('transaction too old', await session.repeat(late).catch(unlessLocked))
    if (look % queueEvery === 0 || queueUsed >= growing.queue) await lookAtQueue(session)
    for (const task of tasks) await task.look(session)
    return most > bounds.project * growing.locks ? lookMs.whileLocksGrow : lookMs.usually
  }

  async function lookAtQueue(session: Session): Promise<void> {
    queueUsed = (await session.row<{ used: number }>(queueUsage))?.used ?? 0
    if (queueUsed >= queueTooFull)
      report('holds up the notification queue', await session.repeat(idleTransactions))
  }

  const watching = (async () => {
    while (!isClosed) {
      try {
        await withClient(address, control, watchdogSettings, watch)
      } catch (error) {
        if (!isClosed) log.warn({ err: error }, 'the watchdog lost its connection; trying again')
        await rest(lookMs.usually)
      }
    }
  })()

  /** The connection stays: another one could not be opened now. */
  function tableIsFull(error: unknown): number {
    if (!isLockTableFull(error)) throw error
    return lookMs.whileTableIsFull
  }

  function unlessLocked(error: unknown): number {
    if ((error as { code?: string }).code !== lockNotAvailable) throw error
    return 0
  }

  function report(reason: string, ended: number): void {
    if (ended > 0) log.warn({ reason, ended }, 'the watchdog ended database sessions')
  }

  return {
    warnings: () => [...(settings ? lockWarnings(settings) : []), ...queueWarnings(queueUsed)],
    async close() {
      isClosed = true
      wake?.()
      await watching
    },
  }
}

const queueWarnings = (used: number): string[] =>
  used >= queueTooFull
    ? [`The notification queue of Postgres is ${Math.round(used * 100)} % full; a session is holding it up.`]
    : []
