// The feed of one project: reads changes in commit order, batch by batch, and delivers each batch before it reads the next.
// Delivery is at most once. Subscribers get a notice when changes may have been lost.
import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '#src/kernel/log.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Cursor } from '#src/tenancy/outbox-reading.ts'
import type { ChangeSubscriber, SentMessage } from '../subscriber.ts'
import { deliverBatch } from './batch-delivery.ts'
import { type Captured, capture, isCapturedFor, nothingCaptured } from './capture.ts'
import type { CaptureSwitch } from './capture-switch.ts'
import { createConditions } from './conditions.ts'
import type { OpenFeedConnection } from './feed-connections.ts'
import { Groups } from './groups.ts'
import { createLagDetector } from './lag.ts'
import { createLossNotices } from './loss-notices.ts'
import { isCanceled, type PolicyChecks } from './policy-checks.ts'
import { type ChangesStore, changesStore, type OutboxBatch, registrationSeconds } from './store.ts'
import { findSubscriptionError } from './subscription-errors.ts'
import { createWakeableTimer } from './wakeable-timer.ts'

export interface FeedDeps {
  policyChecks: PolicyChecks
  openConnection: OpenFeedConnection
  captureSwitch: CaptureSwitch
  /** The current state of the project, or undefined if it is not served. */
  tenant(): Promise<Tenant | undefined>
  /** Called before the first trigger is enabled. After a crash, another node finds the project by this record. */
  renewCapture(): Promise<void>
  message(message: SentMessage): void
  log: Log
}

export interface Feed {
  readonly size: number
  /** Resolves when the subscriber's changes are captured. */
  add(subscriber: ChangeSubscriber): Promise<void>
  remove(subscriber: ChangeSubscriber): void
  /** Reads now, because something may have been written. */
  wake(): void
  /** Checks again which tables have to be captured. */
  recapture(): void
  close(): Promise<void>
}

/** Polls often while changes arrive, then less often. Writes that bypass the platform wake nobody, so polling finds them. */
const busyPollMs = 5
const quietPollMs = 100
const idlePollMs = 200
const idleAfterMs = 10_000
const renewMs = (registrationSeconds * 1000) / 3
/** How long changes stay in the outbox, for other nodes to read them. */
const retentionMs = 15_000
const reconnectMs = { first: 100, max: 3000 }
/** How long `switchOff` retries on locked tables. After that, the clean-up chore disables the triggers. */
const switchOffMs = 3000
const lockedBackOffMs = { first: 250, max: 10_000 }

export function startFeed(deps: FeedDeps): Feed {
  const { policyChecks, openConnection, captureSwitch, log } = deps
  /** Not the id of the process: a feed that closes and its successor may overlap. */
  const node = randomUUID()
  const conditions = createConditions(policyChecks)
  const groups = new Groups()
  /** Subscribers that wait for capture, with the function that resolves their `add`. */
  const waiting = new Map<ChangeSubscriber, () => void>()
  const reportLoss = createLossNotices()
  const timer = createWakeableTimer()
  const closing = new AbortController()
  /** Survives reconnects. */
  let cursor: Cursor | undefined
  let captured: Captured = nothingCaptured
  const lockedTables = createLockedTables()
  let confirming: Promise<void> = Promise.resolve()
  let mustCapture = true

  async function run(): Promise<void> {
    for (
      let pauseMs = reconnectMs.first;
      !closing.signal.aborted;
      pauseMs = Math.min(reconnectMs.max, pauseMs * 2)
    ) {
      const startedAt = performance.now()
      await connectAndRead().catch(error => {
        if (!closing.signal.aborted)
          log.warn({ err: error }, 'reading the row changes of a project failed; retrying')
      })
      if (performance.now() - startedAt > reconnectMs.max) pauseMs = reconnectMs.first
      await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => {})
    }
  }

  /** Runs on one connection until it breaks. */
  async function connectAndRead(): Promise<void> {
    const tenant = await deps.tenant()
    if (!tenant) return
    const lost = new AbortController()
    const connection = await openConnection(tenant, () => {
      lost.abort()
      timer.wake()
    })
    try {
      const store = changesStore(connection, node)
      await readChanges(store, tenant, AbortSignal.any([lost.signal, closing.signal]))
      if (!lost.signal.aborted) await switchOff(store, tenant)
    } finally {
      connection.close()
    }
  }

  async function readChanges(store: ChangesStore, tenant: Tenant, end: AbortSignal): Promise<void> {
    const maintain = createMaintenance(store, deps)
    const detectLag = createLagDetector(store, retentionMs, notifyAll)
    await deps.renewCapture()
    if (cursor) notifyAll('Changes may have been lost: the listener has reconnected')
    cursor ??= { seen: await store.snapshot() }
    await recapture(store, tenant)
    let catalogVersion = ''
    let lastChangeAt = performance.now()
    while (!end.aborted) {
      const readAt = performance.now()
      const batch = await readBatch(store, cursor, notifyAll)
      await detectLag(batch, readAt)
      if (batch.registered === 0 && captured.tables.size > 0) {
        mustCapture = true
        notifyAll('Changes may have been lost: the database has forgotten them')
      }
      if (batch.catalogVersion !== catalogVersion || lockedTables.isDue() || (await maintain(cursor.seen)))
        mustCapture = true
      catalogVersion = batch.catalogVersion
      // Moved before delivery: after an error the batch is not delivered twice.
      cursor = batch.cursor
      if (batch.changes.length > 0) {
        lastChangeAt = performance.now()
        await deliver(store, batch)
      }
      if (mustCapture) await recapture(store, tenant)
      if (!batch.isFull && !end.aborted) await timer.wait(pauseAfter(batch, performance.now() - lastChangeAt))
    }
  }

  async function deliver(store: ChangesStore, { changes }: OutboxBatch): Promise<void> {
    const tenant = await deps.tenant()
    if (!tenant) return
    const { message } = deps
    const { messages } = captured
    await deliverBatch(
      { store, policyChecks, conditions, groups, tenant, messages, message, reportLoss },
      changes,
    )
  }

  function notifyAll(message: string): void {
    for (const subscriber of groups.changeSubscribers()) subscriber.sendStatus('error', message)
  }

  async function recapture(store: ChangesStore, tenant: Tenant): Promise<void> {
    mustCapture = false
    const before = captured
    const added = [...waiting]
    const all = [...groups.changeSubscribers(), ...waiting.keys()]
    captured = await capture(store, captureSwitch, tenant, all, lockedTables.backedOff())
    lockedTables.update(captured.locked)
    await store.unregisterOthers([...captured.tables.keys()])
    for (const [subscriber, resolve] of added) {
      if (!isCapturedFor(subscriber, captured) || !waiting.delete(subscriber)) continue
      groups.add(subscriber)
      resolve()
      if (subscriber.bindings.length > 0) confirm(subscriber, store, tenant)
    }
    // Some tables have no subscribers any more.
    if (before.tables.keys().some(relid => !captured.tables.has(relid)))
      await captureSwitch.adjust(tenant.ref, [...lockedTables.backedOff()])
  }

  /** Sends the subscription status. Filters are checked one after the other, so that they do not delay other queries. */
  function confirm(subscriber: ChangeSubscriber, store: ChangesStore, tenant: Tenant): void {
    const send = async () => {
      // The reply to the join comes first.
      await nextTurn()
      const error = await findSubscriptionError(subscriber, captured, store, policyChecks, tenant)
      if (groups.has(subscriber))
        subscriber.sendStatus(error === undefined ? 'ok' : 'error', error ?? 'Subscribed to PostgreSQL')
    }
    const sendOrLog = () => send().catch(error => log.warn({ err: error }, 'checking a subscription failed'))
    if (subscriber.bindings.some(({ filter }) => filter)) confirming = confirming.then(sendOrLog)
    else void sendOrLog()
  }

  /** Deletes this feed's registrations, and disables the triggers that no other node needs. */
  async function switchOff(store: ChangesStore, tenant: Tenant): Promise<void> {
    await store.unregisterOthers([])
    for (const until = performance.now() + switchOffMs; performance.now() < until; await sleep(100))
      if ((await captureSwitch.adjust(tenant.ref)).isDone) return
  }

  function scheduleCapture(): void {
    mustCapture = true
    timer.wake()
  }

  const running = run()
  return {
    get size() {
      return groups.size + waiting.size
    },
    async add(subscriber) {
      // Without bindings it receives only the messages that SQL sends, which are captured already.
      if (subscriber.bindings.length === 0 && captured !== nothingCaptured) return groups.add(subscriber)
      scheduleCapture()
      return new Promise(resolve => waiting.set(subscriber, resolve))
    },
    remove(subscriber) {
      groups.remove(subscriber)
      waiting.delete(subscriber)
    },
    wake: timer.wake,
    recapture: scheduleCapture,
    async close() {
      closing.abort()
      timer.wake()
      await running
    },
  }
}

/** A read that timed out would time out again, so the feed skips to the present. */
async function readBatch(
  store: ChangesStore,
  from: Cursor,
  notifyAll: (message: string) => void,
): Promise<OutboxBatch> {
  try {
    return await store.read(from)
  } catch (error) {
    if (!isCanceled(error)) throw error
    notifyAll('Changes may have been lost: there was more than could be read in time')
    return store.read({ seen: await store.snapshot() })
  }
}

function pauseAfter({ changes }: OutboxBatch, idleMs: number): number {
  if (changes.length > 0) return busyPollMs
  return idleMs > idleAfterMs ? idlePollMs : Math.min(quietPollMs, Math.max(busyPollMs, idleMs))
}

/** Periodic work. Returns true when the tables have to be registered again. */
function createMaintenance(
  store: ChangesStore,
  { renewCapture, log }: Pick<FeedDeps, 'renewCapture' | 'log'>,
) {
  let renewedAt = performance.now()
  let oldest: { snapshot: string; at: number } | undefined
  return async (snapshot: string): Promise<boolean> => {
    const now = performance.now()
    oldest ??= { snapshot, at: now }
    try {
      if (now - oldest.at > retentionMs) {
        const { snapshot: seen } = oldest
        oldest = { snapshot, at: now }
        await store.deleteRead(seen)
      }
      if (now - renewedAt < renewMs) return false
      renewedAt = now
      await renewCapture()
    } catch (error) {
      log.warn({ err: error }, 'realtime outbox maintenance failed; retrying later')
    }
    return renewedAt === now
  }
}

/** Retries locked tables with exponential back-off, because writers queue behind every attempt. */
function createLockedTables() {
  const lockedTables = new Map<string, { ms: number; until: number }>()
  return {
    update(locked: ReadonlySet<string>) {
      const now = performance.now()
      for (const relid of lockedTables.keys()) if (!locked.has(relid)) lockedTables.delete(relid)
      for (const relid of locked) {
        const entry = lockedTables.get(relid)
        if (entry && entry.until > now) continue
        const ms = Math.min(lockedBackOffMs.max, (entry?.ms ?? lockedBackOffMs.first / 2) * 2)
        lockedTables.set(relid, { ms, until: now + ms })
      }
    },
    backedOff: (): Set<string> =>
      new Set([...lockedTables].filter(([, { until }]) => until > performance.now()).map(([relid]) => relid)),
    isDue: (): boolean => lockedTables.values().some(({ until }) => until <= performance.now()),
  }
}
