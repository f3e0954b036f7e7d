// Joins a channel and remembers all that comes; nothing waits for ever.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel } from './realtime-shapes.ts'

export interface Change {
  schema: string
  table: string
  commit_timestamp: string
  eventType: string
  new: Record<string, any>
  old: Record<string, any>
  errors: string[] | null
}
export interface Broadcast {
  type: string
  event: string
  payload?: any
  meta?: { id: string; replayed?: boolean }
}
export interface System {
  extension: string
  status: string
  message: string
  channel: string
}
/** What an application may ask for with 'postgres_changes'. */
export interface Wish {
  event?: '*' | 'INSERT' | 'UPDATE' | 'DELETE'
  schema?: string
  table?: string
  filter?: any
  select?: string[]
}

export async function until(holds: () => unknown, what: string, withinMs = 60_000): Promise<void> {
  for (const end = Date.now() + withinMs; !(await holds()); await sleep(4))
    assert.ok(Date.now() < end, `${what} within ${withinMs} ms`)
}

export class Ear {
  readonly channel: Channel
  readonly statuses: string[] = []
  /** What the client says of statuses that are errors. */
  readonly reasons: string[] = []
  readonly changes: Change[] = []
  readonly broadcasts: Broadcast[] = []
  readonly system: System[] = []
  #wishes = 0

  constructor(channel: Channel, ...wishes: Wish[]) {
    this.channel = channel
    channel
      .on('system', {}, told => void this.system.push(told))
      .on('broadcast', { event: '*' }, told => void this.broadcasts.push(told as unknown as Broadcast))
    for (const wish of wishes) this.wants(wish, this.changes)
  }

  /** One more binding, whose changes are kept apart. */
  wants({ event = '*', schema = 'public', ...rest }: Wish, into: Change[] = []): Change[] {
    this.#wishes++
    this.channel.on(
      'postgres_changes',
      { event, schema, ...rest },
      told => void into.push(told as unknown as Change),
    )
    return into
  }

  /** Joined, and where rows are asked for, told that they flow. */
  async join(timeout?: number): Promise<this> {
    this.subscribe(timeout)
    await this.joined()
    return this
  }

  subscribe(timeout?: number): this {
    const note = (status: string, error?: Error) => {
      this.statuses.push(status)
      if (error) this.reasons.push(error.message)
    }
    this.channel.subscribe(note, timeout)
    return this
  }

  /** For the first time, or once more. */
  async joined(times = 1): Promise<void> {
    const count = () => this.statuses.filter(status => status === 'SUBSCRIBED').length
    const isRefused = () => times === 1 && this.statuses.includes('CHANNEL_ERROR')
    await until(() => count() >= times || isRefused(), `SUBSCRIBED ${times}: ${this.statuses}`)
    assert.ok(count() >= times, `${this.statuses}: ${this.reasons}`)
    if (this.#wishes > 0) await this.flows(times)
  }

  async flows(times = 1): Promise<void> {
    const flowing = () => this.system.filter(told => told.status === 'ok').length
    const isOver = () => flowing() >= times || this.statuses.at(-1) === 'CLOSED'
    await until(isOver, `changes flow: ${JSON.stringify(this.system)}`)
    assert.ok(flowing() >= times, JSON.stringify(this.system))
  }

  /** Subscribed in vain: the reason. */
  async refused(): Promise<string> {
    this.subscribe()
    await this.becomes('CHANNEL_ERROR')
    assert.ok(!this.statuses.includes('SUBSCRIBED'), String(this.statuses))
    return this.reasons[0]!
  }

  becomes(status: string, withinMs?: number): Promise<void> {
    return until(() => this.statuses.includes(status), `${status}, not only ${this.statuses}`, withinMs)
  }

  hears(count: number): Promise<void> {
    const heard = () => this.changes.length
    return until(() => heard() >= count, `${count} changes on ${this.channel.topic}`)
  }

  /** Waits for this event, which others may have come before. */
  async hearsOf(event: string): Promise<Broadcast> {
    const find = () => this.broadcasts.find(each => each.event === event)
    await until(find, `${event} on ${this.channel.topic}`)
    return find()!
  }

  async isTold(message: RegExp): Promise<System> {
    const find = () => this.system.find(each => message.test(each.message))
    await until(() => find(), `${message} among ${JSON.stringify(this.system)}`)
    return find()!
  }

  events = () => this.broadcasts.map(each => each.event)
  /** Ids of the rows heard of, whichever side they are on. */
  ids = () => idsOf(this.changes)
}

export const idsOf = (changes: Change[]) => changes.map(each => each.new['id'] ?? each.old['id'])
