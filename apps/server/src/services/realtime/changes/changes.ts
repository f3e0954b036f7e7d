// Live changes of all projects: one feed for each that somebody listens to, as many as the operator allows.
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { CaptureSwitch } from '#src/tenancy/capture-switch.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { GatePools } from '#src/tenancy/gate-pools.ts'
import type { OpenListener } from '#src/tenancy/listeners.ts'
import type { ChangeSubscriber, ChangeSubscription, SentMessage } from '../subscriber.ts'
import { type Feed, startFeed } from './feed.ts'
import { createGate } from './gate.ts'
import { createPermissions } from './permissions.ts'

interface ChangesOptions {
  control: Database
  databases: Databases
  directory: Directory
  pools: GatePools
  openListener: OpenListener
  captureSwitch: CaptureSwitch
  maxListeners: number
  /** Of one project, on connections of the gate. */
  questionsAtOnce: number
  log: Log
}

const deferral =
  'Changes are deferred: too many projects listen at the moment; they will flow when there is room'
/** Somebody who reconnects finds everything as it was. */
const lingerMs = 5000
const leftoverMs = 60_000

export function createChanges(options: ChangesOptions) {
  const { control, databases, directory, pools, openListener, captureSwitch, maxListeners, log } = options
  const gate = createGate(pools, options.questionsAtOnce)
  const feeds = new Map<string, Feed>()
  const ending = new Map<string, NodeJS.Timeout>()
  /** Projects for which there is no room, and who listens there. */
  const deferred = new Map<string, Set<ChangeSubscriber>>()
  const closing = new Set<Promise<void>>()
  let onMessage: (projectId: string, message: SentMessage) => void = () => {}

  function start(id: string): Feed {
    const feed = startFeed({
      gate,
      openListener,
      captureSwitch,
      async tenant() {
        const tenant = await directory.find(id)
        return tenant?.status === 'active' ? tenant : undefined
      },
      noteCapture: () => noteCapture(control, id),
      message: message => onMessage(id, message),
      log,
    })
    feeds.set(id, feed)
    databases.onWrite(id, feed.kick)
    return feed
  }

  function end(id: string): void {
    const feed = feeds.get(id)
    ending.delete(id)
    if (!feed || feed.size > 0) return
    feeds.delete(id)
    databases.onWrite(id, undefined)
    const closed = feed.close().finally(() => closing.delete(closed))
    closing.add(closed)
    admitDeferred()
  }

  function admitDeferred(): void {
    for (const [id, subscribers] of deferred) {
      if (feeds.size >= maxListeners) return
      deferred.delete(id)
      const feed = start(id)
      for (const subscriber of subscribers) void feed.add(subscriber)
    }
  }

  function subscribe(subscriber: ChangeSubscriber): ChangeSubscription {
    const { id } = subscriber.caller.tenant
    clearTimeout(ending.get(id))
    ending.delete(id)
    const feed = feeds.get(id) ?? (feeds.size < maxListeners ? start(id) : undefined)
    let flowing = Promise.resolve()
    if (feed) flowing = feed.add(subscriber)
    else {
      const others = deferred.get(id) ?? new Set()
      deferred.set(id, others.add(subscriber))
      if (subscriber.bindings.length > 0) setImmediate(() => subscriber.tell('error', deferral))
    }
    return { flowing, end: () => unsubscribe(id, subscriber) }
  }

  function unsubscribe(id: string, subscriber: ChangeSubscriber): void {
    const feed = feeds.get(id)
    feed?.remove(subscriber)
    if (feed?.size === 0 && !ending.has(id)) ending.set(id, setTimeout(end, lingerMs, id).unref())
    const others = deferred.get(id)
    others?.delete(subscriber)
    if (others?.size === 0) deferred.delete(id)
  }

  const messages = createPermissions(databases, gate)
  const tidy = async () => {
    for (const id of feeds.keys()) {
      const tenant = await directory.find(id)
      // The table is the tenant's: it may have triggers, or be gone.
      if (tenant?.status === 'active') await messages.forgetMessages(tenant).catch(() => {})
    }
    for (const { ref, id } of await forgottenCaptures(control)) {
      if (feeds.has(id)) continue
      if ((await captureSwitch.adjust(ref)).isDone) await forgetCapture(control, id)
    }
  }
  const tidying = setInterval(
    () =>
      void tidy().catch(error => log.warn({ err: error }, 'left-over triggers could not be switched off')),
    leftoverMs,
  ).unref()

  return {
    subscribe,
    ...messages,
    /** Of messages that SQL has sent. */
    onMessage(listener: typeof onMessage) {
      onMessage = listener
    },
    /** Which tables are captured was changed, or a project is served no more. */
    tablesChanged: (id: string) => feeds.get(id)?.recapture(),
    /** Triggers that a node left on when it died are switched off. */
    tidy,
    async close() {
      clearInterval(tidying)
      for (const timer of ending.values()) clearTimeout(timer)
      for (const feed of feeds.values()) closing.add(feed.close())
      feeds.clear()
      await Promise.all(closing)
    },
  }
}

const noteCapture = async (control: Database, id: string): Promise<void> => {
  await control.run(sql`
    insert into realtime_captures (project_id, until) select ${id}, now() + interval '60 seconds'
    on conflict (project_id) do update set until = excluded.until`)
}

/** Nobody says any more that it listens. */
const forgottenCaptures = (control: Database) =>
  control.rows<{ id: string; ref: string }>(sql`
    select p.id, p.ref from realtime_captures c join projects p on p.id = c.project_id
     where c.until < now() and p.status in ('active', 'suspended')`)

const forgetCapture = (control: Database, id: string) =>
  control.run(sql`delete from realtime_captures where project_id = ${id} and until < now()`)
