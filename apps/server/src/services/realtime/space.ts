// Everybody on one topic, on this node. Broadcasts of one round go out together: what all get is put together once.
import { beforeFlush } from '#src/kernel/http/outbox.ts'
import { type Broadcast, BroadcastFrames } from './broadcast.ts'
import { Presence } from './presence.ts'
import { encodeMessage, type Version } from './wire.ts'

export const topicPrefix = 'realtime:'

/** What a topic sees of a channel. */
export interface Member {
  readonly version: Version
  readonly hearsBroadcasts: boolean
  readonly hearsPresence: boolean
  /** Ids of messages that it was told when it came. */
  readonly replayed: ReadonlySet<string>
  /** A frame, or several behind one another. */
  send(frames: Buffer): void
}

interface Waiting {
  readonly frames: BroadcastFrames
  /** Whoever has sent it, and does not hear itself. */
  readonly except: Member | undefined
  readonly id: string | undefined
}

export class Space {
  readonly topic: string
  readonly presence = new Presence()
  readonly #members = new Set<Member>()
  #waiting: Waiting[] = []

  constructor(key: string) {
    this.topic = topicPrefix + key.slice(1)
  }

  get isEmpty(): boolean {
    return this.#members.size === 0 && this.presence.isEmpty
  }

  /** What was sent before is not for those who come after. */
  enter(member: Member): void {
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
    if (this.#waiting.push({ frames, except, id: message.id }) === 1) beforeFlush(() => this.flush())
  }

  flush(): void {
    if (this.#waiting.length === 0) return
    const waiting = this.#waiting
    this.#waiting = []
    const senders = new Set(waiting.map(({ except }) => except))
    const kept = waiting.map(({ id }) => id).filter(id => id !== undefined)
    const shared: Partial<Record<Version, Buffer>> = {}
    for (const member of this.#members) {
      if (!member.hearsBroadcasts) continue
      const { version } = member
      let bytes: Buffer
      if (senders.has(member) || kept.some(id => member.replayed.has(id)))
        bytes = together(
          waiting.filter(({ except, id }) => except !== member && !(id && member.replayed.has(id))),
          version,
        )
      else {
        shared[version] ??= together(waiting, version)
        bytes = shared[version]
      }
      if (bytes.length > 0) member.send(bytes)
    }
  }

  /** The payload is JSON text. */
  tellPresent(diff: string): void {
    const frames: Partial<Record<Version, Buffer>> = {}
    for (const member of this.#members)
      if (member.hearsPresence) {
        frames[member.version] ??= encodeMessage(member.version, this.topic, 'presence_diff', diff)
        member.send(frames[member.version]!)
      }
  }
}

function together(waiting: readonly Waiting[], version: Version): Buffer {
  const frames = waiting.map(each => each.frames.of(version)).filter(frame => frame !== undefined)
  return frames.length === 1 ? frames[0]! : Buffer.concat(frames)
}
