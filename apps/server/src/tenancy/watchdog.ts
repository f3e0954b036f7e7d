// Ends sessions with which one project harms all others: they fill the shared lock table, keep a transaction open so that
// the notification queue cannot shrink, or evade their timeouts. It checks four times a second on one open connection,
// because new connections fail while the lock table is full.
import type { Log } from '#src/kernel/log.ts'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { isLockTableFull } from '#src/kernel/postgres/full-lock-table.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { controlSettings } from './cluster.ts'
import { type LockBounds, type LockSettings, lockBounds, lockSettings, lockWarnings } from './lock-bounds.ts'
import { enforceLockBounds, type LockCheck } from './lock-enforcement.ts'
import { tenantLogin } from './logins.ts'

export interface Watchdog {
  /** Warnings for the operator, as sentences. */
  warnings(): readonly string[]
  close(): Promise<void>
}

const intervalMs = { usually: 250, whileLocksGrow: 50, whileTableIsFull: 20 }
const transactionAgeEvery = 4
const queueEvery = 20
/** From this fraction on, a project's locks or the notification queue are checked more often. */
const growing = { locks: 0.25, queue: 0.25 }
const queueTooFull = 0.5
const maxIdleInTransaction = '5 minutes'
const maxIdleWhileQueueIsFull = '2 seconds'
/** The timeouts keep a lock on `projects`, which the watchdog reads, from blocking its checks or its shutdown. */
const watchdogSettings = { ...controlSettings, lock_timeout: '100ms', statement_timeout: '2s' }
const lockNotAvailable = '55P03'

/** Callers have a statement_timeout. A session that is well past it has evaded it. */
const overdue = (callerMs: number) => sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and datname in (select ref from projects) and (
     (usename !~ '_owner$' and xact_start < now() - make_interval(secs => ${callerMs / 1000}))
     or (state like 'idle in transaction%' and state_change < now() - ${maxIdleInTransaction}::interval))`

// The call also truncates the queue after the session that blocked it has ended.
const queueUsage = sql`select pg_notification_queue_usage() as used`

/**
 * Postgres does not show which sessions listen. A listening session that is idle in a transaction blocks the queue, so
 * all idle ones are ended. Each loses only its open transaction.
 */
const idleTransactions = sql`
  select pg_terminate_backend(pid) from pg_stat_activity
   where usename ~ ${tenantLogin} and state like 'idle in transaction%'
     and state_change < now() - ${maxIdleWhileQueueIsFull}::interval`

/** Further work that runs on the watchdog's connection at each check. */
export interface Task {
  check(session: Session): Promise<void>
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
  const sleep = (ms: number) =>
    new Promise<void>(resolve => {
      wake = resolve
      setTimeout(resolve, ms).unref()
    })

  async function watch(session: Session): Promise<void> {
    settings = await session.row<LockSettings>(lockSettings)
    const bounds = lockBounds(settings!)
    const checkLocks = await enforceLockBounds(session, bounds)
    for (let check = 0; !isClosed; check++) {
      const restMs = await checkLocks()
        .then(locks => runOtherChecks(session, bounds, locks, check))
        .catch(waitForFullTable)
      await sleep(restMs)
    }
  }

  /** Returns the time until the next check. */
  async function runOtherChecks(
    session: Session,
    bounds: LockBounds,
    { ended, most }: LockCheck,
    check: number,
  ): Promise<number> {
    report('too many locks', ended)
    if (check % transactionAgeEvery === 0)
      report('transaction too old', await session.repeat(late).catch(ignoreLockTimeout))
    if (check % queueEvery === 0 || queueUsed >= growing.queue) await checkNotificationQueue(session)
    for (const task of tasks) await task.check(session)
    return most > bounds.project * growing.locks ? intervalMs.whileLocksGrow : intervalMs.usually
  }

  async function checkNotificationQueue(session: Session): Promise<void> {
    queueUsed = (await session.row<{ used: number }>(queueUsage))?.used ?? 0
    if (queueUsed >= queueTooFull)
      report('holds up the notification queue', await session.repeat(idleTransactions))
  }

  const watching = (async () => {
    while (!isClosed) {
      try {
        await withClient(address, control, watchdogSettings, watch)
      } catch (error) {
        if (!isClosed) log.warn({ err: error }, 'the watchdog lost its connection; reconnecting')
        await sleep(intervalMs.usually)
      }
    }
  })()

  /** Keeps the connection, because a new one cannot be opened while the table is full. */
  function waitForFullTable(error: unknown): number {
    if (!isLockTableFull(error)) throw error
    return intervalMs.whileTableIsFull
  }

  function ignoreLockTimeout(error: unknown): number {
    if (sqlState(error) !== lockNotAvailable) throw error
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
