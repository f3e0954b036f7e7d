// What became of deliveries: lists, payloads, manual retries, and the deletion of old records.
import type { Delivery, DeliveryStatus, DeliveryWithPayload } from '@plinth/contract/webhooks.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { lowestUuidAt } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import * as store from './deliveries-store.ts'
import { throwNotFound } from './service.ts'
import { findWebhook } from './store.ts'

interface DeliveriesDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  deadLetterDays: number
  wake(): void
}

export interface DeliveriesQuery {
  status?: DeliveryStatus
  event?: string
  from?: string
  to?: string
  limit?: number
  before?: string
}

export type DeliveriesService = ReturnType<typeof deliveriesService>

const limits = { usual: 50, most: 100 }
const dayMs = 86_400_000
/** Records of successful deliveries are kept this long. */
const deliveredDays = 7
const deletedAtOnce = 5000
const webhooksAtOnce = 500

export function deliveriesService({ control, owner, deadLetterDays, wake }: DeliveriesDeps) {
  async function webhookOf(projectId: string, webhookId: string) {
    const { id } = await owner.tenant(projectId)
    return (await findWebhook(control, id, webhookId)) ?? throwNotFound()
  }

  async function deleteOf(
    webhookId: string,
    status: 'delivered' | 'dead_letter',
    days: number,
    signal?: AbortSignal,
  ): Promise<number> {
    const beforeId = lowestUuidAt(Date.now() - days * dayMs + 1)
    for (let deleted = 0; ; ) {
      const count = await store.deleteEnded(control, webhookId, status, {
        beforeId,
        days,
        limit: deletedAtOnce,
      })
      deleted += count
      if (count < deletedAtOnce || signal?.aborted) return deleted
    }
  }

  /** Deletes old records of all webhooks, and returns their number. */
  async function prune(
    status: 'delivered' | 'dead_letter',
    days: number,
    signal?: AbortSignal,
  ): Promise<number> {
    let deleted = 0
    for (let after = '00000000-0000-0000-0000-000000000000'; !signal?.aborted; ) {
      const ids = await store.listWebhookIds(control, after, webhooksAtOnce)
      for (const id of ids) {
        if (signal?.aborted) break
        deleted += await deleteOf(id, status, days, signal)
      }
      if (ids.length < webhooksAtOnce) break
      after = ids.at(-1)!
    }
    return deleted
  }

  return {
    async list(projectId: string, webhookId: string, query: DeliveriesQuery) {
      const { id } = await webhookOf(projectId, webhookId)
      const limit = Math.min(query.limit ?? limits.usual, limits.most)
      const rows = await store.listDeliveries(control, id, {
        status: query.status,
        event: query.event,
        fromId: query.from && lowestUuidAt(Date.parse(query.from)),
        beforeIds: [
          ...(query.to ? [lowestUuidAt(Date.parse(query.to))] : []),
          ...(query.before ? [query.before] : []),
        ],
        limit: limit + 1,
      })
      const page = rows.slice(0, limit)
      return {
        deliveries: page.map(shown),
        next_before: rows.length > limit ? (page.at(-1)?.id ?? null) : null,
      }
    },

    async read(projectId: string, webhookId: string, deliveryId: string): Promise<DeliveryWithPayload> {
      const { id } = await webhookOf(projectId, webhookId)
      const row = (await store.findDelivery(control, id, deliveryId)) ?? throwNoDelivery()
      return { ...shown(row), payload: row.payload }
    },

    async retry(projectId: string, webhookId: string, deliveryId: string): Promise<Delivery> {
      const { id, is_active: isActive } = await webhookOf(projectId, webhookId)
      const before = (await store.findDelivery(control, id, deliveryId)) ?? throwNoDelivery()
      if (!isActive)
        throw new Refusal('webhook_inactive', 'The webhook is switched off; switch it on before you retry')
      if (before.status !== 'dead_letter' || !(await store.requeue(control, id, deliveryId)))
        throw new Refusal(
          'delivery_not_dead',
          `The delivery has the status ${before.status === 'dead_letter' ? 'pending' : before.status}; only a dead letter can be retried`,
        )
      wake()
      return shown((await store.findDelivery(control, id, deliveryId)) ?? throwNoDelivery())
    },

    async purge(days = deadLetterDays) {
      return { deleted: await prune('dead_letter', days), days }
    },

    async pruneNightly(signal: AbortSignal): Promise<void> {
      await prune('dead_letter', deadLetterDays, signal)
      await prune('delivered', deliveredDays, signal)
    },
  }
}

function shown(row: store.DeliveryRow): Delivery {
  const { id, webhook_id, event, status, attempt_count, manual_retry_count } = row
  const { next_attempt_at, attempts, created_at, ended_at } = row
  const last = attempts.at(-1)
  return {
    id,
    webhook_id,
    event,
    status,
    attempt_count,
    manual_retry_count,
    next_attempt_at,
    last_status_code: last?.status_code ?? null,
    last_error: last?.error ?? null,
    attempts,
    created_at,
    ended_at,
  }
}

function throwNoDelivery(): never {
  throw new Refusal('delivery_not_found', 'The webhook has no delivery with this id; old records are deleted')
}
