// The loop behind every queue: claim jobs under a lease, run them, record their outcomes. Any number of nodes may run
// it, as long as a claim is exclusive (`for update skip locked`) and its lease expires. If a process dies between claim
// and record, another node claims the job after the lease.
import { startChore } from './chores.ts'
import type { Log } from './log.ts'
import { type Bounds, createSlots, type Job, type Room } from './worker-slots.ts'

export interface Work<J extends Job, Outcome> {
  /** For the log. */
  name: string
  bounds: Bounds
  /**
   * Claims due jobs within the given room. A result of fewer than `room.jobs` means that no further due job fits into the
   * room.
   */
  claim(room: Room): Promise<J[]>
  /** Milliseconds until the next job is due, not counting jobs of the given projects. */
  nextDueMs(fullProjects: readonly string[]): Promise<number | undefined>
  /** Runs the job. A failure is an outcome too. The signal aborts when the platform stops, or by `Worker.abort`. */
  act(job: J, signal: AbortSignal): Promise<Outcome>
  /** Stores the outcome. Called again if it fails. */
  record(job: J, outcome: Outcome): Promise<void>
  /** For jobs that may outlast their lease. */
  lease?: { everyMs: number; extend(jobs: readonly J[]): Promise<unknown> }
  /** The longest pause between two claims. Jobs that this process adds are announced by `wake`. */
  pollMs: number
  /** How long running jobs may take to end when the platform stops. */
  graceMs: number
}

export interface Worker {
  /** Claims jobs now. */
  wake(): void
  hasJobsOf(projectId: string): boolean
  /** How many jobs run, and how many may run at once. */
  use(): { running: number; slots: number }
  /** Aborts the running jobs of a project. */
  abort(projectId: string, reason: unknown): void
  close(): Promise<void>
}

const backOff = { firstMs: 500, longestMs: 30_000 }
/** How often one round of claims hands on places that slow projects did not use. The next round continues. */
const mostHandedOn = 8
/** A due job that cannot be claimed, because another node is claiming it, must not make the worker poll continuously. */
const shortestPauseMs = 250

export function startWorker<J extends Job, Outcome>(work: Work<J, Outcome>, log: Log): Worker {
  const slots = createSlots(work.bounds)
  const running = new Map<J, { ended: Promise<void>; abort: AbortController }>()
  /** Projects that claim no further jobs until the others had their turn, because more jobs were due than slots free. */
  const hadTurn = new Set<string>()
  const stop = new AbortController()
  let isClosed = false
  let filling: Promise<void> | undefined
  let isWoken = false
  let failurePauseMs = 0
  let timer: NodeJS.Timeout | undefined

  const leases =
    work.lease &&
    startChore(
      {
        name: `${work.name}: extend leases`,
        everyMs: work.lease.everyMs,
        run: () => running.size > 0 && work.lease!.extend([...running.keys()]),
      },
      log,
    )

  function wake(): void {
    clearTimeout(timer)
    // A job added during a claim may have been missed by it.
    if (filling) isWoken = true
    else if (!isClosed) filling = fill().then(pauseMs => pause(pauseMs))
  }

  function pause(pauseMs: number): void {
    filling = undefined
    if (isClosed) return
    if (isWoken && failurePauseMs === 0) wake()
    else timer = setTimeout(wake, pauseMs).unref()
  }

  function roomNow(): Room {
    const room = slots.room()
    return { ...room, places: new Map([...room.places, ...[...hadTurn].map(id => [id, 0] as const)]) }
  }

  /** Whether another claim of the round may find more: of projects that had their turn, or of slow ones that were not asked. */
  function claimingAgain(): () => boolean {
    const asked = new Set<string>()
    let times = 0
    return () => {
      if (hadTurn.size === 0) return times++ < mostHandedOn && slots.handOn(asked)
      hadTurn.clear()
      return true
    }
  }

  /** Claims while there is room, and returns how long to wait. A job that ends wakes the worker. */
  async function fill(): Promise<number> {
    isWoken = false
    const mayFindMore = claimingAgain()
    try {
      for (let room = roomNow(); !isClosed && room.jobs > 0; room = roomNow()) {
        const jobs = await work.claim(room)
        failurePauseMs = 0
        for (const job of jobs) start(job)
        if (jobs.length === room.jobs) for (const { project_id } of jobs) hadTurn.add(project_id)
        else if (!mayFindMore()) return await pauseUntilDue()
      }
      return Math.min(work.pollMs, slots.nextChangeMs())
    } catch (error) {
      if (failurePauseMs === 0) log.warn({ err: error, worker: work.name }, 'cannot claim jobs; trying again')
      failurePauseMs = Math.min(backOff.longestMs, failurePauseMs * 2 || backOff.firstMs)
      return failurePauseMs
    }
  }

  async function pauseUntilDue(): Promise<number> {
    const full = [...slots.room().places].filter(([, places]) => places === 0).map(([id]) => id)
    const dueMs = (await work.nextDueMs(full)) ?? work.pollMs
    return Math.min(work.pollMs, slots.nextChangeMs(), Math.max(shortestPauseMs, dueMs))
  }

  function start(job: J): void {
    slots.start(job)
    const abort = new AbortController()
    const ended = run(job, abort.signal).finally(() => {
      running.delete(job)
      wake()
    })
    running.set(job, { ended, abort })
  }

  async function run(job: J, signal: AbortSignal): Promise<void> {
    let outcome: Outcome
    try {
      outcome = await work.act(job, signal)
    } catch (error) {
      // The job is retried when its lease expires.
      log.error({ err: error, worker: work.name, project: job.project_id }, 'unexpected error in job')
      return
    } finally {
      slots.end(job)
    }
    await record(job, outcome)
  }

  /** If recording the outcome fails, the job would run again, so this retries until the database is back. */
  async function record(job: J, outcome: Outcome): Promise<void> {
    for (let waitMs = backOff.firstMs; ; waitMs = Math.min(backOff.longestMs, waitMs * 2))
      try {
        return await work.record(job, outcome)
      } catch (error) {
        log.warn({ err: error, worker: work.name }, 'cannot record the outcome of a job; trying again')
        if (stop.signal.aborted || !(await sleepUnlessAborted(waitMs, stop.signal))) return
      }
  }

  wake()
  return {
    wake,
    hasJobsOf: projectId => running.keys().some(({ project_id }) => project_id === projectId),
    use: () => ({ running: running.size, slots: work.bounds.all }),
    abort(projectId, reason) {
      for (const [job, { abort }] of running) if (job.project_id === projectId) abort.abort(reason)
    },
    async close() {
      isClosed = true
      clearTimeout(timer)
      await filling
      const grace = setTimeout(() => {
        stop.abort()
        for (const { abort } of running.values()) abort.abort()
      }, work.graceMs)
      await Promise.all([...running.values()].map(({ ended }) => ended))
      clearTimeout(grace)
      await leases?.stop()
    },
  }
}

/** Resolves to false if the signal aborts first. */
function sleepUnlessAborted(ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    const onAbort = () => {
      clearTimeout(timer)
      resolve(false)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort)
      resolve(true)
    }, ms)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
