// Row changes of all projects. Each project with subscribers has one feed, up to the configured maximum.

import { startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber, ChangeSubscription, SentMessage } from '../subscriber.ts'
import { deleteExpiredCapture, listExpiredCaptures, renewCapture } from './capture-store.ts'
import type { CaptureSwitch } from './capture-switch.ts'
import { type Feed, startFeed } from './feed.ts'
import type { OpenFeedConnection } from './feed-connections.ts'
import { createPermissions } from './permissions.ts'
import type { PolicyCheckPools } from './policy-check-pools.ts'
import { createPolicyChecks } from './policy-checks.ts'

interface ChangesOptions {
  control: Database
  databases: Databases
  directory: Directory
  pools: PolicyCheckPools
  openConnection: OpenFeedConnection
  captureSwitch: CaptureSwitch
  maxFeeds: number
  /** Parallel policy check queries of one project. */
  checkConcurrency: number
  log: Log
}

const deferredMessage =
  'Changes are deferred: too many projects listen at the moment; they will flow when there is room'
/** A feed without subscribers stays open for this long, so that a reconnecting client need not wait for capture. */
const idleFeedMs = 5000
const cleanUpMs = 60_000

export function createChanges(options: ChangesOptions) {
  const { control, databases, directory, pools, openConnection, captureSwitch, maxFeeds, log } = options
  const policyChecks = createPolicyChecks(pools, options.checkConcurrency)
  const feeds = new Map<string, Feed>()
  const ending = new Map<string, NodeJS.Timeout>()
  /** Removes the listener for writes of each feed. */
  const unlisten = new Map<string, () => void>()
  /** Subscribers of projects that wait for a free feed. */
  const deferred = new Map<string, Set<ChangeSubscriber>>()
  const closing = new Set<Promise<void>>()
  let onMessage: (projectId: string, message: SentMessage) => void = () => {}

  function start(id: string): Feed {
    const feed = startFeed({
      policyChecks,
      openConnection,
      captureSwitch,
      async tenant() {
        const tenant = await directory.find(id)
        return tenant?.status === 'active' ? tenant : undefined
      },
      renewCapture: () => renewCapture(control, id),
      message: message => onMessage(id, message),
      log,
    })
    feeds.set(id, feed)
    unlisten.set(id, databases.onWrite(id, feed.wake))
    return feed
  }

  function end(id: string): void {
    const feed = feeds.get(id)
    ending.delete(id)
    if (!feed || feed.size > 0) return
    feeds.delete(id)
    unlisten.get(id)?.()
    unlisten.delete(id)
    const closed = feed.close().finally(() => closing.delete(closed))
    closing.add(closed)
    admitDeferred()
  }

  function admitDeferred(): void {
    for (const [id, subscribers] of deferred) {
      if (feeds.size >= maxFeeds) return
      deferred.delete(id)
      const feed = start(id)
      for (const subscriber of subscribers) void feed.add(subscriber)
    }
  }

  function subscribe(subscriber: ChangeSubscriber): ChangeSubscription {
    const { id } = subscriber.caller.tenant
    clearTimeout(ending.get(id))
    ending.delete(id)
    const feed = feeds.get(id) ?? (feeds.size < maxFeeds ? start(id) : undefined)
    let ready = Promise.resolve()
    if (feed) ready = feed.add(subscriber)
    else {
      const waiting = deferred.get(id) ?? new Set()
      deferred.set(id, waiting.add(subscriber))
      if (subscriber.bindings.length > 0) setImmediate(() => subscriber.sendStatus('error', deferredMessage))
    }
    return { ready, end: () => unsubscribe(id, subscriber) }
  }

  function unsubscribe(id: string, subscriber: ChangeSubscriber): void {
    const feed = feeds.get(id)
    feed?.remove(subscriber)
    if (feed?.size === 0 && !ending.has(id)) ending.set(id, setTimeout(end, idleFeedMs, id).unref())
    const waiting = deferred.get(id)
    waiting?.delete(subscriber)
    if (waiting?.size === 0) deferred.delete(id)
  }

  const messages = createPermissions(databases, policyChecks)
  /** Disables the triggers that a node left enabled when it crashed, and deletes old messages. */
  const cleanUp = async () => {
    for (const id of feeds.keys()) {
      const tenant = await directory.find(id)
      // The tenant owns the table. It may have failing triggers, or be dropped.
      if (tenant?.status === 'active') await messages.deleteOldMessages(tenant).catch(() => {})
    }
    for (const { ref, id } of await listExpiredCaptures(control)) {
      if (feeds.has(id)) continue
      if ((await captureSwitch.adjust(ref)).isDone) await deleteExpiredCapture(control, id)
    }
  }
  const cleaningUp = startChore(
    {
      name: 'realtime: switch off unused capture triggers',
      everyMs: cleanUpMs,
      runsAtStart: true,
      run: cleanUp,
    },
    log,
  )

  return {
    subscribe,
    ...messages,
    /** Sets the handler for messages that SQL sent. */
    onMessage(handler: typeof onMessage) {
      onMessage = handler
    },
    /** Call when capture settings have changed, or the project is no longer served. */
    tablesChanged: (id: string) => feeds.get(id)?.recapture(),
    async close() {
      await cleaningUp.stop()
      for (const timer of ending.values()) clearTimeout(timer)
      for (const feed of feeds.values()) closing.add(feed.close())
      feeds.clear()
      await Promise.all(closing)
    },
  }
}
