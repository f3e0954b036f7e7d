// The changes of one project, while somebody listens: read in the order of commits, batch by batch, each told before the
// next is read. Delivery is at most once, and what may have been lost is said.
import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '#src/kernel/log.ts'
import type { CaptureSwitch } from '#src/tenancy/capture-switch.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { OpenListener } from '#src/tenancy/listeners.ts'
import type { ChangeSubscriber, SentMessage } from '../subscriber.ts'
import { createBell } from './bell.ts'
import { type Captured, capture, flowsFor, nothingCaptured } from './capture.ts'
import { createConditions } from './conditions.ts'
import { createExcuses } from './excuses.ts'
import { type Gate, isCanceled } from './gate.ts'
import { Groups } from './groups.ts'
import { createLag } from './lag.ts'
import { tellRound } from './round.ts'
import { type ChangesStore, type Cursor, changesStore, listeningSeconds, type Reading } from './store.ts'
import { whatIsWrong } from './wishes.ts'

export interface FeedDeps {
  gate: Gate
  openListener: OpenListener
  captureSwitch: CaptureSwitch
  /** The project as it is now, or undefined when it is served no more. */
  tenant(): Promise<Tenant | undefined>
  /** Noted before the first trigger is on: a node that dies leaves word of it. */
  noteCapture(): Promise<void>
  message(message: SentMessage): void
  log: Log
}

export interface Feed {
  readonly size: number
  /** Resolves when its changes are captured, or will not be. */
  add(subscriber: ChangeSubscriber): Promise<void>
  remove(subscriber: ChangeSubscriber): void
  /** Something may have been written. */
  kick(): void
  /** What is captured may have to change. */
  recapture(): void
  close(): Promise<void>
}

/** While changes come, the next look is soon; then rarer, for writes that nobody has announced. */
const busyPollMs = 5
const quietPollMs = 100
const idlePollMs = 200
const idleAfterMs = 10_000
const renewMs = (listeningSeconds * 1000) / 3
/** What all nodes have had the time to read. */
const keepMs = 15_000
const retryMs = { first: 100, most: 3000 }
/** At the end, tables that somebody holds are tried for so long; then they are left to whoever tidies up. */
const leaveMs = 3000
const restMs = { first: 250, most: 10_000 }

export function startFeed(deps: FeedDeps): Feed {
  const { gate, openListener, captureSwitch, log } = deps
  /** Its own: one that ends and one that begins may meet. */
  const node = randomUUID()
  const conditions = createConditions(gate)
  const groups = new Groups()
  /** Those whose changes do not flow yet, and how to tell them that they do. */
  const waiting = new Map<ChangeSubscriber, () => void>()
  const excuse = createExcuses()
  const bell = createBell()
  const closing = new AbortController()
  /** Kept from one connection to the next. */
  let cursor: Cursor | undefined
  let captured: Captured = nothingCaptured
  const rests = createRests()
  let confirming: Promise<void> = Promise.resolve()
  let mustCapture = true

  async function run(): Promise<void> {
    for (
      let pauseMs = retryMs.first;
      !closing.signal.aborted;
      pauseMs = Math.min(retryMs.most, pauseMs * 2)
    ) {
      const startedAt = performance.now()
      await listen().catch(error => {
        if (!closing.signal.aborted)
          log.warn({ err: error }, 'live changes of a project cannot be read; trying again')
      })
      if (performance.now() - startedAt > retryMs.most) pauseMs = retryMs.first
      await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => {})
    }
  }

  /** On one connection, until it breaks. */
  async function listen(): Promise<void> {
    const tenant = await deps.tenant()
    if (!tenant) return
    const lost = new AbortController()
    const listener = await openListener(tenant, () => {
      lost.abort()
      bell.ring()
    })
    try {
      const store = changesStore(listener, node)
      await follow(store, tenant, AbortSignal.any([lost.signal, closing.signal]))
      if (!lost.signal.aborted) await leave(store, tenant)
    } finally {
      listener.close()
    }
  }

  async function follow(store: ChangesStore, tenant: Tenant, end: AbortSignal): Promise<void> {
    const chores = createChores(store, deps)
    const noteLag = createLag(store, keepMs, tellAll)
    await deps.noteCapture()
    if (cursor) tellAll('Changes may have been lost: the listener has reconnected')
    cursor ??= { seen: await store.snapshot() }
    await recapture(store, tenant)
    let catalogVersion = ''
    let lastChangeAt = performance.now()
    while (!end.aborted) {
      const lookedAt = performance.now()
      const reading = await look(store, cursor, tellAll)
      await noteLag(reading, lookedAt)
      if (reading.registered === 0 && captured.tables.size > 0) {
        mustCapture = true
        tellAll('Changes may have been lost: the database has forgotten them')
      }
      if (reading.catalogVersion !== catalogVersion || rests.isOver() || (await chores(cursor.seen)))
        mustCapture = true
      catalogVersion = reading.catalogVersion
      // Whatever comes of it, it is not told twice.
      cursor = reading.cursor
      if (reading.changes.length > 0) {
        lastChangeAt = performance.now()
        await tell(store, reading)
      }
      if (mustCapture) await recapture(store, tenant)
      if (!reading.isFull && !end.aborted)
        await bell.orAfter(pauseAfter(reading, performance.now() - lastChangeAt))
    }
  }

  async function tell(store: ChangesStore, { changes }: Reading): Promise<void> {
    const tenant = await deps.tenant()
    if (!tenant) return
    const { message } = deps
    const { messages } = captured
    await tellRound({ store, gate, conditions, groups, tenant, messages, message, excuse }, changes)
  }

  function tellAll(message: string): void {
    for (const subscriber of groups.listeners()) subscriber.tell('error', message)
  }

  async function recapture(store: ChangesStore, tenant: Tenant): Promise<void> {
    mustCapture = false
    const before = captured
    const begun = [...waiting]
    const all = [...groups.listeners(), ...waiting.keys()]
    captured = await capture(store, captureSwitch, tenant, all, rests.resting())
    rests.note(captured.held)
    await store.unregisterOthers([...captured.tables.keys()])
    for (const [subscriber, flows] of begun) {
      if (!flowsFor(subscriber, captured) || !waiting.delete(subscriber)) continue
      groups.add(subscriber)
      flows()
      if (subscriber.bindings.length > 0) confirm(subscriber, store, tenant)
    }
    // Nobody listens to some of them any more.
    if (before.tables.keys().some(relid => !captured.tables.has(relid)))
      await captureSwitch.adjust(tenant.ref, [...rests.resting()])
  }

  /** Says whether changes will come. Not in the way of others: of filters one after the other is looked at. */
  function confirm(subscriber: ChangeSubscriber, store: ChangesStore, tenant: Tenant): void {
    const say = async () => {
      // The join is answered first.
      await nextTurn()
      const wrong = await whatIsWrong(subscriber, captured, store, gate, tenant)
      if (groups.has(subscriber))
        subscriber.tell(wrong === undefined ? 'ok' : 'error', wrong ?? 'Subscribed to PostgreSQL')
    }
    const sayOrLog = () =>
      say().catch(error => log.warn({ err: error }, 'a subscription could not be looked at'))
    if (subscriber.bindings.some(({ filter }) => filter)) confirming = confirming.then(sayOrLog)
    else void sayOrLog()
  }

  /** Other nodes see that this one has gone, and triggers nobody needs are off, or will be. */
  async function leave(store: ChangesStore, tenant: Tenant): Promise<void> {
    await store.unregisterOthers([])
    for (const until = performance.now() + leaveMs; performance.now() < until; await sleep(100))
      if ((await captureSwitch.adjust(tenant.ref)).isDone) return
  }

  function captureSoon(): void {
    mustCapture = true
    bell.ring()
  }

  const running = run()
  return {
    get size() {
      return groups.size + waiting.size
    },
    async add(subscriber) {
      // What SQL sends is heard by all.
      if (subscriber.bindings.length === 0 && captured !== nothingCaptured) return groups.add(subscriber)
      captureSoon()
      return new Promise(resolve => waiting.set(subscriber, resolve))
    },
    remove(subscriber) {
      groups.remove(subscriber)
      waiting.delete(subscriber)
    },
    kick: bell.ring,
    recapture: captureSoon,
    async close() {
      closing.abort()
      bell.ring()
      await running
    },
  }
}

/** What takes too long to read would take as long the next time: it is let go of. */
async function look(store: ChangesStore, from: Cursor, tellAll: (message: string) => void): Promise<Reading> {
  try {
    return await store.read(from)
  } catch (error) {
    if (!isCanceled(error)) throw error
    tellAll('Changes may have been lost: there was more than could be read in time')
    return store.read({ seen: await store.snapshot() })
  }
}

function pauseAfter({ changes }: Reading, quietMs: number): number {
  if (changes.length > 0) return busyPollMs
  return quietMs > idleAfterMs ? idlePollMs : Math.min(quietPollMs, Math.max(busyPollMs, quietMs))
}

/** What has to be done now and then; true when the tables have to be registered anew. */
function createChores(store: ChangesStore, { noteCapture, log }: Pick<FeedDeps, 'noteCapture' | 'log'>) {
  let renewedAt = performance.now()
  let old: { snapshot: string; at: number } | undefined
  return async (snapshot: string): Promise<boolean> => {
    const now = performance.now()
    old ??= { snapshot, at: now }
    try {
      if (now - old.at > keepMs) {
        const { snapshot: seen } = old
        old = { snapshot, at: now }
        await store.forget(seen)
      }
      if (now - renewedAt < renewMs) return false
      renewedAt = now
      await noteCapture()
    } catch (error) {
      log.warn({ err: error }, 'what was read of live changes could not be tidied up; it will be')
    }
    return renewedAt === now
  }
}

/** Tables that somebody holds are tried again, more and more rarely: writers wait behind each try. */
function createRests() {
  const rests = new Map<string, { ms: number; until: number }>()
  return {
    note(held: ReadonlySet<string>) {
      const now = performance.now()
      for (const relid of rests.keys()) if (!held.has(relid)) rests.delete(relid)
      for (const relid of held) {
        const rest = rests.get(relid)
        if (rest && rest.until > now) continue
        const ms = Math.min(restMs.most, (rest?.ms ?? restMs.first / 2) * 2)
        rests.set(relid, { ms, until: now + ms })
      }
    },
    resting: (): Set<string> =>
      new Set([...rests].filter(([, { until }]) => until > performance.now()).map(([relid]) => relid)),
    isOver: (): boolean => rests.values().some(({ until }) => until <= performance.now()),
  }
}
