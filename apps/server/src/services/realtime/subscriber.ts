// What the feed of row changes sees of a channel.
import type { Caller } from '#src/tenancy/databases.ts'
import type { Version } from './wire.ts'

export type ChangeEvent = 'INSERT' | 'UPDATE' | 'DELETE'

/** One entry of `postgres_changes`, as the client asked for it. */
export interface Binding {
  /** As told to the client; the same wish at the same place has the same id on every channel. */
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
  /** The whole of it, `realtime:` included. */
  readonly topic: string
  readonly version: Version
  /** Joined without `config`: it gets the bare change under the name of its event. */
  readonly isLegacy: boolean
  /** Read anew for every change: a refreshed token replaces it. */
  readonly caller: Caller
  readonly bindings: readonly Binding[]
  /** A frame ready for the wire, which others may be sent, too. */
  send(frame: Buffer): void
  /** A `system` message of the extension postgres_changes. */
  tell(status: 'ok' | 'error', message: string): void
}

export interface ChangeSubscription {
  /** Resolves when changes are captured, or will not be; what there is to tell, and changes, come a turn later. */
  readonly flowing: Promise<void>
  end(): void
}

export interface Changes {
  /** Every channel subscribes: one without bindings hears what SQL sends. */
  subscribe(subscriber: ChangeSubscriber): ChangeSubscription
  close(): Promise<void>
}

/** What SQL has sent with realtime.send(). */
export interface SentMessage {
  readonly id: string
  readonly topic: string
  readonly event: string
  /** JSON text. */
  readonly payload: string
  readonly isPrivate: boolean
}

/** What policies on realtime.messages let a caller do on a private topic. */
export interface Permissions {
  readonly mayReadBroadcast: boolean
  readonly maySendBroadcast: boolean
  readonly mayReadPresence: boolean
  readonly maySendPresence: boolean
}
