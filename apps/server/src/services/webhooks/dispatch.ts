// Delivers what waits in the queue, at least once. A job of the worker is a batch of deliveries to one webhook, which are
// sent one after the other. A batch ends early at the first failure and after a second, so that webhooks take turns.
import { randomUUID } from 'node:crypto'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Job, Room } from '#src/kernel/worker-slots.ts'
import { type AttemptDeps, attemptDelivery } from './attempt.ts'
import { createLanes, type LaneResult } from './lanes.ts'
import * as store from './queue-store.ts'
import { signWith } from './secrets.ts'

export interface DispatchDeps extends AttemptDeps {
  control: Database
  sealer: Sealer
  maxConcurrent: number
  /** Attempts before a delivery becomes a dead letter. */
  maxAttempts: number
  retryBaseMs: number
  /** Called after a failure of a webhook that has been failing for the given time. */
  failing(target: store.ClaimedTarget): Promise<void>
  log: Log
}

interface Batch extends Job, store.ClaimedBatch {}

type Outcome = store.BatchOutcome & { laneResult: LaneResult }

const maxBatch = 50
const batchMs = 1000
const lease = { seconds: 30, extendMs: 10_000 }
/** Webhooks that one statement looks at. */
const lookAt = 200
const lowestId = '00000000-0000-0000-0000-000000000000'

export function startDispatch(deps: DispatchDeps): Worker {
  const { control, sealer, maxConcurrent, maxAttempts, retryBaseMs, log } = deps
  // No project can take all places from the others.
  const perProject = Math.max(1, Math.ceil(maxConcurrent * 0.8))
  const lanes = createLanes({ all: maxConcurrent, perProject })
  /** Claims begin after the webhook that was served last. */
  let position = lowestId

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

  /** Webhooks with due deliveries that may start one, beginning after the position. */
  async function candidates(room: Room): Promise<store.WaitingWebhook[]> {
    const found: store.WaitingWebhook[] = []
    let hasWrapped = position === lowestId
    for (let after = position; found.length < room.jobs; ) {
      const page = await store.listWaiting(control, { after, limit: lookAt, most: 2 * maxBatch })
      for (const waiting of page) {
        if (hasWrapped && position !== lowestId && waiting.webhook_id > position) return found
        const { webhook_id: id, project_id: project, due } = waiting
        const isOpen = project !== null && room.places.get(project) !== 0
        if (isOpen && due > 0 && lanes.free(id, project) > 0) found.push(waiting)
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

  async function claim(room: Room): Promise<Batch[]> {
    const reserved = reserve(await candidates(room), room)
    const unused = new Map([...reserved].map(([id, { places }]) => [id, places]))
    try {
      if (reserved.size === 0) return []
      const wanted = [...reserved].map(([id, { places }]) => ({ webhook_id: id, count: places * maxBatch }))
      const claimed = await store.claimDue(control, wanted, lease.seconds)
      return claimed.flatMap(({ target, deliveries }) => {
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

  const retrySeconds = (tries: number) => ((retryBaseMs * 2 ** tries) / 1000) * (0.8 + 0.4 * Math.random())

  async function deliver({ target, deliveries }: Batch, signal: AbortSignal): Promise<Outcome> {
    const outcome: Outcome = { delivered: [], failed: [], dead: [], released: [], laneResult: 'unused' }
    const endAt = performance.now() + batchMs
    const receiver = { url: target.url, sign: signWith(sealer, target) }
    for (const [index, delivery] of deliveries.entries()) {
      const { kind, attempt } = await attemptDelivery(deps, receiver, delivery, signal)
      if (kind === 'delivered') {
        outcome.delivered.push({ id: delivery.id, attempt })
        outcome.laneResult = 'answered'
        if (performance.now() < endAt && !signal.aborted) continue
      } else if (kind === 'cancelled') outcome.released.push(delivery.id)
      else {
        outcome.laneResult = kind
        if (delivery.tries + 1 >= maxAttempts) outcome.dead.push({ id: delivery.id, attempt })
        else outcome.failed.push({ id: delivery.id, attempt, retry_seconds: retrySeconds(delivery.tries) })
      }
      outcome.released.push(...deliveries.slice(index + 1).map(({ id }) => id))
      break
    }
    return outcome
  }

  async function act(batch: Batch, signal: AbortSignal): Promise<Outcome> {
    let laneResult: LaneResult = 'failed'
    try {
      const outcome = await deliver(batch, signal)
      laneResult = outcome.laneResult
      return outcome
    } finally {
      lanes.end(batch.target.id, laneResult)
    }
  }

  return startWorker<Batch, Outcome>(
    {
      name: 'webhooks',
      bounds: { all: maxConcurrent, perProject },
      pollMs: 10_000,
      graceMs: 2000,
      claim,
      nextDueMs: full => store.findNextDueMs(control, full),
      act,
      async record({ target }, outcome) {
        await store.recordBatch(control, target.id, outcome)
        if (outcome.delivered.length === 0 && outcome.failed.length + outcome.dead.length > 0)
          await deps.failing(target)
      },
      lease: {
        everyMs: lease.extendMs,
        extend: batches =>
          store.extendLeases(
            control,
            batches.map(({ target, deliveries }) => ({
              webhookId: target.id,
              ids: deliveries.map(({ id }) => id),
            })),
            lease.seconds,
          ),
      },
    },
    log,
  )
}
