// The members of one topic on this node. Broadcasts of one turn of the event loop are sent together: the bytes that are
// equal for all members are concatenated once.
import { beforeFlush } from '#src/kernel/http/outbox.ts'
import { type Broadcast, BroadcastFrames } from './broadcast.ts'
import { Presence } from './presence.ts'
import { encodeMessage, type Version } from './wire.ts'

export const topicPrefix = 'realtime:'

/** Public and private topics of the same name have different keys. */
export const topicKey = (isPrivate: boolean, subTopic: string) => (isPrivate ? 'p' : 'o') + subTopic

/** A channel, as far as its topic uses it. */
export interface Member {
  readonly version: Version
  readonly receivesBroadcasts: boolean
  readonly receivesPresence: boolean
  /** Ids of messages that were replayed when it joined. */
  readonly replayed: ReadonlySet<string>
  /** One frame, or several concatenated ones. */
  send(frames: Buffer): void
}

interface QueuedBroadcast {
  readonly frames: BroadcastFrames
  /** The sender, if it does not want its own broadcasts. */
  readonly except: Member | undefined
  readonly id: string | undefined
}

export class Topic {
  readonly topic: string
  readonly presence = new Presence()
  readonly #members = new Set<Member>()
  #queued: QueuedBroadcast[] = []

  constructor(key: string) {
    this.topic = topicPrefix + key.slice(1)
  }

  get isEmpty(): boolean {
    return this.#members.size === 0 && this.presence.isEmpty
  }

  /** Flushes first: a new member must not receive what was sent before it joined. */
  join(member: Member): void {
    this.flush()
    this.#members.add(member)
  }

  leave(member: Member): void {
    this.flush()
    this.#members.delete(member)
  }

  broadcast(message: Broadcast, except: Member | undefined): void {
    if (this.#members.size === 0) return
    const frames = new BroadcastFrames(this.topic, message)
    if (this.#queued.push({ frames, except, id: message.id }) === 1) beforeFlush(() => this.flush())
  }

  flush(): void {
    if (this.#queued.length === 0) return
    const queued = this.#queued
    this.#queued = []
    const senders = new Set(queued.map(({ except }) => except))
    const storedIds = queued.map(({ id }) => id).filter(id => id !== undefined)
    const shared: Partial<Record<Version, Buffer>> = {}
    for (const member of this.#members) {
      if (!member.receivesBroadcasts) continue
      const { version } = member
      let bytes: Buffer
      if (senders.has(member) || storedIds.some(id => member.replayed.has(id)))
        bytes = concatenated(
          queued.filter(({ except, id }) => except !== member && !(id && member.replayed.has(id))),
          version,
        )
      else {
        shared[version] ??= concatenated(queued, version)
        bytes = shared[version]
      }
      if (bytes.length > 0) member.send(bytes)
    }
  }

  /** `diff` is JSON text. */
  sendPresenceDiff(diff: string): void {
    const frames: Partial<Record<Version, Buffer>> = {}
    for (const member of this.#members)
      if (member.receivesPresence) {
        frames[member.version] ??= encodeMessage(member.version, this.topic, 'presence_diff', diff)
        member.send(frames[member.version]!)
      }
  }
}

function concatenated(queued: readonly QueuedBroadcast[], version: Version): Buffer {
  const frames = queued.map(each => each.frames.of(version)).filter(frame => frame !== undefined)
  return frames.length === 1 ? frames[0]! : Buffer.concat(frames)
}
