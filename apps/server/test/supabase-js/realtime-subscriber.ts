// Joins a channel and records everything it receives. Every wait has a timeout.
import assert from 'node:assert/strict'
import { eventually } from '../eventually.ts'
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
/** The options of a 'postgres_changes' binding. */
export interface ChangeBinding {
  event?: '*' | 'INSERT' | 'UPDATE' | 'DELETE'
  schema?: string
  table?: string
  filter?: any
  select?: string[]
}

export class Subscriber {
  readonly channel: Channel
  readonly statuses: string[] = []
  /** Error messages of statuses. */
  readonly reasons: string[] = []
  readonly changes: Change[] = []
  readonly broadcasts: Broadcast[] = []
  readonly system: System[] = []
  #bindings = 0

  constructor(channel: Channel, ...bindings: ChangeBinding[]) {
    this.channel = channel
    channel
      .on('system', {}, message => void this.system.push(message))
      .on('broadcast', { event: '*' }, message => void this.broadcasts.push(message as unknown as Broadcast))
    for (const binding of bindings) this.addBinding(binding, this.changes)
  }

  /** Adds a binding whose changes go to a separate list. */
  addBinding({ event = '*', schema = 'public', ...rest }: ChangeBinding, into: Change[] = []): Change[] {
    this.#bindings++
    this.channel.on(
      'postgres_changes',
      { event, schema, ...rest },
      message => void into.push(message as unknown as Change),
    )
    return into
  }

  /** Joins, and with bindings waits for the status that changes are captured. */
  async join(timeout?: number): Promise<this> {
    this.subscribe(timeout)
    await this.joined()
    return this
  }

  subscribe(timeout?: number): this {
    const record = (status: string, error?: Error) => {
      this.statuses.push(status)
      if (error) this.reasons.push(error.message)
    }
    this.channel.subscribe(record, timeout)
    return this
  }

  /** Waits until it has been joined this often. */
  async joined(times = 1): Promise<void> {
    const count = () => this.statuses.filter(status => status === 'SUBSCRIBED').length
    const isRejected = () => times === 1 && this.statuses.includes('CHANNEL_ERROR')
    await eventually(() => count() >= times || isRejected(), `SUBSCRIBED ${times}: ${this.statuses}`)
    assert.ok(count() >= times, `${this.statuses}: ${this.reasons}`)
    if (this.#bindings > 0) await this.capturesChanges(times)
  }

  async capturesChanges(times = 1): Promise<void> {
    const confirmations = () => this.system.filter(message => message.status === 'ok').length
    const isOver = () => confirmations() >= times || this.statuses.at(-1) === 'CLOSED'
    await eventually(isOver, `changes are captured: ${JSON.stringify(this.system)}`)
    assert.ok(confirmations() >= times, JSON.stringify(this.system))
  }

  /** Subscribes, and returns the reason of the expected rejection. */
  async joinError(): Promise<string> {
    this.subscribe()
    await this.reachesStatus('CHANNEL_ERROR')
    assert.ok(!this.statuses.includes('SUBSCRIBED'), String(this.statuses))
    return this.reasons[0]!
  }

  async reachesStatus(status: string): Promise<void> {
    await eventually(() => this.statuses.includes(status), `${status}, not only ${this.statuses}`)
  }

  async receivesChanges(count: number): Promise<void> {
    await eventually(() => this.changes.length >= count, `${count} changes on ${this.channel.topic}`)
  }

  /** Waits for this event. Other events may come first. */
  async receivesBroadcast(event: string): Promise<Broadcast> {
    const find = () => this.broadcasts.find(each => each.event === event)
    return eventually(find, `${event} on ${this.channel.topic}`)
  }

  async receivesSystem(message: RegExp): Promise<System> {
    const find = () => this.system.find(each => message.test(each.message))
    return eventually(find, `${message} among ${JSON.stringify(this.system)}`)
  }

  events = () => this.broadcasts.map(each => each.event)
  /** Ids of the received rows, from `new` or `old`. */
  ids = () => idsOf(this.changes)
}

export const idsOf = (changes: Change[]) => changes.map(each => each.new['id'] ?? each.old['id'])
