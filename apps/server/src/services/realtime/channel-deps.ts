// The dependencies of channels and sockets.
import type { Log } from '#src/kernel/log.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Bus } from './bus.ts'
import type { Changes, Permissions, SentMessage } from './subscriber.ts'

export interface ChannelDeps {
  readonly bus: Bus
  readonly changes: Pick<Changes, 'subscribe'>
  /** What policies on realtime.messages allow the caller on a private topic. Throws if the policy check fails. */
  permissions(caller: Caller, subTopic: string): Promise<Permissions>
  /** Messages sent to a private topic since a time in milliseconds, oldest first. */
  replay(caller: Caller, subTopic: string, since: number, limit: number): Promise<SentMessage[]>
  /** The project with all changes that other nodes have committed. */
  findCurrent(projectId: string): Promise<Tenant | undefined>
  isRevoked(caller: Caller): boolean | Promise<boolean>
  readonly log: Log
}
