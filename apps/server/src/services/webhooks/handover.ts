// Deliveries that this node has just queued and will send itself. They are inserted with a lease, so they need not be
// claimed and read again. The memory they take is bounded; what does not fit is claimed from the queue.
import type { NewDelivery, QueuedDelivery, WaitingWebhook } from './queue-store.ts'

export interface Handover {
  /** How many of the given deliveries fit, beginning with the first. */
  room(deliveries: readonly NewDelivery[]): number
  /** After the commit that has queued them. */
  add(projectId: string, deliveries: readonly NewDelivery[]): void
  waiting(): WaitingWebhook[]
  take(webhookId: string, count: number): QueuedDelivery[]
  /** All that wait, for their leases. */
  ids(): { webhookId: string; ids: string[] }[]
}

interface Line {
  projectId: string
  deliveries: QueuedDelivery[]
}

const most = { deliveries: 1000, perWebhook: 400, bytes: 4_000_000 }

export function createHandover(): Handover {
  const lines = new Map<string, Line>()
  let count = 0
  let bytes = 0

  return {
    room(deliveries) {
      const own = new Map<string, number>()
      let fits = 0
      let added = 0
      for (const { webhook_id: id, payload } of deliveries) {
        const line = (own.get(id) ?? lines.get(id)?.deliveries.length ?? 0) + 1
        added += payload.length
        if (count + fits >= most.deliveries || line > most.perWebhook || bytes + added > most.bytes) break
        own.set(id, line)
        fits++
      }
      return fits
    },
    add(projectId, deliveries) {
      for (const { id, webhook_id: webhookId, event, payload } of deliveries) {
        const line = lines.get(webhookId) ?? { projectId, deliveries: [] }
        lines.set(webhookId, line)
        line.deliveries.push({ id, event, payload, tries: 0 })
        count++
        bytes += payload.length
      }
    },
    waiting: () =>
      [...lines].map(([webhookId, { projectId, deliveries }]) => ({
        webhook_id: webhookId,
        project_id: projectId,
        due: deliveries.length,
      })),
    take(webhookId, wanted) {
      const line = lines.get(webhookId)
      if (!line) return []
      const taken = line.deliveries.splice(0, wanted)
      if (line.deliveries.length === 0) lines.delete(webhookId)
      count -= taken.length
      for (const { payload } of taken) bytes -= payload.length
      return taken
    },
    ids: () =>
      [...lines].map(([webhookId, { deliveries }]) => ({ webhookId, ids: deliveries.map(({ id }) => id) })),
  }
}
