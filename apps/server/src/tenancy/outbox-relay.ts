// Relays the rows of a table in a project database into work of the control database, exactly once. The position up to
// which rows are relayed is stored in the control database, in the same transaction as the work: a crash before its commit
// relays the rows again from the old position, a crash after it does not relay them again. Then the rows are deleted. Rows
// that a crash has left are deleted by the position as well.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { remember } from '#src/kernel/remember.ts'
import type { Tenant } from './directory.ts'
import type { Cursor } from './outbox-reading.ts'

export interface RelayedRows<Row> {
  rows: Row[]
  cursor: Cursor
  /** Whether more rows were visible. */
  isFull: boolean
  /** Whether rows that were relayed before are still there, because a crash came before their deletion. */
  hasLeft?: boolean
}

/** The work of rows. */
export interface PreparedWork {
  /** Runs in the transaction that moves the position, so the work is inserted once. */
  insert(session: Session): Promise<void>
  /** Called after the commit. */
  committed?(): void
}

export interface RelayedTable<Row> {
  /** Where a project without a stored position begins. Without this field, such a project is not relayed. */
  readonly beginsAt?: Cursor
  /** A run ends after the batch in which this time has passed, so that projects with many rows take turns with others. */
  readonly turnMs?: number
  findCursor(control: Database, projectId: string): Promise<Cursor | undefined>
  /** False if another node has moved the position. */
  moveCursor(session: Session, projectId: string, from: Cursor | undefined, to: Cursor): Promise<boolean>
  read(tenant: Tenant, from: Cursor): Promise<RelayedRows<Row>>
  prepare(tenant: Tenant, rows: readonly Row[]): Promise<PreparedWork>
  /** Deletes relayed rows. */
  settle?(tenant: Tenant, rows: readonly Row[]): Promise<unknown>
  /** Deletes all rows that are visible in the snapshot, which have been relayed. */
  sweep?(tenant: Tenant, seen: string): Promise<unknown>
}

interface Relaying {
  running: Promise<boolean>
  /** The next run, which starts after the current one. The current run may have missed rows committed now. */
  next: Promise<boolean> | undefined
}

export interface Relay {
  /**
   * Relays the rows that are committed now. Resolves after a run that started after this call, to false if its turn has
   * ended before all rows were relayed.
   */
  run(tenant: Tenant): Promise<boolean>
  /** Ends runs after their current batch. The rest is relayed from the stored position. */
  close(): Promise<void>
}

const maxRemembered = 10_000

export function createRelay<Row>(control: Database, table: RelayedTable<Row>): Relay {
  const relaying = new Map<string, Relaying>()
  /** The positions that this node has stored last. A stale one is noticed when it is moved. */
  const positions = new Map<string, Cursor>()
  let isClosed = false

  function begin(tenant: Tenant): Promise<boolean> {
    const running = relayAll(tenant).finally(() => {
      if (relaying.get(tenant.id)?.running === running && !relaying.get(tenant.id)!.next)
        relaying.delete(tenant.id)
    })
    relaying.set(tenant.id, { running, next: undefined })
    return running
  }

  /** False if its turn has ended before. */
  async function relayAll(tenant: Tenant): Promise<boolean> {
    const { turnMs = Number.POSITIVE_INFINITY } = table
    const endAt = performance.now() + turnMs
    let cursor = positions.get(tenant.id) ?? (await table.findCursor(control, tenant.id))
    let mustSweep = false
    let isFull: boolean
    do {
      const from = cursor ?? table.beginsAt
      if (!from) return true
      const batch = await table.read(tenant, from)
      isFull = batch.isFull
      mustSweep ||= batch.hasLeft === true
      if (batch.rows.length === 0 && !isFull) break
      if (await relayBatch(tenant, batch.rows, cursor, batch.cursor)) {
        mustSweep = true
        cursor = batch.cursor
        remember(positions, tenant.id, cursor, maxRemembered)
        if (isFull && batch.rows.length > 0) await table.settle?.(tenant, batch.rows)
      } else {
        positions.delete(tenant.id)
        cursor = await table.findCursor(control, tenant.id)
        isFull = true
      }
    } while (isFull && !isClosed && performance.now() < endAt)
    if (cursor && mustSweep) await table.sweep?.(tenant, cursor.seen)
    return !isFull || isClosed
  }

  /** False if another node has moved the position. */
  async function relayBatch(
    tenant: Tenant,
    rows: readonly Row[],
    from: Cursor | undefined,
    to: Cursor,
  ): Promise<boolean> {
    const work = await table.prepare(tenant, rows)
    const isMoved = await control.transaction(async session => {
      if (!(await table.moveCursor(session, tenant.id, from, to))) return false
      await work.insert(session)
      return true
    })
    if (isMoved) work.committed?.()
    return isMoved
  }

  return {
    run(tenant) {
      const current = relaying.get(tenant.id)
      if (!current) return begin(tenant)
      current.next ??= current.running.then(
        () => begin(tenant),
        () => begin(tenant),
      )
      return current.next
    },
    async close() {
      isClosed = true
      await Promise.allSettled([...relaying.values()].flatMap(({ running, next }) => [running, next]))
    },
  }
}
