// Export, restore and copy of a project's webhooks. Their deliveries are not part of it. A copy has other ids and the same
// secrets, and is switched off. The triggers of the copied database know the webhooks by the ids of the original.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { beginning } from '#src/tenancy/outbox-reading.ts'
import type { ExportedRow, ProjectDataHooks } from '#src/tenancy/project-data.ts'
import {
  deleteWebhooks,
  type ExportedWebhook,
  insertExported,
  listExported,
  skipRestored,
} from './project-data-store.ts'
import { sources } from './relay.ts'
import { openSecret, sealSecret } from './secrets.ts'
import { insertCursors } from './store.ts'

export function webhooksData(sealer: Sealer): ProjectDataHooks {
  function forProject(webhook: ExportedWebhook, from: string, to: string): ExportedWebhook {
    if (from === to) return webhook
    const id = orderedUuid()
    const secret = openSecret(sealer, from, webhook.id, webhook.secret)
    return { ...webhook, id, secret: sealSecret(sealer, to, id, secret) }
  }

  async function insertAll(session: Session, projectId: string, webhooks: readonly ExportedWebhook[]) {
    for (const webhook of webhooks) await insertExported(session, projectId, webhook)
    if (webhooks.length > 0) await insertCursors(session, projectId, sources, beginning)
  }

  return {
    async *export(session, projectId) {
      for (const webhook of await listExported(session, projectId)) yield webhook as unknown as ExportedRow
    },
    async restore(session, projectId, { from, rows }) {
      await deleteWebhooks(session, projectId)
      const webhooks: ExportedWebhook[] = []
      for await (const row of rows)
        webhooks.push(forProject(row as unknown as ExportedWebhook, from, projectId))
      for (const webhook of webhooks) await insertExported(session, projectId, webhook)
      if (webhooks.length > 0) await skipRestored(session, projectId, sources)
    },
    async copy(session, from, to) {
      const now = new Date().toISOString()
      const webhooks = (await listExported(session, from)).map(webhook => ({
        ...forProject(webhook, from, to),
        is_active: false,
        // Events of the original are not those of the copy.
        created_at: now,
      }))
      await insertAll(session, to, webhooks)
    },
  }
}
