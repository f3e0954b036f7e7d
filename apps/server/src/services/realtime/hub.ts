// Who is on which topic of a project, on this node. Public and private topics of the same name are separate spaces.
import type { Log } from '#src/kernel/log.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { decodeFromNode, encodeForNodes, type NodeMessage, type ToldTracked } from './between-nodes.ts'
import type { Broadcast } from './broadcast.ts'
import { Rates } from './limits.ts'
import type { Tracked } from './presence.ts'
import { type Member, Space } from './space.ts'
import { alone, type Span, type SpanListener } from './span.ts'

export const spaceOf = (isPrivate: boolean, subTopic: string) => (isPrivate ? 'p' : 'o') + subTopic

/** From its first socket on this node to the last. */
export class Project<Socket = unknown> implements SpanListener {
  readonly id: string
  tenant: Tenant
  readonly sockets = new Set<Socket>()
  readonly rates = new Rates()
  readonly #span: Span
  readonly #log: Log
  readonly #spaces = new Map<string, Space>()
  readonly #changed = new Set<string>()
  readonly #unwatch: () => void

  constructor(tenant: Tenant, span: Span, log: Log) {
    this.id = tenant.id
    this.tenant = tenant
    this.#span = span
    this.#log = log
    this.#unwatch = span.watch(tenant.id, this)
  }

  /** Undefined when there is nothing to wait for. */
  ready(): Promise<void> | undefined {
    return this.#span.ready(this.id)
  }

  enter(key: string, member: Member): void {
    this.#space(key).enter(member)
  }

  leave(key: string, member: Member): void {
    this.#spaces.get(key)?.leave(member)
    this.#tidy(key)
  }

  /** To everybody on the topic but the sender, here and elsewhere. */
  broadcast(key: string, message: Broadcast, except?: Member): void {
    this.deliver(key, message, except)
    this.#publish({ kind: 'broadcast', space: key, ...message })
  }

  /** On this node alone. */
  deliver(key: string, message: Broadcast, except?: Member): void {
    this.#spaces.get(key)?.broadcast(message, except)
  }

  /** Whatever has been sent to the topic so far is on its way. */
  settle(key: string): void {
    this.#spaces.get(key)?.flush()
  }

  /** In place of what was tracked before, if anything was. False if there is no room for it. */
  track(key: string, tracked: Tracked, previous?: Tracked): boolean {
    const isIn = this.#space(key).presence.join(tracked, previous)
    this.#tellSoon(key)
    return isIn
  }

  untrack(key: string, { ref }: Tracked): void {
    this.#spaces.get(key)?.presence.leave(ref)
    this.#tellSoon(key)
  }

  /** What has changed is told now, to those who have been there. */
  tellPresence(key: string): void {
    this.#tell(key)
  }

  /** JSON text of who is there. */
  presenceState(key: string): string {
    return this.#spaces.get(key)?.presence.state() ?? '{}'
  }

  #space(key: string): Space {
    let space = this.#spaces.get(key)
    if (!space) {
      space = new Space(key)
      this.#spaces.set(key, space)
    }
    return space
  }

  #tidy(key: string): void {
    const space = this.#spaces.get(key)
    if (space?.isEmpty) this.#spaces.delete(key)
  }

  #tellSoon(key: string): void {
    if (this.#changed.size === 0) setImmediate(this.#tellAll)
    this.#changed.add(key)
  }

  readonly #tellAll = () => {
    const keys = [...this.#changed]
    this.#changed.clear()
    for (const key of keys)
      try {
        this.#tell(key)
      } catch (error) {
        // Nobody else would catch it.
        this.#log.error({ err: error }, 'who is present could not be told')
      }
  }

  #tell(key: string): void {
    this.#changed.delete(key)
    const space = this.#spaces.get(key)
    if (!space?.presence.isChanged) return this.#tidy(key)
    const { json, joins, leaves } = space.presence.takeDiff()
    space.tellPresent(json)
    const own = { joins: joins.filter(isHere).map(told), leaves: leaves.filter(isHere).map(({ ref }) => ref) }
    if (own.joins.length > 0 || own.leaves.length > 0) this.#publish({ kind: 'presence', space: key, ...own })
    this.#tidy(key)
  }

  message(bytes: Buffer, node: string): void {
    const message = decodeFromNode(bytes)
    if (!message) return
    if (message.kind === 'broadcast') return this.deliver(message.space, message)
    if (message.kind === 'presence') {
      const { presence } = this.#space(message.space)
      for (const ref of message.leaves) presence.leave(ref)
      for (const each of message.joins) presence.join(heard(each, node))
      return this.#tellSoon(message.space)
    }
    this.#replaceAll(node, new Map(message.spaces))
    if (message.isAsking) this.#tellState(false)
  }

  linked(): void {
    this.#tellState(true)
  }

  gone(node: string): void {
    this.#replaceAll(node, new Map())
  }

  #publish(message: NodeMessage): void {
    if (this.#span !== alone) this.#span.publish(this.id, encodeForNodes(message))
  }

  #tellState(isAsking: boolean): void {
    const spaces = Array.from(
      this.#spaces,
      ([key, { presence }]) => [key, presence.of('').map(told)] as const,
    ).filter(([, present]) => present.length > 0)
    this.#publish({ kind: 'state', isAsking, spaces })
  }

  #replaceAll(node: string, told: ReadonlyMap<string, readonly ToldTracked[]>): void {
    for (const key of new Set([...this.#spaces.keys(), ...told.keys()])) {
      const { presence } = this.#space(key)
      const present = told.get(key) ?? []
      const refs = new Set(present.map(([, ref]) => ref))
      for (const { ref } of presence.of(node)) if (!refs.has(ref)) presence.leave(ref)
      for (const each of present) presence.join(heard(each, node))
      this.#tellSoon(key)
    }
  }

  /** The others hear of what is left before nobody speaks for it any more. */
  close(): void {
    this.#tellAll()
    this.#unwatch()
  }
}

const isHere = ({ node }: Tracked) => node === ''
const told = ({ key, ref, meta }: Tracked): ToldTracked => [key, ref, meta]
const heard = ([key, ref, meta]: ToldTracked, node: string): Tracked => ({ key, ref, meta, node })
