// Counts of this process that are not in the control database yet, by project and hour. They leave it in numbered batches,
// so that a batch whose commit was not acknowledged can be sent again without counting twice.
import type { Answered } from '#src/kernel/http/observation.ts'

export const hourMs = 3_600_000

export interface Count {
  readonly project: string
  readonly hour: number
  requests: number
  bytesIn: number
  bytesOut: number
  invocations: number
}

export interface Batch {
  readonly number: number
  readonly counts: readonly Count[]
}

export interface Counters {
  countAnswer(answer: Pick<Answered, 'project' | 'route' | 'bytesIn' | 'bytesOut'>): void
  countInvocation(project: string): void
  /** The oldest batch that is not done. Without one, the counts since the last batch become one. */
  nextBatch(): Batch | undefined
  /** The oldest batch that is not done. */
  waitingBatch(): Batch | undefined
  batchDone(): void
  /** Requests that were not counted because too many counts waited, since the last call. */
  takeLost(): number
}

interface Options {
  /** Counts in memory. A count is of one project and one hour. */
  maxCounts?: number
  maxBatch?: number
  now?: () => number
}

export function createCounters({
  maxCounts = 50_000,
  maxBatch = 2000,
  now = Date.now,
}: Options = {}): Counters {
  let hour = 0
  let current = new Map<string, Count>()
  /** Counts of hours that have ended. */
  let ended: Count[] = []
  const batches: Batch[] = []
  let held = 0
  let lastNumber = 0
  let lost = 0

  function find(project: string): Count | undefined {
    const hourNow = Math.floor(now() / hourMs)
    if (hourNow !== hour) startHour(hourNow)
    const known = current.get(project)
    if (known) return known
    if (held >= maxCounts) return
    const created = { project, hour, requests: 0, bytesIn: 0, bytesOut: 0, invocations: 0 }
    current.set(project, created)
    held++
    return created
  }

  function startHour(next: number): void {
    ended = [...ended, ...current.values()]
    current = new Map()
    hour = next
  }

  return {
    countAnswer({ project, route, bytesIn, bytesOut }) {
      if (project === undefined || !isDataRoute(route)) return
      const count = find(project)
      if (!count) return void lost++
      count.requests++
      count.bytesIn += bytesIn
      count.bytesOut += bytesOut
    },
    countInvocation(project) {
      const count = find(project)
      if (count) count.invocations++
    },
    nextBatch() {
      if (batches.length > 0) return batches[0]
      const counts = [...ended, ...current.values()]
      ended = []
      current = new Map()
      for (let at = 0; at < counts.length; at += maxBatch)
        batches.push({ number: ++lastNumber, counts: counts.slice(at, at + maxBatch) })
      return batches[0]
    },
    waitingBatch: () => batches[0],
    batchDone() {
      held -= batches.shift()!.counts.length
    },
    takeLost() {
      const taken = lost
      lost = 0
      return taken
    },
  }
}

/** Routes of the management plane can name a project as well. */
const isDataRoute = (route: string) => route.startsWith('/v1/')
