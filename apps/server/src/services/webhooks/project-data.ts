// Export and restore of a project's webhooks. Their deliveries are not part of it. In another project they have other ids
// and the same secrets, and are switched off. The triggers of a copied database know them by the ids of the original.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
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

export function webhooksData(sealer: Sealer): ProjectDataHooks {
  function forProject(webhook: ExportedWebhook, from: string, to: string): ExportedWebhook {
    if (from === to) return webhook
    const id = orderedUuid()
    const secret = openSecret(sealer, from, webhook.id, webhook.secret)
    // Events of the original are not those of the copy.
    const created_at = new Date().toISOString()
    return { ...webhook, id, secret: sealSecret(sealer, to, id, secret), is_active: false, created_at }
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
  }
}
