// Maximum number of locks of a session and of a project. All sessions of a server share one lock table, whose size follows
// from the server's settings. When it is full, statements and logins of all projects fail with 53200.
import { sql } from '#src/kernel/postgres/sql.ts'

export interface LockSettings {
  perTransaction: number
  connections: number
  prepared: number
}

export interface LockBounds {
  session: number
  project: number
  /** Sessions with fewer locks are ignored. */
  worthCounting: number
}

/** The bounds with the settings of the embedded server. With a smaller lock table they are a fraction of it. */
const most = { session: 20_000, project: 60_000, worthCounting: 1000 }
const share = { session: 1 / 8, project: 1 / 4, worthCounting: 1 / 64 }
/** A tenant can take about 70,000 locks between two checks of the watchdog. */
const sufficient = 100_000

export const lockSettings = sql`
  select current_setting('max_locks_per_transaction')::int as "perTransaction",
         current_setting('max_connections')::int as connections,
         current_setting('max_prepared_transactions')::int as prepared`

const capacityOf = ({ perTransaction, connections, prepared }: LockSettings) =>
  perTransaction * (connections + prepared)

export function lockBounds(settings: LockSettings): LockBounds {
  const bound = (name: keyof LockBounds) =>
    Math.min(most[name], Math.floor(capacityOf(settings) * share[name]))
  return {
    session: bound('session'),
    project: bound('project'),
    worthCounting: bound('worthCounting'),
  }
}

export function lockWarnings(settings: LockSettings): string[] {
  const capacity = capacityOf(settings)
  if (capacity >= sufficient) return []
  const { perTransaction, connections, prepared } = settings
  const recommended = Math.ceil(sufficient / (connections + prepared) / 64) * 64
  return [
    `The lock table of Postgres is too small to keep projects apart: it holds ${capacity} locks (max_locks_per_transaction ${perTransaction} × (max_connections ${connections} + max_prepared_transactions ${prepared})), and one project can fill it for a moment. Set max_locks_per_transaction to ${recommended} or more and restart Postgres.`,
  ]
}
