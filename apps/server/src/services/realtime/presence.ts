// The presence of a topic, on all nodes. All changes of one turn of the event loop become one diff.
import { membersText } from './json-text.ts'
import { maxPresenceBytes } from './limits.ts'

export interface Tracked {
  readonly key: string
  /** Unique over all nodes. */
  readonly ref: string
  /** JSON text: the tracked payload with `phx_ref`. */
  readonly meta: string
  /** The node it is tracked on; empty for this node. */
  readonly node: string
}

/** `phx_ref` comes last: of duplicate JSON keys the last one wins, so a client cannot set its own. */
export function trackedMeta(payload: string, ref: string, previous: string | undefined): string {
  const members = membersText(payload)
  const refs = `${previous === undefined ? '' : `"phx_ref_prev":"${previous}",`}"phx_ref":"${ref}"`
  return members === '' ? `{${refs}}` : `{${members},${refs}}`
}

export class Presence {
  readonly #present = new Map<string, Tracked>()
  #bytes = 0
  #joins = new Map<string, Tracked>()
  #leaves = new Map<string, Tracked>()

  get isEmpty(): boolean {
    return this.#present.size === 0 && !this.isChanged
  }
  get isChanged(): boolean {
    return this.#joins.size > 0 || this.#leaves.size > 0
  }

  /** Replaces `previous`. Returns false above the size limit, because every new member is sent the whole state. */
  join(tracked: Tracked, previous?: Tracked): boolean {
    if (this.#present.has(tracked.ref)) return true
    const freed = previous && this.#present.has(previous.ref) ? bytesOf(previous) : 0
    const bytes = this.#bytes - freed + bytesOf(tracked)
    if (bytes > maxPresenceBytes) return false
    if (previous) this.leave(previous.ref)
    this.#bytes = bytes
    this.#present.set(tracked.ref, tracked)
    this.#joins.set(tracked.ref, tracked)
    return true
  }

  leave(ref: string): void {
    const tracked = this.#present.get(ref)
    if (!tracked) return
    this.#present.delete(ref)
    this.#bytes -= bytesOf(tracked)
    // A join of the same turn was not sent yet, so no leave is sent either.
    if (!this.#joins.delete(ref)) this.#leaves.set(ref, tracked)
  }

  of(node: string): Tracked[] {
    return [...this.#present.values()].filter(each => each.node === node)
  }

  /** JSON text for `presence_state`. */
  state(): string {
    return encodeByKey(this.#present.values())
  }

  /** The changes since the last call. */
  takeDiff(): { json: string; joins: Tracked[]; leaves: Tracked[] } {
    const joins = [...this.#joins.values()]
    const leaves = [...this.#leaves.values()]
    this.#joins = new Map()
    this.#leaves = new Map()
    return { json: `{"joins":${encodeByKey(joins)},"leaves":${encodeByKey(leaves)}}`, joins, leaves }
  }
}

/** The size in `presence_state`, counted as if each had a key of its own. */
const bytesOf = ({ key, meta }: Tracked) =>
  Buffer.byteLength(JSON.stringify(key)) + Buffer.byteLength(meta) + ':{"metas":[]},'.length

/** Concatenates JSON text: in an object literal, a key such as `__proto__` would be lost. */
function encodeByKey(all: Iterable<Tracked>): string {
  const metas = new Map<string, string>()
  for (const { key, meta } of all) {
    const others = metas.get(key)
    metas.set(key, others === undefined ? meta : `${others},${meta}`)
  }
  return `{${Array.from(metas, ([key, list]) => `${JSON.stringify(key)}:{"metas":[${list}]}`).join(',')}}`
}
