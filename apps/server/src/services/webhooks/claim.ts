// Chooses which deliveries start next: those that were handed over, and those in the queue, fairly between projects and
// webhooks.
import { randomUUID } from 'node:crypto'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Job, Room } from '#src/kernel/worker-slots.ts'
import type { Handover } from './handover.ts'
import type { Lanes } from './lanes.ts'
import * as store from './queue-store.ts'

/** Deliveries to one webhook, which are sent one after the other. */
export interface Batch extends Job {
  target: store.ClaimedTarget
  deliveries: store.QueuedDelivery[]
}

interface ClaimDeps {
  control: Database
  handover: Handover
  lanes: Lanes
}

/** How long a node has a delivery that it has claimed or queued for itself. */
export const leaseSeconds = 30
const maxBatch = 100
/** Of the payloads that a batch claims, so that large ones take little memory. */
const maxBatchBytes = 1_000_000
/** The longest time between two looks at the queue, while deliveries are handed over. */
const lookAgainMs = 50
/** Webhooks that one statement looks at. */
const lookAt = 200
const lowestId = '00000000-0000-0000-0000-000000000000'

export function createClaim({ control, handover, lanes }: ClaimDeps): (room: Room) => Promise<Batch[]> {
  /** Claims begin after the webhook that was served last. */
  let position = lowestId
  let lookedAt = Number.NEGATIVE_INFINITY

  /** Reserves places for webhooks with due deliveries, one for each in turn until there is no room. */
  function reserve(
    waiting: readonly store.WaitingWebhook[],
    room: Room,
  ): Map<string, { places: number; due: number }> {
    const reserved = new Map<string, { places: number; due: number }>()
    const left = new Map<string, number>()
    let jobs = room.jobs
    for (let isAny = true; isAny && jobs > 0; ) {
      isAny = false
      for (const { webhook_id: id, project_id: project, due } of waiting) {
        if (jobs === 0) break
        const places = left.get(project!) ?? room.places.get(project!) ?? room.perProject
        const own = reserved.get(id) ?? { places: 0, due }
        if (places === 0 || own.places >= due || lanes.free(id, project!) === 0) continue
        lanes.start(id, project!)
        left.set(project!, places - 1)
        reserved.set(id, { places: own.places + 1, due })
        position = id
        jobs--
        isAny = true
      }
    }
    return reserved
  }

  const mayStart = (room: Room, { webhook_id: id, project_id: project, due }: store.WaitingWebhook) =>
    project !== null && due > 0 && room.places.get(project) !== 0 && lanes.free(id, project) > 0

  /** Webhooks with due deliveries in the queue that may start one, beginning after the position. */
  async function inQueue(room: Room): Promise<store.WaitingWebhook[]> {
    const found: store.WaitingWebhook[] = []
    let hasWrapped = position === lowestId
    for (let after = position; found.length < room.jobs; ) {
      const page = await store.listWaiting(control, { after, limit: lookAt, most: 2 * maxBatch })
      for (const waiting of page) {
        if (hasWrapped && position !== lowestId && waiting.webhook_id > position) return found
        if (mayStart(room, waiting)) found.push(waiting)
      }
      if (page.length === lookAt) after = page.at(-1)!.webhook_id
      else if (hasWrapped) return found
      else {
        hasWrapped = true
        after = lowestId
      }
    }
    return found
  }

  /** Handed over ones first. The queue is looked at if they leave room, and often enough that none in it waits for long. */
  async function candidates(room: Room): Promise<store.WaitingWebhook[]> {
    const handed = handover.waiting().filter(waiting => mayStart(room, waiting))
    const places = handed.reduce(
      (sum, { webhook_id: id, project_id: project }) => sum + lanes.free(id, project!),
      0,
    )
    if (places >= room.jobs && performance.now() - lookedAt < lookAgainMs) return handed
    lookedAt = performance.now()
    const byId = new Map((await inQueue(room)).map(waiting => [waiting.webhook_id, waiting]))
    for (const waiting of handed)
      byId.set(waiting.webhook_id, {
        ...waiting,
        due: waiting.due + (byId.get(waiting.webhook_id)?.due ?? 0),
      })
    const after = (id: string) => (id > position ? 0 : 1)
    return [...byId.values()].sort(
      ({ webhook_id: left }, { webhook_id: right }) => after(left) - after(right) || (left < right ? -1 : 1),
    )
  }

  /** Takes handed over deliveries of the webhooks, and claims those of the others. */
  async function takeDeliveries(wanted: readonly { webhook_id: string; count: number; bytes: number }[]) {
    const taken = new Map(wanted.map(({ webhook_id: id, count }) => [id, handover.take(id, count)]))
    const others = wanted.filter(({ webhook_id: id }) => taken.get(id)!.length === 0)
    if (others.length > 0)
      for (const [id, deliveries] of await store.claimDue(control, others, leaseSeconds))
        taken.set(id, deliveries)
    return taken
  }

  return async room => {
    const reserved = reserve(await candidates(room), room)
    const unused = new Map([...reserved].map(([id, { places }]) => [id, places]))
    try {
      if (reserved.size === 0) return []
      const wanted = [...reserved].map(([id, { places }]) => ({
        webhook_id: id,
        count: places * maxBatch,
        bytes: places * maxBatchBytes,
      }))
      const taken = await takeDeliveries(wanted)
      // Read now, so that a changed URL or secret is used, and nothing is sent to a webhook that was switched off.
      const targets = await store.findTargets(control, [...taken.keys()])
      return targets.flatMap(target => {
        const deliveries = taken.get(target.id)!
        const size = Math.ceil(deliveries.length / reserved.get(target.id)!.places)
        const batches: Batch[] = []
        for (let from = 0; from < deliveries.length; from += size) {
          unused.set(target.id, unused.get(target.id)! - 1)
          batches.push({
            id: randomUUID(),
            project_id: target.project_id,
            target,
            deliveries: deliveries.slice(from, from + size),
          })
        }
        return batches
      })
    } finally {
      for (const [id, places] of unused) for (let n = 0; n < places; n++) lanes.end(id, 'unused')
    }
  }
}
