// The email service: the relay from the outbox to the mail queue, the sending worker, and the routes.
import { emailApi } from '@plinth/contract/email.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import { queueDepth, workerMetrics } from '#src/kernel/metrics.ts'
import type { Connector } from '#src/kernel/outbound/connect.ts'
import type { SmtpServer } from '#src/kernel/outbound/smtp-server.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Opened } from '#src/planes/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { Outbox } from '#src/tenancy/outbox.ts'
import { tableDataHooks } from '#src/tenancy/project-data-store.ts'
import { createDelivery } from './delivery.ts'
import { emailRoutes } from './management-routes.ts'
import { mailRelay } from './relay.ts'
import { type EmailService, emailService } from './service.ts'
import { countQueued } from './store.ts'
import { startMailWorker } from './worker.ts'

interface EmailDeps {
  control: Database
  sealer: Sealer
  directory: Directory
  outbox: Outbox
  owner: OwnerWork
  connector: Connector
  /** The SMTP server of the deployment. */
  smtp: SmtpServer | undefined
  baseUrl(): string
  log: Log
}

export function openEmail({ smtp, ...deps }: EmailDeps): Opened<EmailService> {
  const { control, sealer, directory, outbox, connector, log } = deps
  const delivery = createDelivery({ sealer, deployment: smtp, connector })
  const worker = startMailWorker({ control, sealer, delivery, log })
  const { wake } = worker
  // A resumed project may have queued mail.
  directory.onChange(wake)
  outbox.addRelay(mailRelay({ control, sealer, hasDeploymentServer: smtp !== undefined, wake, log }))
  const service = emailService({ ...deps, delivery, wake })
  return {
    name: 'email',
    service,
    mount: to => to.management(emailApi, emailRoutes(service)),
    data: templatesData,
    metrics: [...workerMetrics('mail', worker.use), queueDepth('mail', countQueued)],
    close: worker.close,
  }
}

export const templatesData = tableDataHooks('mail_templates', [
  'type',
  'subject',
  'body_html',
  'body_text',
  'updated_at',
])
