// Usage of projects. Requests are counted in memory and written to the control database about twice a second, in one
// statement for all projects. A crash loses the counts since then; a clean stop writes them.
import { randomUUID } from 'node:crypto'
import { type UsageBucket, type UsageQuery, usageLimits } from '@plinth/contract/usage.ts'
import { startChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { dayMs, fillBuckets } from './buckets.ts'
import { type Batch, type Counters, createCounters, hourMs } from './counters.ts'
import * as store from './store.ts'

export interface UsageDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  log: Log
  /** The pause between two writes. */
  flushMs?: number
}

export interface UsageService extends Pick<Counters, 'countAnswer' | 'countInvocation'> {
  read(projectId: string, query: UsageQuery): Promise<UsageBucket[]>
  /** Writes all counts. Called again after a failure, it counts nothing twice. */
  flush(): Promise<void>
  rollUp(): Promise<void>
  sampleStorage(): Promise<void>
  close(): Promise<void>
}

const usualFlushMs = 400
const sampleEveryMs = 60_000
const rollUpEveryMs = dayMs
const hourlyDays = 90

export function usageService({ control, owner, log, flushMs = usualFlushMs }: UsageDeps): UsageService {
  const node = randomUUID()
  const counters = createCounters()
  let flushing: Promise<void> | undefined

  async function writeFrom(first: Batch | undefined): Promise<void> {
    for (let batch = first; batch; batch = counters.waitingBatch()) {
      await store.insertBatch(control, node, batch)
      counters.batchDone()
    }
  }

  async function writeBatches(): Promise<void> {
    // Batches of an earlier failure first. What is counted meanwhile waits for the next call.
    await writeFrom(counters.waitingBatch())
    await writeFrom(counters.nextBatch())
    const lost = counters.takeLost()
    if (lost > 0) log.error({ requests: lost }, 'usage was not counted, because it could not be written')
  }

  /** Batches are written in order, because a node stores only the number of its last one. */
  async function flush(): Promise<void> {
    await flushing?.catch(() => {})
    flushing ??= writeBatches().finally(() => {
      flushing = undefined
    })
    await flushing
  }

  async function rollUp(): Promise<void> {
    while ((await store.rollUp(control, daysBefore())) > 0);
    await store.forgetNodes(control)
  }

  const sampleStorage = () => store.sampleStorage(control, new Date(Math.floor(Date.now() / hourMs) * hourMs))

  const chores = [
    startChore({ name: 'write the usage of projects', everyMs: flushMs, run: flush }, log),
    startChore({ name: 'measure stored files', everyMs: sampleEveryMs, run: sampleStorage }, log),
    startChore(
      { name: 'roll up the usage of projects', everyMs: rollUpEveryMs, runsAtStart: true, run: rollUp },
      log,
    ),
  ]

  return {
    countAnswer: counters.countAnswer,
    countInvocation: counters.countInvocation,
    async read(projectId, query) {
      const { id } = await owner.tenant(projectId)
      const from = timeOf('from', query.from) ?? Number.NEGATIVE_INFINITY
      const asked = timeOf('to', query.to) ?? Number.POSITIVE_INFINITY
      if (from > asked) throw new Refusal('invalid_request', '"from" must not be after "to"')
      // A bucket of the current hour starts before now.
      const to = Math.min(asked, Date.now() + 1)
      const limit = Math.min(query.limit ?? usageLimits.usual, usageLimits.most)
      const days = daysBefore()
      const rows = await store.listRows(control, id, { to: new Date(to), daysBefore: days, limit: limit + 1 })
      return fillBuckets(rows.map(toBucket), { from, to, daysBefore: days.getTime(), limit })
    },
    flush,
    rollUp,
    sampleStorage,
    async close() {
      await Promise.all(chores.map(chore => chore.stop()))
      await flush().catch(error => log.error({ err: error }, 'the last counts of usage could not be written'))
    },
  }
}

/** The midnight before which buckets are days. */
const daysBefore = () => new Date((Math.floor(Date.now() / dayMs) - hourlyDays) * dayMs)

/** The schema accepts leap seconds, which JavaScript does not. */
function timeOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return
  const time = Date.parse(text)
  if (Number.isNaN(time))
    throw new Refusal('invalid_request', `"${name}" must be a time such as 2026-01-31T12:00:00Z`)
  return time
}

const toBucket = ({ bucket_start, ...counts }: store.UsageRow): UsageBucket => ({
  bucket_start,
  requests: Number(counts.requests),
  bytes_in: Number(counts.bytes_in),
  bytes_out: Number(counts.bytes_out),
  function_invocations: Number(counts.function_invocations),
  storage_bytes: Number(counts.storage_bytes),
})
