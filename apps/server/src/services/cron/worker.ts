// Claims due ticks and runs their jobs, on any number of nodes. One transaction claims a tick and sets the next one, so each
// tick runs at most once. Another node records the runs of a crashed node as failed.
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Job, Room } from '#src/kernel/worker-slots.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { watchClock } from './clock.ts'
import { type Outcome, runJob } from './run.ts'
import * as store from './store.ts'
import { decideTick, tickAfter } from './tick.ts'

export interface CronWorkerDeps {
  control: Database
  directory: Directory
  databases: Databases
  timeoutMs: number
  log: Log
}

/** `id` is the id of the run. */
interface ClaimedRun extends Job {
  job: store.DueJob
}

/** One project's slow jobs must not delay those of the others. */
const bounds = { all: 40, perProject: 3 }
const pollMs = 10_000
const graceMs = 2000
const lease = { seconds: 30, extendMs: 10_000 }
/** As many runs as the routes return. */
const keptRuns = 100

export async function startCronWorker(deps: CronWorkerDeps): Promise<Worker> {
  const { control, directory, databases, timeoutMs, log } = deps
  const clock = await watchClock(control, lease.seconds)

  /** Claims ticks. Those that must not run are recorded as skipped or dropped. */
  const claimTicks = (room: Room): Promise<{ runs: ClaimedRun[]; ticks: number }> =>
    control.transaction(async session => {
      const due = await store.lockDue(session, room)
      const judged = due.map(job => ({ job, decision: decideTick(job, clock.startedAt) }))
      const skipped = judged.flatMap(({ job, decision }) =>
        decision.kind === 'skip' ? [{ job, why: decision.why }] : [],
      )
      const claimed = judged.filter(({ decision }) => decision.kind === 'run').map(({ job }) => job)
      if (due.length > 0)
        await store.setNextTicks(
          session,
          due.map(({ id, schedule, now, next_run_at }) => ({
            id,
            next: tickAfter(schedule, new Date(now), new Date(next_run_at)),
          })),
        )
      if (skipped.length > 0) await store.insertSkipped(session, skipped)
      for (const { job } of skipped) await store.deleteRunsBeyond(session, job.id, keptRuns)
      const ids = claimed.length > 0 ? await store.insertRunning(session, claimed, lease.seconds) : []
      const runOf = new Map(ids.map(({ id, job_id }) => [job_id, id]))
      return {
        ticks: due.length,
        runs: claimed.map(job => ({ id: runOf.get(job.id)!, project_id: job.project_id, job })),
      }
    })

  async function claim(room: Room): Promise<ClaimedRun[]> {
    const abandoned = await store.failAbandoned(control, 'the platform stopped while it ran')
    if (abandoned.length > 0)
      log.warn({ runs: abandoned.length }, 'recorded runs of a crashed node as failed')
    for (;;) {
      const { runs, ticks } = await claimTicks(room)
      // If all claimed ticks were skipped or dropped, further ticks may be due.
      if (runs.length > 0 || ticks === 0) return runs
    }
  }

  const findTenant = async (id: string): Promise<Tenant | undefined | Error> => {
    try {
      return await directory.find(id)
    } catch (error) {
      return error as Error
    }
  }

  const worker = startWorker<ClaimedRun, Outcome>(
    {
      name: 'cron',
      bounds,
      pollMs,
      graceMs,
      claim,
      async nextDueMs(fullProjects) {
        await clock.check()
        return store.findNextDueMs(control, fullProjects)
      },
      async act({ id, job }, signal) {
        // Record an unexpected error as the outcome. The run would otherwise stay in status running.
        const tenant = await findTenant(job.project_id)
        if (tenant instanceof Error) return { status: 'failed', message: tenant.message }
        if (tenant?.status !== 'active') return { status: 'failed', message: suspended }
        return runJob(tenant, job.command, signal, {
          databases,
          timeoutMs,
          saveBackend: pid => store.saveBackend(control, id, pid),
          endBackend: backend => store.endBackend(control, backend),
        })
      },
      async record({ id, job }, { status, message }) {
        await store.finishRun(control, id, status, message)
        await store.deleteRunsBeyond(control, job.id, keptRuns)
      },
      lease: {
        everyMs: lease.extendMs,
        extend: runs =>
          store.extendLeases(
            control,
            runs.map(({ id }) => id),
            lease.seconds,
          ),
      },
    },
    log,
  )

  async function abortUnserved(projectId: string): Promise<void> {
    if (!worker.hasJobsOf(projectId)) return
    const tenant = await findTenant(projectId)
    if (tenant instanceof Error || tenant?.status === 'active') return
    worker.abort(projectId, suspended)
  }

  // Wake the worker for a resumed project, and stop the runs of a suspended one.
  directory.onChange(id => {
    worker.wake()
    void abortUnserved(id)
  })
  return worker
}

const suspended = 'the project was suspended'
