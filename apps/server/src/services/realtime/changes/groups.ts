// Subscriptions that ask for the same on the same topic are one group: what a change means to it is worked out once.

import type { ChangeSubscriber } from '../subscriber.ts'
import { BadFilter, parseFilter } from './filters.ts'
import type { Wish } from './matching.ts'
import type { Audience } from './telling.ts'

export interface Group extends Audience {
  readonly key: string
  readonly wishes: readonly Wish[]
  readonly members: Set<ChangeSubscriber>
}

export class Groups {
  readonly #byKey = new Map<string, Group>()
  readonly #of = new Map<ChangeSubscriber, Group>()

  get size(): number {
    return this.#of.size
  }
  [Symbol.iterator](): Iterator<Group> {
    return this.#byKey.values()
  }
  has(subscriber: ChangeSubscriber): boolean {
    return this.#of.has(subscriber)
  }

  add(subscriber: ChangeSubscriber): void {
    const { topic, version, isLegacy, bindings } = subscriber
    const key = JSON.stringify([topic, version, isLegacy, bindings])
    const group = this.#byKey.get(key) ?? {
      key,
      topic,
      version,
      isLegacy,
      wishes: bindings.map(binding => ({ binding, conditions: conditionsOf(binding.filter) })),
      members: new Set<ChangeSubscriber>(),
    }
    group.members.add(subscriber)
    this.#byKey.set(key, group)
    this.#of.set(subscriber, group)
  }

  remove(subscriber: ChangeSubscriber): void {
    const group = this.#of.get(subscriber)
    if (!group) return
    this.#of.delete(subscriber)
    group.members.delete(subscriber)
    if (group.members.size === 0) this.#byKey.delete(group.key)
  }

  /** Those who hear of row changes. */
  *listeners(): Generator<ChangeSubscriber> {
    for (const { wishes, members } of this) if (wishes.length > 0) yield* members
  }
}

/** What is wrong with a filter was told to whoever sent it. */
function conditionsOf(filter: string | undefined) {
  if (filter === undefined || filter === '') return []
  try {
    return parseFilter(filter)
  } catch (error) {
    if (error instanceof BadFilter) return
    throw error
  }
}
