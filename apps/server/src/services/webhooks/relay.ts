// Turns row changes and auth events of a project into deliveries: one for each webhook and listener that selects them.
// Both come from tables of the project database, each with its own position (tenancy/outbox-relay.ts).

import { createLimiter } from '#src/kernel/limiter.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { createRelay, type PreparedWork } from '#src/tenancy/outbox-relay.ts'
import { deleteRowChanges, deleteSeenChanges, type RowChange, readRowChanges } from './changes-store.ts'
import { leaseSeconds } from './claim.ts'
import { type Selects, selection } from './events.ts'
import { readEvents } from './events-store.ts'
import type { Handover } from './handover.ts'
import { type AuthEventRow, authMessage, type Message, rowChangeMessage } from './payload.ts'
import { insertDeliveries, type NewDelivery } from './queue-store.ts'
import { findCursor, listReceivers, moveCursor, type Receiver } from './store.ts'
import type { StoredBytes } from './stored-bytes.ts'

interface RelayDeps {
  control: Database
  databases: Pick<Databases, 'asService'>
  directory: Pick<Directory, 'find'>
  handover: Handover
  stored: StoredBytes
  /** Called after deliveries were queued. */
  queued(projectId: string): void
}

export interface WebhookRelay {
  /** Relays what is committed now. */
  run(projectId: string): Promise<void>
  close(): Promise<void>
}

/** The sources of a project, by the names of their positions. */
export const sources = ['changes', 'events'] as const

const concurrency = 4
/** After this time a project with many changes lets the others relay theirs. */
const turnMs = 500
/** Deliveries that one slice prepares. */
const sliceSize = 200
/** Deliveries and bytes of payload that one statement inserts. */
const maxInserted = { deliveries: 500, bytes: 1_000_000 }

/** What one statement inserts. */
interface Chunk {
  deliveries: NewDelivery[]
  bytes: number
}

interface Selecting extends Receiver {
  selects: Selects
}

export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { control, databases, directory, handover, stored, queued } = deps
  const limit = createLimiter({ concurrency, perKey: 1 })
  /** Runs that have not started. They read what is committed until they start. */
  const waiting = new Map<string, Promise<void>>()

  /** Reads the receivers after the rows: a change names only webhooks that were created before it. */
  async function prepare<Row extends { at: string }>(
    tenant: Tenant,
    rows: readonly Row[],
    messageFor: (row: Row) => Message,
    mayGet: (receiver: Receiver, row: Row) => boolean,
  ): Promise<PreparedWork> {
    const receivers = (await listReceivers(control, tenant.id)).map(each => ({
      ...each,
      selects: selection(each.events),
    }))
    const chunks = await inSlices(deliveriesOf(rows, receivers, messageFor, mayGet))
    // Those of listeners are read by the command line.
    const hasListeners = receivers.some(({ is_listener: isListener }) => isListener)
    const handed = hasListeners ? [] : (chunks[0]?.deliveries ?? [])
    const fitting = handed.slice(0, handover.room(handed))
    return {
      async insert(session) {
        if (fitting.length > 0) await insertDeliveries(session, fitting, leaseSeconds)
        for (const [index, { deliveries }] of chunks.entries()) {
          const rest = index === 0 ? deliveries.slice(fitting.length) : deliveries
          if (rest.length > 0) await insertDeliveries(session, rest)
        }
      },
      committed() {
        handover.add(tenant.id, fitting)
        for (const { bytes } of chunks) stored.added(tenant.id, bytes)
        queued(tenant.id)
      },
    }
  }

  const changes = createRelay<RowChange>(control, {
    turnMs,
    findCursor: findCursor('changes'),
    moveCursor: moveCursor('changes'),
    read: (tenant, from) => readRowChanges(databases, tenant, from),
    prepare: (tenant, rows) =>
      prepare(
        tenant,
        rows,
        change => rowChangeMessage(tenant.id, change),
        ({ attached_as: attachedAs, is_listener: isListener }, { webhookIds }) =>
          isListener || webhookIds.includes(attachedAs),
      ),
    settle: (tenant, rows) => deleteRowChanges(databases, tenant, rows),
    sweep: (tenant, seen) => deleteSeenChanges(databases, tenant, seen),
  })

  // Auth events stay as a record, so there is nothing to delete.
  const events = createRelay<AuthEventRow>(control, {
    turnMs,
    findCursor: findCursor('events'),
    moveCursor: moveCursor('events'),
    read: (tenant, from) => readEvents(databases, tenant, from),
    prepare: (tenant, rows) =>
      prepare(
        tenant,
        rows,
        event => authMessage(tenant.id, event),
        () => true,
      ),
  })

  /** False if its turn has ended before all was relayed. */
  async function relayBoth(projectId: string): Promise<boolean> {
    const tenant = await directory.find(projectId)
    if (tenant?.status !== 'active') return true
    await stored.makeRoom(projectId)
    return (await Promise.all([changes.run(tenant), events.run(tenant)])).every(isDone => isDone)
  }

  function run(projectId: string): Promise<void> {
    const before = waiting.get(projectId)
    if (before) return before
    let hasStarted = false
    const running = limit(projectId, () => {
      hasStarted = true
      waiting.delete(projectId)
      return relayBoth(projectId)
    }).then(isDone => (isDone ? undefined : run(projectId)))
    if (!hasStarted) waiting.set(projectId, running)
    return running
  }

  return {
    run,
    close: async () => void (await Promise.all([changes.close(), events.close()])),
  }
}

/** Yields after a fixed number of deliveries, because many webhooks can select many changes. */
function* deliveriesOf<Row extends { at: string }>(
  rows: readonly Row[],
  receivers: readonly Selecting[],
  messageFor: (row: Row) => Message,
  mayGet: (receiver: Receiver, row: Row) => boolean,
): Sliced<Chunk[]> {
  const chunks: Chunk[] = []
  let chunk: Chunk = { deliveries: [], bytes: 0 }
  let units = 0
  for (const row of rows) {
    const { event, body } = messageFor(row)
    const at = Date.parse(row.at)
    for (const receiver of receivers) {
      if (++units % sliceSize === 0) yield
      // A webhook gets nothing of the time before its creation.
      if (at < Math.floor(receiver.created_ms) || !mayGet(receiver, row) || !receiver.selects(event)) continue
      chunk.deliveries.push({ id: orderedUuid(), webhook_id: receiver.id, event, payload: body })
      chunk.bytes += body.length
      if (chunk.deliveries.length < maxInserted.deliveries && chunk.bytes < maxInserted.bytes) continue
      chunks.push(chunk)
      chunk = { deliveries: [], bytes: 0 }
    }
  }
  if (chunk.deliveries.length > 0) chunks.push(chunk)
  return chunks
}
