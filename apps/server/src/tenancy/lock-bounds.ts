// How many locks one session and one project may hold. All sessions of a server share one lock table, whose size follows
// from its settings; whoever fills it makes the statements and logins of everybody else fail with 53200.
import { sql } from '#src/kernel/postgres/sql.ts'

export interface LockSettings {
  perTransaction: number
  connections: number
  prepared: number
}

export interface LockBounds {
  session: number
  project: number
  /** Sessions with fewer are not looked at. */
  worthCounting: number
}

/** What a server of our own settings allows; on smaller ones it is a share of the lock table. */
const most = { session: 20_000, project: 60_000, worthCounting: 1000 }
const share = { session: 1 / 8, project: 1 / 4, worthCounting: 1 / 64 }
/** A tenant takes some 70,000 locks between two looks of the watchdog. */
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
