// Who is on a topic, here and on other nodes. What changes in one turn is told in one diff.
import { insideOf } from './json-text.ts'
import { maxPresenceBytes } from './limits.ts'

export interface Tracked {
  readonly key: string
  /** Unique over all nodes. */
  readonly ref: string
  /** JSON text: what was tracked, with `phx_ref`. */
  readonly meta: string
  /** Where it is; empty on this node. */
  readonly node: string
}

/** `phx_ref` comes last, so that it counts whatever else is tracked under that name. */
export function trackedMeta(payload: string, ref: string, previous: string | undefined): string {
  const inside = insideOf(payload)
  const refs = `${previous === undefined ? '' : `"phx_ref_prev":"${previous}",`}"phx_ref":"${ref}"`
  return inside === '' ? `{${refs}}` : `{${inside},${refs}}`
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

  /** False if it is too much, for it is told to everybody who comes. `previous` is what it takes the place of. */
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
    // Nobody has heard of one that came in the same turn.
    if (!this.#joins.delete(ref)) this.#leaves.set(ref, tracked)
  }

  of(node: string): Tracked[] {
    return [...this.#present.values()].filter(each => each.node === node)
  }

  /** JSON text of everybody who is there. */
  state(): string {
    return byKey(this.#present.values())
  }

  /** What has changed since the last time. */
  takeDiff(): { json: string; joins: Tracked[]; leaves: Tracked[] } {
    const joins = [...this.#joins.values()]
    const leaves = [...this.#leaves.values()]
    this.#joins = new Map()
    this.#leaves = new Map()
    return { json: `{"joins":${byKey(joins)},"leaves":${byKey(leaves)}}`, joins, leaves }
  }
}

/** As it is told, under a key of its own. */
const bytesOf = ({ key, meta }: Tracked) =>
  Buffer.byteLength(JSON.stringify(key)) + Buffer.byteLength(meta) + ':{"metas":[]},'.length

/** Written by hand: a key may have any name. */
function byKey(all: Iterable<Tracked>): string {
  const metas = new Map<string, string>()
  for (const { key, meta } of all) {
    const others = metas.get(key)
    metas.set(key, others === undefined ? meta : `${others},${meta}`)
  }
  return `{${Array.from(metas, ([key, list]) => `${JSON.stringify(key)}:{"metas":[${list}]}`).join(',')}}`
}
