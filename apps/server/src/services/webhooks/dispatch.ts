// Delivers what waits in the queue, at least once. A job of the worker is a batch of deliveries to one webhook, which are
// sent one after the other. A batch ends early at the first failure and after a second, so that webhooks take turns.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import { type AttemptDeps, attemptDelivery } from './attempt.ts'
import { type Batch, createClaim, leaseSeconds } from './claim.ts'
import type { Handover } from './handover.ts'
import { createLanes, type LaneResult } from './lanes.ts'
import * as store from './queue-store.ts'
import { signWith } from './secrets.ts'

export interface DispatchDeps extends AttemptDeps {
  control: Database
  sealer: Sealer
  handover: Handover
  maxConcurrent: number
  /** Attempts before a delivery becomes a dead letter. */
  maxAttempts: number
  retryBaseMs: number
  /** Called after a failure of a webhook that has been failing for the given time. */
  failing(target: store.ClaimedTarget): Promise<void>
}

type Outcome = store.BatchOutcome & { laneResult: LaneResult }

const batchMs = 1000
const extendMs = 10_000

export function startDispatch(deps: DispatchDeps): Worker {
  const { control, sealer, handover, maxConcurrent, maxAttempts, retryBaseMs, log } = deps
  // No project can take all places from the others.
  const perProject = Math.max(1, Math.ceil(maxConcurrent * 0.8))
  const lanes = createLanes({ all: maxConcurrent, perProject })
  const claim = createClaim({ control, handover, lanes })
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
        // They wait in the queue, so that a failing endpoint takes no memory.
        outcome.released.push(...handover.take(target.id, Number.POSITIVE_INFINITY).map(({ id }) => id))
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
          // Not part of the record, which would be repeated. The next failure tries again.
          await deps
            .failing(target)
            .catch(error => log.warn({ err: error, webhook: target.id }, 'cannot switch off a webhook'))
      },
      lease: {
        everyMs: extendMs,
        extend: batches =>
          store.extendLeases(
            control,
            [
              ...batches.map(({ target, deliveries }) => ({
                webhookId: target.id,
                ids: deliveries.map(({ id }) => id),
              })),
              ...handover.ids(),
            ],
            leaseSeconds,
          ),
      },
    },
    log,
  )
}
