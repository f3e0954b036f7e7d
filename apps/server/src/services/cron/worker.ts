// Takes the ticks that are due and runs their jobs. Any number of nodes may do so: a tick is taken in one transaction
// that moves the job on, so each runs once at most; what a node that died was running is recorded failed by another.
import type { Log } from '#src/kernel/log.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { watchClock } from './clock.ts'
import { type Outcome, runJob } from './run.ts'
import * as store from './store.ts'
import { tickAfter, verdictOn } from './tick.ts'

interface CronWorkerDeps {
  control: Database
  directory: Directory
  databases: Databases
  timeoutMs: number
  log: Log
}

interface Running {
  run: string
  job: store.DueJob
  ended: AbortController
}

/** One project's slow jobs must not hold up those of the others. */
const atOnce = { all: 40, perProject: 3 }
const pollMs = 10_000
const graceMs = 2000
const lease = { seconds: 30, extendMs: 10_000 }
/** As many as the routes show. */
const keptRuns = 100

export async function startCronWorker(deps: CronWorkerDeps): Promise<Worker> {
  const { control, directory, databases, timeoutMs, log } = deps
  const clock = await watchClock(control, lease.seconds)
  const running = new Map<string, Running>()
  const hadTurn = new Set<string>()
  const extending = setInterval(() => void extend(), lease.extendMs).unref()

  function busyProjects(): string[] {
    const counts = new Map<string, number>()
    for (const { job } of running.values()) counts.set(job.project_id, (counts.get(job.project_id) ?? 0) + 1)
    return [...counts].filter(([, count]) => count >= atOnce.perProject).map(([id]) => id)
  }

  async function extend(): Promise<void> {
    if (running.size === 0) return
    await store
      .extendLeases(control, [...running.keys()], lease.seconds)
      .catch(error => log.warn({ err: error }, 'leases of running jobs could not be extended'))
  }

  /** Projects take turns, however much of one is overdue: those that had theirs wait for the others. */
  async function findDue(session: Session): Promise<store.DueJob | undefined> {
    const busy = busyProjects()
    let due = await store.findDue(session, [...busy, ...hadTurn])
    if (!due && hadTurn.size > 0) {
      hadTurn.clear()
      due = await store.findDue(session, busy)
    }
    if (due) hadTurn.add(due.project_id)
    return due
  }

  /** One tick: its run, `later` when it was not to be run, or nothing when none is due. */
  const take = (): Promise<Running | 'later' | undefined> =>
    control.transaction(async session => {
      const due = await findDue(session)
      if (!due) return
      const next = tickAfter(due.schedule, new Date(due.now), new Date(due.next_run_at))
      await store.moveOn(session, due.id, next)
      const verdict = verdictOn(due, clock.startedAt)
      if (verdict.kind === 'drop') return 'later'
      if (verdict.kind === 'skip') {
        await store.insertSkipped(session, due, verdict.why)
        await store.forgetRunsBeyond(session, due.id, keptRuns)
        return 'later'
      }
      const { id: run } = (await store.insertRunning(session, due, lease.seconds))!
      return { run, job: due, ended: new AbortController() }
    })

  const findTenant = async (id: string): Promise<Tenant | undefined | Error> => {
    try {
      return await directory.find(id)
    } catch (error) {
      return error as Error
    }
  }

  async function endRunsOf(projectId: string): Promise<void> {
    const ofProject = [...running.values()].filter(({ job }) => job.project_id === projectId)
    if (ofProject.length === 0) return
    const tenant = await findTenant(projectId)
    if (tenant instanceof Error || tenant?.status === 'active') return
    for (const { ended } of ofProject) ended.abort(suspended)
  }

  const worker = startWorker<Running, Outcome>(
    {
      name: 'cron',
      atOnce: atOnce.all,
      pollMs,
      graceMs,
      async claim() {
        const abandoned = await store.failAbandoned(control, 'the platform stopped while it ran')
        if (abandoned.length > 0)
          log.warn({ runs: abandoned.length }, 'jobs of a node that died are recorded failed')
        for (;;) {
          const taken = await take()
          if (taken === 'later') continue
          if (taken) running.set(taken.run, taken)
          return taken
        }
      },
      async nextDueMs() {
        await clock.look()
        return store.findNextDueMs(control, busyProjects())
      },
      async act({ run, job, ended }, stop) {
        // An error here is an outcome, too: a run that is not recorded would be running for ever.
        const tenant = await findTenant(job.project_id)
        if (tenant instanceof Error) return { status: 'failed', message: tenant.message }
        if (tenant?.status !== 'active') return { status: 'failed', message: suspended }
        return runJob(tenant, job.command, AbortSignal.any([stop, ended.signal]), {
          databases,
          timeoutMs,
          noteBackend: pid => store.noteBackend(control, run, pid),
          endBackend: backend => store.endBackend(control, backend),
        })
      },
      async record({ run, job }, { status, message }) {
        await store.finishRun(control, run, status, message)
        running.delete(run)
        await store.forgetRunsBeyond(control, job.id, keptRuns)
      },
    },
    log,
  )
  // A project that is resumed has ticks again, and one that is suspended is not to run any longer.
  directory.onChange(id => {
    worker.wake()
    void endRunsOf(id)
  })
  return {
    wake: worker.wake,
    async close() {
      await worker.close()
      clearInterval(extending)
    },
  }
}

const suspended = 'the project was suspended'
