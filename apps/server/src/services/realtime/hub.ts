// The topics of a project and their members on this node. A public and a private topic of the same name are separate.
import type { Log } from '#src/kernel/log.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Broadcast } from './broadcast.ts'
import { type Bus, type BusHandler, singleNodeBus } from './bus.ts'
import { RateLimits } from './limits.ts'
import {
  decodeNodeMessage,
  encodeNodeMessage,
  type NodeMessage,
  type PresenceEntry,
} from './node-messages.ts'
import type { Tracked } from './presence.ts'
import { type Member, Topic } from './topic.ts'

/** Exists from the first socket of the project on this node to the last. */
export class Project<Socket = unknown> implements BusHandler {
  readonly id: string
  tenant: Tenant
  readonly sockets = new Set<Socket>()
  readonly rates = new RateLimits()
  readonly #bus: Bus
  readonly #log: Log
  readonly #topics = new Map<string, Topic>()
  /** Keys of topics whose presence has changed since the last diff. */
  readonly #changed = new Set<string>()
  readonly #unsubscribe: () => void

  constructor(tenant: Tenant, bus: Bus, log: Log) {
    this.id = tenant.id
    this.tenant = tenant
    this.#bus = bus
    this.#log = log
    this.#unsubscribe = bus.subscribe(tenant.id, this)
  }

  /** Undefined when there is nothing to wait for. */
  ready(): Promise<void> | undefined {
    return this.#bus.ready(this.id)
  }

  join(key: string, member: Member): void {
    this.#topic(key).join(member)
  }

  leave(key: string, member: Member): void {
    this.#topics.get(key)?.leave(member)
    this.#removeIfEmpty(key)
  }

  /** Sends to all members of the topic except the sender, on this node and on the others. */
  broadcast(key: string, message: Broadcast, except?: Member): void {
    this.deliver(key, message, except)
    this.#publish({ kind: 'broadcast', space: key, ...message })
  }

  /** Sends to the members on this node only. */
  deliver(key: string, message: Broadcast, except?: Member): void {
    this.#topics.get(key)?.broadcast(message, except)
  }

  /** Sends the queued broadcasts of the topic now. */
  flush(key: string): void {
    this.#topics.get(key)?.flush()
  }

  /** Replaces `previous`, if given. Returns false if the topic's presence would become too large. */
  track(key: string, tracked: Tracked, previous?: Tracked): boolean {
    const isAdded = this.#topic(key).presence.join(tracked, previous)
    this.#scheduleDiff(key)
    return isAdded
  }

  untrack(key: string, { ref }: Tracked): void {
    this.#topics.get(key)?.presence.leave(ref)
    this.#scheduleDiff(key)
  }

  /** Sends a pending presence diff now, to the current members. */
  flushPresence(key: string): void {
    this.#sendDiff(key)
  }

  /** The presence state as JSON text. */
  presenceState(key: string): string {
    return this.#topics.get(key)?.presence.state() ?? '{}'
  }

  #topic(key: string): Topic {
    let topic = this.#topics.get(key)
    if (!topic) {
      topic = new Topic(key)
      this.#topics.set(key, topic)
    }
    return topic
  }

  #removeIfEmpty(key: string): void {
    const topic = this.#topics.get(key)
    if (topic?.isEmpty) this.#topics.delete(key)
  }

  #scheduleDiff(key: string): void {
    if (this.#changed.size === 0) setImmediate(this.#sendDiffs)
    this.#changed.add(key)
  }

  readonly #sendDiffs = () => {
    const keys = [...this.#changed]
    this.#changed.clear()
    for (const key of keys)
      try {
        this.#sendDiff(key)
      } catch (error) {
        // No caller catches an error that is thrown in setImmediate.
        this.#log.error({ err: error }, 'sending a presence diff failed')
      }
  }

  #sendDiff(key: string): void {
    this.#changed.delete(key)
    const topic = this.#topics.get(key)
    if (!topic?.presence.isChanged) return this.#removeIfEmpty(key)
    const { json, joins, leaves } = topic.presence.takeDiff()
    topic.sendPresenceDiff(json)
    const own = {
      joins: joins.filter(isLocal).map(toEntry),
      leaves: leaves.filter(isLocal).map(({ ref }) => ref),
    }
    if (own.joins.length > 0 || own.leaves.length > 0) this.#publish({ kind: 'presence', space: key, ...own })
    this.#removeIfEmpty(key)
  }

  message(payload: Buffer, node: string): void {
    const message = decodeNodeMessage(payload)
    if (!message) return
    if (message.kind === 'broadcast') return this.deliver(message.space, message)
    if (message.kind === 'presence') {
      const { presence } = this.#topic(message.space)
      for (const ref of message.leaves) presence.leave(ref)
      for (const each of message.joins) presence.join(fromEntry(each, node))
      return this.#scheduleDiff(message.space)
    }
    this.#replaceState(node, new Map(message.spaces))
    if (message.isAsking) this.#publishState(false)
  }

  connected(): void {
    this.#publishState(true)
  }

  nodeGone(node: string): void {
    this.#replaceState(node, new Map())
  }

  #publish(message: NodeMessage): void {
    if (this.#bus !== singleNodeBus) this.#bus.publish(this.id, encodeNodeMessage(message))
  }

  #publishState(isAsking: boolean): void {
    const spaces = Array.from(
      this.#topics,
      ([key, { presence }]) => [key, presence.of('').map(toEntry)] as const,
    ).filter(([, entries]) => entries.length > 0)
    this.#publish({ kind: 'state', isAsking, spaces })
  }

  #replaceState(node: string, state: ReadonlyMap<string, readonly PresenceEntry[]>): void {
    for (const key of new Set([...this.#topics.keys(), ...state.keys()])) {
      const { presence } = this.#topic(key)
      const entries = state.get(key) ?? []
      const refs = new Set(entries.map(([, ref]) => ref))
      for (const { ref } of presence.of(node)) if (!refs.has(ref)) presence.leave(ref)
      for (const each of entries) presence.join(fromEntry(each, node))
      this.#scheduleDiff(key)
    }
  }

  /** Publishes pending presence changes first: after unsubscribing, the other nodes would keep the old state. */
  close(): void {
    this.#sendDiffs()
    this.#unsubscribe()
  }
}

const isLocal = ({ node }: Tracked) => node === ''
const toEntry = ({ key, ref, meta }: Tracked): PresenceEntry => [key, ref, meta]
const fromEntry = ([key, ref, meta]: PresenceEntry, node: string): Tracked => ({ key, ref, meta, node })
