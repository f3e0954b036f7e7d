// Subscribers with equal bindings on the same topic form a group. Each change is matched once per group.

import type { ChangeSubscriber } from '../subscriber.ts'
import type { FrameTarget } from './encode.ts'
import { InvalidFilter, parseFilter } from './filters.ts'
import type { ParsedBinding } from './matching.ts'

export interface Group extends FrameTarget {
  readonly key: string
  readonly bindings: readonly ParsedBinding[]
  readonly members: Set<ChangeSubscriber>
}

export class Groups {
  readonly #byKey = new Map<string, Group>()
  readonly #bySubscriber = new Map<ChangeSubscriber, Group>()

  get size(): number {
    return this.#bySubscriber.size
  }
  [Symbol.iterator](): Iterator<Group> {
    return this.#byKey.values()
  }
  has(subscriber: ChangeSubscriber): boolean {
    return this.#bySubscriber.has(subscriber)
  }

  add(subscriber: ChangeSubscriber): void {
    const { topic, version, isLegacy, bindings } = subscriber
    const key = JSON.stringify([topic, version, isLegacy, bindings])
    const group = this.#byKey.get(key) ?? {
      key,
      topic,
      version,
      isLegacy,
      bindings: bindings.map(binding => ({ binding, conditions: conditionsOf(binding.filter) })),
      members: new Set<ChangeSubscriber>(),
    }
    group.members.add(subscriber)
    this.#byKey.set(key, group)
    this.#bySubscriber.set(subscriber, group)
  }

  remove(subscriber: ChangeSubscriber): void {
    const group = this.#bySubscriber.get(subscriber)
    if (!group) return
    this.#bySubscriber.delete(subscriber)
    group.members.delete(subscriber)
    if (group.members.size === 0) this.#byKey.delete(group.key)
  }

  /** Subscribers with at least one binding. */
  *changeSubscribers(): Generator<ChangeSubscriber> {
    for (const { bindings, members } of this) if (bindings.length > 0) yield* members
  }
}

/** Undefined for an invalid filter, which the subscriber was told when it subscribed. */
function conditionsOf(filter: string | undefined) {
  if (filter === undefined || filter === '') return []
  try {
    return parseFilter(filter)
  } catch (error) {
    if (error instanceof InvalidFilter) return
    throw error
  }
}
