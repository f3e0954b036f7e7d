// Switches off webhooks that have only failed for five days, and tells the owners of the project by mail.
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { EmailService } from '#src/services/email/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { deleteWaiting } from './deliveries-store.ts'
import type { ClaimedTarget } from './queue-store.ts'
import { lockWebhook } from './store.ts'
import * as store from './switch-off-store.ts'

interface SwitchOffDeps {
  control: Database
  directory: Pick<Directory, 'forget'>
  email: Pick<EmailService, 'notify'>
  log: Log
}

const failingDays = 5
const dayMs = 86_400_000

/** To be called after a failure. */
export function createSwitchOff({ control, directory, email, log }: SwitchOffDeps) {
  return async ({ id, failing_ms: failingMs }: Pick<ClaimedTarget, 'id' | 'failing_ms'>): Promise<void> => {
    if (failingMs === null || failingMs < failingDays * dayMs) return
    const projectId = await control.transaction(async session => {
      await store.lockProjectOf(session, id)
      await lockWebhook(session, id)
      const webhook = await store.switchOff(session, id, failingDays)
      if (!webhook) return
      await deleteWaiting(session, id)
      await store.insertAudit(session, webhook.project_id, id)
      await email.notify(session, webhook.project_id, await store.listOwners(session, webhook.project_id), {
        subject: `A webhook of ${webhook.project_name} was switched off`,
        text: [
          `The webhook ${id} of the project ${webhook.project_name} had no successful delivery for ${failingDays} days, so it was switched off.`,
          `Its URL is ${webhook.url}`,
          'New events are not delivered to it. When the URL works again, switch the webhook on:',
          `plinth webhooks update --id ${id} --is-active true`,
        ].join('\n\n'),
      })
      return webhook.project_id
    })
    if (projectId === undefined) return
    directory.forget(projectId)
    log.warn({ project: projectId, webhook: id }, 'webhook switched off after five days without a success')
  }
}
