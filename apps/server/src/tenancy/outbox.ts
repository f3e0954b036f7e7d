// The outbox of a project: events in its database, written in the transaction they belong to, and relayed exactly once
// into work of the control database (outbox-relay.ts).
//
// A node marks a project in the control database before it writes an event. Any node finds the mark when its time has
// passed, so events of a node that died are relayed, and projects without events cost nothing.
import type { Log } from '#src/kernel/log.ts'
import { type Metric, queueDepth, workerMetrics } from '#src/kernel/metrics.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Databases } from './databases.ts'
import type { Directory, Tenant } from './directory.ts'
import { beginning } from './outbox-reading.ts'
import { createRelay } from './outbox-relay.ts'
import type { OutboxEvent } from './outbox-store.ts'
import * as store from './outbox-store.ts'

/** Turns events of one kind into work of the control database. */
export interface EventRelay {
  readonly kind: string
  /**
   * Prepares the work, for example renders a mail, and returns a function that inserts it. That function runs
   * in the transaction that moves the position, so the work is inserted once. An event that cannot become
   * work is logged and skipped.
   */
  prepare(tenant: Tenant, events: readonly OutboxEvent[]): Promise<(session: Session) => Promise<void>>
  /** Called after the commit. */
  relayed?(tenant: Tenant): void
}

export interface Outbox {
  /** Writes an event that will be relayed, in the transaction of the session. */
  write(session: Session, tenant: Tenant, event: OutboxEvent): Promise<void>
  /** Relays the events that this session has committed. A failure is logged and retried later. */
  relayWritten(session: Session, tenant: Tenant): Promise<void>
  /** Registers the relay for events of a kind. */
  addRelay(relay: EventRelay): void
  readonly metrics: readonly Metric[]
  /** Starts relaying events of crashed nodes. */
  start(): void
  close(): Promise<void>
}

interface OutboxDeps {
  control: Database
  databases: Pick<Databases, 'asService'>
  directory: Pick<Directory, 'find' | 'onChange'>
  log: Log
}

/** Lifetime of a mark. It is renewed at half of this time. */
const markSeconds = 60
const bounds = { all: 4, perProject: 1 }

export function createOutbox({ control, databases, directory, log }: OutboxDeps): Outbox {
  const relays = new Map<string, EventRelay>()
  const markedAt = new Map<string, number>()
  const written = new WeakSet<Session>()
  let worker: Worker | undefined

  async function mark(id: string): Promise<void> {
    const now = performance.now()
    const last = markedAt.get(id)
    if (last !== undefined && now - last < (markSeconds * 1000) / 2) return
    await store.mark(control, id, markSeconds)
    markedAt.set(id, now)
  }

  const groupsOf = (tenant: Tenant, events: readonly OutboxEvent[]) =>
    [...Map.groupBy(events, ({ kind }) => kind)].flatMap(([kind, group]) => {
      const relay = relays.get(kind)
      if (!relay) log.error({ project: tenant.id, kind, events: group.length }, 'events of an unknown kind')
      return relay ? [{ relay, group }] : []
    })

  const relay = createRelay<OutboxEvent>(control, {
    beginsAt: beginning,
    findCursor: store.findCursor,
    moveCursor: store.moveCursor,
    read: (tenant, from) => store.readDue(databases, tenant, from),
    async prepare(tenant, events) {
      const groups = groupsOf(tenant, events)
      const inserts = await Promise.all(groups.map(({ relay, group }) => relay.prepare(tenant, group)))
      return {
        async insert(session) {
          for (const insert of inserts) await insert(session)
        },
        committed() {
          for (const { relay } of groups) relay.relayed?.(tenant)
        },
      }
    },
    settle: (tenant, events) => store.deleteEvents(databases, tenant, events),
    sweep: (tenant, seen) => store.deleteSeen(databases, tenant, seen),
  })

  async function relayMarked({ project_id }: store.ClaimedMark): Promise<'done' | 'failed'> {
    try {
      const tenant = await directory.find(project_id)
      if (tenant?.status !== 'active') return 'failed'
      await relay.run(tenant)
      return 'done'
    } catch (error) {
      log.warn({ err: error, project: project_id }, 'could not relay events of a project; will retry')
      return 'failed'
    }
  }

  return {
    metrics: [
      ...workerMetrics('outbox', () => worker?.use() ?? { running: 0, slots: bounds.all }),
      queueDepth('outbox', store.countMarks),
      {
        name: 'plinth_outbox_lag_seconds',
        type: 'gauge',
        help: 'How long the events of a project are overdue, at most.',
        poll: store.overdueSeconds,
      },
    ],
    addRelay: relay => void relays.set(relay.kind, relay),

    async write(session, tenant, event) {
      await mark(tenant.id)
      await store.insertEvent(session, event)
      written.add(session)
    },

    async relayWritten(session, tenant) {
      if (!written.delete(session)) return
      await relay
        .run(tenant)
        .catch(error =>
          log.warn({ err: error, project: tenant.id }, 'could not relay events of a project; will retry'),
        )
    },

    start() {
      worker = startWorker<store.ClaimedMark, 'done' | 'failed'>(
        {
          name: 'outbox',
          bounds,
          claim: ({ jobs }) => store.claimMarks(control, jobs, markSeconds),
          nextDueMs: () => store.nextMarkMs(control),
          act: relayMarked,
          record: async (claimed, outcome) => {
            if (outcome === 'done') await store.unmark(control, claimed)
          },
          pollMs: 60_000,
          graceMs: 2000,
        },
        log,
      )
      // A resumed project may have events that were not relayed while it was suspended.
      directory.onChange(() => worker?.wake())
    },

    async close() {
      await worker?.close()
      await relay.close()
    },
  }
}
