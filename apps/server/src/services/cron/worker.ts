// Takes the ticks that are due and runs their jobs. Any number of nodes may do so: a tick is taken in one transaction
// that moves the job on, so each runs once at most; what a node that died was running is recorded failed by another.
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { type Outcome, runJob } from './run.ts'
import { parseSchedule } from './schedule.ts'
import * as store from './store.ts'
import { verdictOn } from './tick.ts'

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
}

/** One project's slow jobs must not hold up those of the others. */
const atOnce = { all: 40, perProject: 3 }
const pollMs = 10_000
const graceMs = 2000
const lease = { seconds: 30, extendMs: 10_000 }
/** As many as the routes show. */
const keptRuns = 100
/** A clock set back by less is waited for: the ticks it goes through again have run already. */
const repeatedMs = 3 * 3_600_000
const jumpMs = 60_000

export async function startCronWorker(deps: CronWorkerDeps): Promise<Worker> {
  const { control, directory, databases, timeoutMs, log } = deps
  const startedAt = await store.clock(control)
  const running = new Map<string, Running>()
  const extending = setInterval(() => void extend(), lease.extendMs).unref()
  let seen = { wall: startedAt.getTime(), steady: performance.now() }
  await straighten()

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

  /** One tick: its run, `later` when it was not to be run, or nothing when none is due. */
  const take = (): Promise<Running | 'later' | undefined> =>
    control.transaction(async session => {
      const due = await store.findDue(session, busyProjects())
      if (!due) return
      const next = parseSchedule(due.schedule).next(new Date(due.now), new Date(due.next_run_at))
      await store.moveOn(session, due.id, next ?? never)
      const verdict = verdictOn(due, startedAt)
      if (verdict.kind === 'drop') return 'later'
      if (verdict.kind === 'skip') {
        await store.insertSkipped(session, due, verdict.why)
        return 'later'
      }
      return { run: (await store.insertRunning(session, due, lease.seconds))!.id, job: due }
    })

  /** A clock that was wrong by far, and was put right, would keep jobs waiting for the wrong day. */
  async function straighten(): Promise<void> {
    for (const { id, schedule, next_run_at, now } of await store.listTicks(control)) {
      const { next } = parseSchedule(schedule)
      const tick = new Date(next_run_at)
      const latest = next(new Date(Date.parse(now) + repeatedMs))
      if (latest && tick > latest) await store.setTick(control, id, next_run_at, next(new Date(now)) ?? never)
    }
  }

  async function watchClock(): Promise<void> {
    const wall = (await store.clock(control)).getTime()
    const expected = seen.wall + performance.now() - seen.steady
    seen = { wall, steady: performance.now() }
    if (wall < expected - jumpMs) await straighten()
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
        await watchClock()
        return store.findNextDueMs(control, busyProjects())
      },
      async act({ run, job }, stop) {
        const tenant = await directory.find(job.project_id)
        if (tenant?.status !== 'active') return { status: 'failed', message: 'the project was suspended' }
        return runJob(tenant, job.command, stop, {
          databases,
          timeoutMs,
          noteBackend: pid => store.noteBackend(control, run, pid),
          endBackend: () => store.endBackend(control, run),
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
  return {
    wake: worker.wake,
    async close() {
      await worker.close()
      clearInterval(extending)
    },
  }
}

/** For a schedule whose last tick has come. */
const never = new Date(8.64e15 / 4)
