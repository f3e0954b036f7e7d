// The tables that are attached to webhooks. Attaching creates triggers as superuser, because tables have different owners.
// No tenant code runs on these connections.
import type { Attachment, Operation } from '@plinth/contract/webhooks.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { guardedSettings, type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'

export interface TableName {
  schema: string
  table: string
}

/** Webhooks are named by the id that triggers have for them. */
export interface Attachments {
  attach(tenant: Tenant, webhook: string, table: TableName & { events: readonly Operation[] }): Promise<void>
  detach(tenant: Tenant, webhook: string, table: TableName): Promise<void>
  detachAll(tenant: Tenant, webhook: string): Promise<void>
  list(tenant: Tenant, webhook: string): Promise<Attachment[]>
  /** Deletes captured changes, after the last webhook was deleted. */
  deleteChanges(tenant: Tenant): Promise<void>
}

/** Other writers of a table queue behind a waiting lock request, so it is short. */
const limits = 'set lock_timeout = 3000; set statement_timeout = 15000'

export function createAttachments({ address }: Cluster, whenUpgraded: WhenUpgraded): Attachments {
  async function inProject<T>({ ref }: Tenant, work: (session: OwnSession) => Promise<T>): Promise<T> {
    await whenUpgraded(ref, 'caller')
    return withClient(address, ref, guardedSettings, async session => {
      await session.script(limits)
      return work(session)
    })
  }
  void [inProject, Refusal, DatabaseError]
  return {
    async attach() {},
    async detach() {},
    async detachAll() {},
    list: async () => [],
    async deleteChanges() {},
  }
}
