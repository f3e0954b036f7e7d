// What the nodes of the platform tell each other about a project, over channels of Redis. A node listens to the
// channels of the projects that have somebody on it, and to one on which every node gives signs of life. Nothing is
// kept in Redis: what was said while somebody did not listen is lost, and both sides are told to say what counts again.
import { randomBytes } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { openPublisher } from '#src/kernel/redis/publisher.ts'
import { openSubscription, type Subscription } from '#src/kernel/redis/subscription.ts'
import { createAttendance } from './span/attendance.ts'
import { openEnvelope, sealEnvelope } from './span/envelope.ts'
import { createTroubles } from './span/troubles.ts'

export interface SpanListener {
  /** What another node has published on the project, in the order in which it did. */
  message(message: Buffer, node: string): void
  /**
   * From here on this node hears the others and they hear it, for the first time or again after something was lost:
   * tell them what counts, and ask them for the same.
   */
  linked(): void
  /** A node has ended, or nothing was heard of it for a while: what it told of itself no longer holds. */
  gone(node: string): void
}

export interface Span {
  /** This node among the others; another one after each start. */
  readonly node: string
  /** To all other nodes that watch the project. Nobody waits for it, and what cannot be sent is lost. */
  publish(projectId: string, message: Buffer): void
  /** From the first socket of a project on this node to the last; one listener for each project. */
  watch(projectId: string, listener: SpanListener): () => void
  /** Resolves when the others are heard, or that takes too long; undefined when there is nothing to wait for. */
  ready(projectId: string): Promise<void> | undefined
  /** What is wrong, in words for an operator; tries again while something is. */
  warnings(): readonly string[]
  close(): Promise<void>
}

/** The only node there is, as far as it knows. */
export const alone: Span = {
  node: 'alone',
  publish() {},
  watch: () => () => {},
  ready: () => undefined,
  warnings: () => [],
  close: async () => {},
}

interface SpanDeps {
  redisUrl: string | undefined
  deriveKey: DeriveKey
  log: Log
}

export interface SpanPace {
  beatMs: number
  /** A node that this many beats of our own have passed without a word of is gone. */
  patientBeats: number
  readyMs: number
}
const usualPace: SpanPace = { beatMs: 3000, patientBeats: 4, readyMs: 1000 }

interface Watched {
  listener: SpanListener
  isHeard: boolean
  heard: PromiseWithResolvers<void>
}

/** On the channel of all nodes. */
const beat = Buffer.from([1])
const goodbye = Buffer.from([0])

export function openSpan({ redisUrl, deriveKey, log }: SpanDeps, pace: SpanPace = usualPace): Span {
  if (redisUrl === undefined) return alone
  const address = parseRedisUrl(redisUrl)
  const node = randomBytes(8).toString('hex')
  const channels = channelsOf(deriveKey)
  const watched = new Map<string, Watched>()
  const attendance = createAttendance(pace.patientBeats)
  const troubles = createTroubles(log)
  let subscription: Subscription | undefined
  let beating: NodeJS.Timeout | undefined
  let isClosed = false

  const publisher = openPublisher(address, {
    lost: reason => troubles.note('publish', reason),
    back() {
      troubles.over('publish')
      linkAll()
    },
  })
  const publish = (channel: string, message: Buffer) =>
    publisher.publish(channel, sealEnvelope(node, message))

  /** A listener that fails does not keep the others from hearing. */
  function tell(listener: SpanListener, what: (listener: SpanListener) => void): void {
    try {
      what(listener)
    } catch (error) {
      log.error({ err: error }, 'what another node said was not understood')
    }
  }

  function linkAll(): void {
    for (const { listener, isHeard } of watched.values()) if (isHeard) tell(listener, each => each.linked())
  }

  function leave(gone: string): void {
    for (const { listener } of watched.values()) tell(listener, each => each.gone(gone))
  }

  function onMessage(channel: string, bytes: Buffer): void {
    const envelope = openEnvelope(bytes)
    if (!envelope || envelope.node === node) return
    if (channel === channels.nodes && envelope.message.equals(goodbye)) {
      attendance.leave(envelope.node)
      leave(envelope.node)
      return
    }
    if (attendance.hear(envelope.node) === 'returned') linkAll()
    const project = watched.get(channels.projectOf(channel))
    if (project) tell(project.listener, each => each.message(envelope.message, envelope.node))
  }

  function onHeard(channel: string): void {
    troubles.over('listen')
    if (channel === channels.nodes) return attendance.startOver()
    const project = watched.get(channels.projectOf(channel))
    if (!project) return
    project.isHeard = true
    project.heard.resolve()
    tell(project.listener, each => each.linked())
  }

  function onLost(reason: unknown): void {
    troubles.note('listen', reason)
    for (const project of watched.values()) {
      project.isHeard = false
      project.heard.resolve()
    }
  }

  function pulse(): void {
    publish(channels.nodes, beat)
    for (const gone of attendance.pass()) leave(gone)
  }

  function begin(): Subscription {
    beating = setInterval(pulse, pace.beatMs).unref()
    const opened = openSubscription(address, { message: onMessage, heard: onHeard, lost: onLost })
    opened.add(channels.nodes)
    return opened
  }

  /** Nobody is here: nobody elsewhere has to be known. */
  function rest(): void {
    clearInterval(beating)
    subscription?.close()
    subscription = undefined
    attendance.clear()
    troubles.forget('listen')
  }

  return {
    node,
    publish: (projectId, message) => publish(channels.ofProject(projectId), message),
    watch(projectId, listener) {
      if (isClosed) return () => {}
      const project: Watched = { listener, isHeard: false, heard: Promise.withResolvers() }
      watched.set(projectId, project)
      subscription ??= begin()
      subscription.add(channels.ofProject(projectId))
      return () => {
        if (watched.get(projectId) !== project) return
        watched.delete(projectId)
        subscription?.remove(channels.ofProject(projectId))
        if (watched.size === 0) rest()
      }
    },
    ready(projectId) {
      const project = watched.get(projectId)
      if (!project || project.isHeard || troubles.has('listen')) return
      return Promise.race([project.heard.promise, after(pace.readyMs)])
    },
    warnings() {
      if (troubles.has('publish')) publish(channels.nodes, beat)
      return troubles.all()
    },
    async close() {
      if (isClosed) return
      isClosed = true
      const wasHere = watched.size > 0
      watched.clear()
      rest()
      if (wasHere) publish(channels.nodes, goodbye)
      await publisher.close()
    },
  }
}

/**
 * The prefix is the platform's own: another one on the same Redis has other channels. The Redis users of projects may
 * use no channel at all (services/cache/redis/users.ts).
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
