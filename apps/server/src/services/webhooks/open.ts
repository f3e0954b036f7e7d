import { webhooksApi } from '@plinth/contract/webhooks.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import { queueDepth, workerMetrics } from '#src/kernel/metrics.ts'
import type { Connector } from '#src/kernel/outbound/connect.ts'
import { createKeepAlive } from '#src/kernel/outbound/keep-alive.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { EmailService } from '#src/services/email/service.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { createAttachedTables } from './attached-tables.ts'
import { createAttachments } from './attachments.ts'
import { type ChangeWatch, startChangeWatch } from './change-watch.ts'
import { deliveriesService } from './deliveries.ts'
import { startDispatch } from './dispatch.ts'
import { createHandover } from './handover.ts'
import { listenersService } from './listeners.ts'
import { webhooksRoutes } from './management-routes.ts'
import { webhooksData } from './project-data.ts'
import { countWaiting, vacuumQueue } from './queue-store.ts'
import { createQueuedSignal } from './queued-signal.ts'
import { createWebhookRelay } from './relay.ts'
import { webhooksService } from './service.ts'
import { createStoredBytes } from './stored-bytes.ts'
import { createSwitchOff } from './switch-off.ts'

interface WebhooksDeps {
  control: Database
  sealer: Sealer
  cluster: Cluster
  databases: Databases
  directory: Directory
  owner: OwnerWork
  connector: Connector
  upgrades: { whenUpgraded: WhenUpgraded }
  email: EmailService
  settings: {
    maxRetries: number
    timeoutMs: number
    retryBaseDelayMs: number
    maxConcurrent: number
    deadLetterRetentionDays: number
    maxStoredMb: number
  }
  log: Log
}

const vacuumMs = 5000
const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

export function openWebhooks(deps: WebhooksDeps): Service {
  const { control, sealer, databases, directory, settings, log } = deps
  const client = createKeepAlive(deps.connector)
  const tables = createAttachedTables(createAttachments(deps.cluster, deps.upgrades.whenUpgraded), databases)
  const signal = createQueuedSignal()
  const handover = createHandover()
  const worker = startDispatch({
    ...deps,
    client,
    handover,
    timeoutMs: settings.timeoutMs,
    maxConcurrent: settings.maxConcurrent,
    maxAttempts: settings.maxRetries,
    retryBaseMs: settings.retryBaseDelayMs,
    failing: createSwitchOff(deps),
  })
  function queued(projectId: string): void {
    worker.wake()
    signal.tell(projectId)
  }
  // A resumed project may have queued deliveries.
  directory.onChange(worker.wake)
  const stored = createStoredBytes({ control, maxBytes: settings.maxStoredMb * 1e6, log })
  const relay = createWebhookRelay({ ...deps, handover, stored, queued })
  let watch: ChangeWatch | undefined
  const webhooks = webhooksService({
    ...deps,
    tables,
    client,
    watch: async projectId => void (await watch?.look(projectId)),
  })
  const deliveries = deliveriesService({
    ...deps,
    deadLetterDays: settings.deadLetterRetentionDays,
    wake: worker.wake,
  })
  const listeners = listenersService({ ...deps, tables, webhooks, nextQueued: signal.next, queued })
  const chores = [
    startChore({ name: 'webhooks: close listeners', everyMs: minuteMs, run: listeners.closeExpired }, log),
    startChore(
      { name: 'webhooks: vacuum the queue', everyMs: vacuumMs, run: () => vacuumQueue(control) },
      log,
    ),
    startChore(
      { name: 'webhooks: prune deliveries', everyMs: dayMs, runsAtStart: true, run: deliveries.pruneNightly },
      log,
    ),
  ]
  return {
    name: 'webhooks',
    mount: to => to.management(webhooksApi, webhooksRoutes(webhooks, deliveries, listeners)),
    data: webhooksData(sealer),
    metrics: [...workerMetrics('webhooks', worker.use), queueDepth('webhooks', countWaiting)],
    start() {
      watch = startChangeWatch({ control, databases, directory, relay: relay.run, log })
    },
    async close() {
      for (const chore of chores) await chore.stop()
      await watch?.close()
      await relay.close()
      await worker.close()
      await client.close()
    },
  }
}
