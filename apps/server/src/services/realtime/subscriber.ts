// A channel, as far as the feed of row changes uses it.
import type { Caller } from '#src/tenancy/databases.ts'
import type { Version } from './wire.ts'

export type ChangeEvent = 'INSERT' | 'UPDATE' | 'DELETE'

/** One entry of `postgres_changes`, as the client asked for it. */
export interface Binding {
  /** The id sent to the client. The same entry at the same position has the same id on every channel. */
  readonly id: number
  readonly event: ChangeEvent | '*'
  /** '*' is every schema. */
  readonly schema: string
  /** Absent or '*' is every table. */
  readonly table: string | undefined
  /** As sent: `column=op.value`. */
  readonly filter: string | undefined
  readonly select: readonly string[] | undefined
}

export interface ChangeSubscriber {
  /** With the prefix `realtime:`. */
  readonly topic: string
  readonly version: Version
  /** Joined without `config`: each change is sent unwrapped, with INSERT, UPDATE or DELETE as the event. */
  readonly isLegacy: boolean
  /** Read for every change, because a refreshed token replaces it. */
  readonly caller: Caller
  readonly bindings: readonly Binding[]
  /** An encoded frame. Other subscribers may share the buffer. */
  send(frame: Buffer): void
  /** A `system` message of the extension postgres_changes. */
  sendStatus(status: 'ok' | 'error', message: string): void
}

export interface ChangeSubscription {
  /** Resolves when changes are captured, or when the feed has no room. System messages and changes follow a turn later. */
  readonly ready: Promise<void>
  end(): void
}

export interface Changes {
  /** Every channel subscribes. One without bindings receives the broadcasts that SQL sends. */
  subscribe(subscriber: ChangeSubscriber): ChangeSubscription
  close(): Promise<void>
}

/** A message that SQL sent with realtime.send(). */
export interface SentMessage {
  readonly id: string
  readonly topic: string
  readonly event: string
  /** JSON text. */
  readonly payload: string
  readonly isPrivate: boolean
}

/** What policies on realtime.messages allow a caller on a private topic. */
export interface Permissions {
  readonly mayReadBroadcast: boolean
  readonly maySendBroadcast: boolean
  readonly mayReadPresence: boolean
  readonly maySendPresence: boolean
}
