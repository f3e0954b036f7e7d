// The message bus between the nodes of the platform, over Redis channels. A node subscribes to the channels of the
// projects that have a socket on it, and to one channel on which every node publishes heartbeats. Redis stores nothing: a
// message published while a node is not subscribed is lost for that node. After a loss, handlers publish their full state
// again and ask for that of the others.

import { randomBytes } from 'node:crypto'
import { createChore } from '#src/kernel/chores.ts'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { openPublisher } from '#src/kernel/redis/publisher.ts'
import { openSubscription, type Subscription } from '#src/kernel/redis/subscription.ts'
import { createFailures } from './bus/failures.ts'
import { createLiveness } from './bus/liveness.ts'
import { decodePacket, encodePacket } from './bus/packet.ts'

export interface BusHandler {
  /** A message that another node published for the project. Messages of one node arrive in the order of publishing. */
  message(payload: Buffer, node: string): void
  /**
   * This node and the others now receive each other's messages, for the first time or after messages were lost. The
   * handler publishes its state and requests that of the others.
   */
  connected(): void
  /** The node has shut down or missed too many heartbeats. The state it published is no longer valid. */
  nodeGone(node: string): void
}

export interface Bus {
  /** The id of this node. Each start of the process has a new one. */
  readonly node: string
  /** Sends to all other nodes that are subscribed to the project. Does not wait, and drops what cannot be sent. */
  publish(projectId: string, payload: Buffer): void
  /** One handler per project, from its first socket on this node to its last. Returns a function that unsubscribes. */
  subscribe(projectId: string, handler: BusHandler): () => void
  /** Resolves once the subscription is active or the wait times out. Undefined if there is nothing to wait for. */
  ready(projectId: string): Promise<void> | undefined
  /** Current failures, worded for an operator. Calling it also retries a failed publish. */
  warnings(): readonly string[]
  close(): Promise<void>
}

/** Without Redis there is no other node to reach. */
export const singleNodeBus: Bus = {
  node: 'alone',
  publish() {},
  subscribe: () => () => {},
  ready: () => undefined,
  warnings: () => [],
  close: async () => {},
}

interface BusDeps {
  redisUrl: string | undefined
  deriveKey: DeriveKey
  log: Log
}

export interface BusTiming {
  heartbeatMs: number
  /** A node is declared dead after this many heartbeat intervals of our own without a message of it. */
  maxMissedHeartbeats: number
  readyMs: number
}
const defaultTiming: BusTiming = { heartbeatMs: 3000, maxMissedHeartbeats: 4, readyMs: 1000 }

interface ProjectSubscription {
  handler: BusHandler
  isActive: boolean
  active: PromiseWithResolvers<void>
}

/** Payloads on the channel of all nodes. */
const heartbeat = Buffer.from([1])
const goodbye = Buffer.from([0])

export function openBus({ redisUrl, deriveKey, log }: BusDeps, timing: BusTiming = defaultTiming): Bus {
  if (redisUrl === undefined) return singleNodeBus
  const address = parseRedisUrl(redisUrl)
  const node = randomBytes(8).toString('hex')
  const channels = channelsOf(deriveKey)
  const projects = new Map<string, ProjectSubscription>()
  const liveness = createLiveness(timing.maxMissedHeartbeats)
  const failures = createFailures(log)
  let subscription: Subscription | undefined
  const heartbeats = createChore({
    name: 'realtime: announce this node',
    everyMs: timing.heartbeatMs,
    run: () => (subscription ? sendHeartbeat() : 'idle'),
  })
  let isClosed = false

  const publisher = openPublisher(address, {
    lost: reason => failures.report('publish', reason),
    back() {
      failures.resolve('publish')
      reconnectAll()
    },
  })
  const publish = (channel: string, payload: Buffer) =>
    publisher.publish(channel, encodePacket(node, payload))

  /** An error in one handler must not keep the message from the others. */
  function callHandler(handler: BusHandler, call: (handler: BusHandler) => void): void {
    try {
      call(handler)
    } catch (error) {
      log.error({ err: error }, 'handling a message of another node failed')
    }
  }

  function reconnectAll(): void {
    for (const { handler, isActive } of projects.values())
      if (isActive) callHandler(handler, each => each.connected())
  }

  function dropNode(gone: string): void {
    for (const { handler } of projects.values()) callHandler(handler, each => each.nodeGone(gone))
  }

  function onMessage(channel: string, bytes: Buffer): void {
    const packet = decodePacket(bytes)
    if (!packet || packet.node === node) return
    if (channel === channels.nodes && packet.payload.equals(goodbye)) {
      liveness.remove(packet.node)
      dropNode(packet.node)
      return
    }
    if (liveness.seen(packet.node) === 'returned') reconnectAll()
    const project = projects.get(channels.projectOf(channel))
    if (project) callHandler(project.handler, each => each.message(packet.payload, packet.node))
  }

  function onSubscribed(channel: string): void {
    failures.resolve('subscribe')
    if (channel === channels.nodes) return liveness.forgetDead()
    const project = projects.get(channels.projectOf(channel))
    if (!project) return
    project.isActive = true
    project.active.resolve()
    callHandler(project.handler, each => each.connected())
  }

  function onLost(reason: unknown): void {
    failures.report('subscribe', reason)
    for (const project of projects.values()) {
      project.isActive = false
      project.active.resolve()
    }
  }

  function sendHeartbeat(): void {
    publish(channels.nodes, heartbeat)
    for (const dead of liveness.tick()) dropNode(dead)
  }

  function openRedisSubscription(): Subscription {
    heartbeats.start()
    const opened = openSubscription(address, { message: onMessage, subscribed: onSubscribed, lost: onLost })
    opened.add(channels.nodes)
    return opened
  }

  /** Without a socket on this node, it needs to know of no other node. */
  function closeRedisSubscription(): void {
    subscription?.close()
    subscription = undefined
    liveness.clear()
    failures.discard('subscribe')
  }

  return {
    node,
    publish: (projectId, payload) => publish(channels.ofProject(projectId), payload),
    subscribe(projectId, handler) {
      if (isClosed) return () => {}
      const project: ProjectSubscription = { handler, isActive: false, active: Promise.withResolvers() }
      projects.set(projectId, project)
      subscription ??= openRedisSubscription()
      subscription.add(channels.ofProject(projectId))
      return () => {
        if (projects.get(projectId) !== project) return
        projects.delete(projectId)
        subscription?.remove(channels.ofProject(projectId))
        if (projects.size === 0) closeRedisSubscription()
      }
    },
    ready(projectId) {
      const project = projects.get(projectId)
      if (!project || project.isActive || failures.has('subscribe')) return
      return Promise.race([project.active.promise, after(timing.readyMs)])
    },
    warnings() {
      if (failures.has('publish')) publish(channels.nodes, heartbeat)
      return failures.messages()
    },
    async close() {
      if (isClosed) return
      isClosed = true
      await heartbeats.stop()
      const wasSubscribed = projects.size > 0
      projects.clear()
      closeRedisSubscription()
      if (wasSubscribed) publish(channels.nodes, goodbye)
      await publisher.close()
    },
  }
}

/**
 * The prefix is derived from the platform's secret, so that two platforms on one Redis use different channels. The Redis
 * users of projects have no access to any channel (services/cache/redis/users.ts). The derivation label is part of the
 * channel names: nodes of two releases share channels only while it stays the same.
 */
export function channelsOf(deriveKey: DeriveKey) {
  const prefix = `plinth:${hmac(deriveKey('realtime span'), 'channels').toString('hex', 0, 8)}:`
  const ofProjects = `${prefix}project:`
  return {
    nodes: `${prefix}nodes`,
    ofProject: (projectId: string) => ofProjects + projectId,
    projectOf: (channel: string) => channel.slice(ofProjects.length),
  }
}

const after = (ms: number) => new Promise<void>(resolve => void setTimeout(resolve, ms).unref())
