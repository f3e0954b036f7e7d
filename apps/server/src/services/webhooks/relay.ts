// Turns row changes and auth events of a project into deliveries: one for each webhook and listener that selects them.
// Both come from tables of the project database, each with its own position (tenancy/outbox-relay.ts).

import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { createRelay } from '#src/tenancy/outbox-relay.ts'
import { deleteRowChanges, deleteSeenChanges, type RowChange, readRowChanges } from './changes-store.ts'
import { type Selects, selection } from './events.ts'
import { readEvents } from './events-store.ts'
import { type AuthEventRow, authMessage, type Message, rowChangeMessage } from './payload.ts'
import { insertDeliveries, type NewDelivery } from './queue-store.ts'
import { findCursor, listReceivers, moveCursor, type Receiver } from './store.ts'

interface RelayDeps {
  control: Database
  databases: Pick<Databases, 'asService'>
  directory: Pick<Directory, 'find'>
  /** Called after deliveries were queued. */
  queued(projectId: string): void
  log: Log
}

export interface WebhookRelay {
  /** Relays what is committed now. A failure is logged; the next call tries again. */
  run(projectId: string): Promise<void>
  close(): Promise<void>
}

/** The sources of a project, by the names of their positions. */
export const sources = ['changes', 'events'] as const

const concurrency = 4
/** Deliveries that one slice prepares. */
const sliceSize = 200
/** Deliveries and bytes of payload that one statement inserts. */
const maxInserted = { deliveries: 500, bytes: 1_000_000 }

interface Selecting extends Receiver {
  selects: Selects
}

export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { control, databases, directory, queued, log } = deps
  const limit = createLimiter({ concurrency, perKey: 1 })
  /** Runs that have not started. They read what is committed until they start. */
  const waiting = new Map<string, Promise<void>>()

  /** Reads the receivers after the rows: a change names only webhooks that were created before it. */
  async function prepare<Row extends { at: string }>(
    tenant: Tenant,
    rows: readonly Row[],
    messageFor: (row: Row) => Message,
    mayGet: (receiver: Receiver, row: Row) => boolean,
  ): Promise<(session: Session) => Promise<void>> {
    const receivers = (await listReceivers(control, tenant.id)).map(each => ({
      ...each,
      selects: selection(each.events),
    }))
    const chunks = await inSlices(deliveriesOf(rows, receivers, messageFor, mayGet))
    return async session => {
      for (const chunk of chunks) await insertDeliveries(session, chunk)
    }
  }

  const changes = createRelay<RowChange>(control, {
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
    relayed: ({ id }) => queued(id),
    settle: (tenant, rows) => deleteRowChanges(databases, tenant, rows),
    sweep: (tenant, seen) => deleteSeenChanges(databases, tenant, seen),
  })

  // Auth events stay as a record, so there is nothing to delete.
  const events = createRelay<AuthEventRow>(control, {
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
    relayed: ({ id }) => queued(id),
  })

  async function relayBoth(projectId: string): Promise<void> {
    try {
      const tenant = await directory.find(projectId)
      if (tenant?.status !== 'active') return
      await Promise.all([changes.run(tenant), events.run(tenant)])
    } catch (error) {
      log.warn({ err: error, project: projectId }, 'could not relay changes to webhooks; will retry')
      throw error
    }
  }

  return {
    run(projectId) {
      const before = waiting.get(projectId)
      if (before) return before
      let hasStarted = false
      const run = limit(projectId, () => {
        hasStarted = true
        waiting.delete(projectId)
        return relayBoth(projectId)
      })
      if (!hasStarted) waiting.set(projectId, run)
      return run
    },
    close: async () => void (await Promise.all([changes.close(), events.close()])),
  }
}

/** Yields after a fixed number of deliveries, because many webhooks can select many changes. */
function* deliveriesOf<Row extends { at: string }>(
  rows: readonly Row[],
  receivers: readonly Selecting[],
  messageFor: (row: Row) => Message,
  mayGet: (receiver: Receiver, row: Row) => boolean,
): Sliced<NewDelivery[][]> {
  const chunks: NewDelivery[][] = []
  let chunk: NewDelivery[] = []
  let bytes = 0
  let units = 0
  for (const row of rows) {
    const { event, body } = messageFor(row)
    const at = Date.parse(row.at)
    for (const receiver of receivers) {
      if (++units % sliceSize === 0) yield
      // A webhook gets nothing of the time before its creation.
      if (at < Math.floor(receiver.created_ms) || !mayGet(receiver, row) || !receiver.selects(event)) continue
      chunk.push({ id: orderedUuid(), webhook_id: receiver.id, event, payload: body })
      bytes += body.length
      if (chunk.length < maxInserted.deliveries && bytes < maxInserted.bytes) continue
      chunks.push(chunk)
      chunk = []
      bytes = 0
    }
  }
  if (chunk.length > 0) chunks.push(chunk)
  return chunks
}
