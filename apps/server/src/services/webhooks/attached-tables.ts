// Tables that are attached to webhooks, with errors for the caller.
import type { Attachment } from '@plinth/contract/webhooks.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Attachments } from './attachments.ts'
import { deleteAllChanges } from './changes-store.ts'

type TableName = Pick<Attachment, 'schema' | 'table'>

/** Webhooks are named by the id that triggers have for them. */
export interface AttachedTables {
  attach(tenant: Tenant, webhook: string, attachment: Attachment): Promise<void>
  detach(tenant: Tenant, webhook: string, table: TableName): Promise<void>
  detachAll(tenant: Tenant, webhook: string): Promise<void>
  list(tenant: Tenant, webhook: string): Promise<Attachment[]>
  /** Deletes captured changes, after the last webhook was deleted. */
  deleteChanges(tenant: Tenant): Promise<void>
}

export function createAttachedTables(
  attachments: Attachments,
  databases: Pick<Databases, 'asService'>,
): AttachedTables {
  return {
    async attach({ ref }, webhook, attachment) {
      const result = await attachments.attach(ref, webhook, attachment)
      if (result === 'locked') throw locked()
      if (result !== 'attached') throw new Refusal('table_not_attachable', result.message)
    },
    async detach({ ref }, webhook, table) {
      if ((await attachments.detach(ref, webhook, table)) === 'locked') throw locked()
    },
    async detachAll({ ref }, webhook) {
      if ((await attachments.detachAll(ref, webhook)) === 'locked') throw locked()
    },
    list: async ({ ref }, webhook) =>
      (await attachments.list(ref, webhook)).map(({ schema, table, events }) => ({
        schema,
        table,
        events: [...events],
      })),
    deleteChanges: async tenant => void (await deleteAllChanges(databases, tenant)),
  }
}

const locked = () =>
  retryLater('table_locked', 'Another session has locked the table; try again when it has ended', 5)
