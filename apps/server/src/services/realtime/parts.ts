// What channels and sockets work with.
import type { Log } from '#src/kernel/log.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Span } from './span.ts'
import type { Changes, Permissions, SentMessage } from './subscriber.ts'

export interface Parts {
  readonly span: Span
  readonly changes: Pick<Changes, 'subscribe'>
  /** What policies on realtime.messages let a caller do on a private topic; throws when that cannot be judged. */
  permissions(caller: Caller, subTopic: string): Promise<Permissions>
  /** What was sent to a private topic since a time, in milliseconds, the oldest first. */
  replay(caller: Caller, subTopic: string, since: number, limit: number): Promise<SentMessage[]>
  isRevoked(caller: Caller): boolean | Promise<boolean>
  readonly log: Log
}
