// Prepares recovered copies of projects, and puts them in the place of the project when the operator has said so on the
// host. If the platform is killed, the job is begun again.
import type { PitrStatus } from '@plinth/contract/pitr.ts'
import { readArchive } from '#src/archive/archive.ts'
import { createTaskLeases, hasRestarted, leaseSeconds, pauseSeconds } from '#src/archive/task-leases-store.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Room } from '#src/kernel/worker-slots.ts'
import { recoveredOf } from '#src/tenancy/provision.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { type PrepareDeps, type Prepared, prepareCopy } from './prepare.ts'
import { reasonOf } from './reason.ts'
import { aboveReserve } from './space.ts'
import * as store from './store.ts'

export interface PitrWorkerDeps extends PrepareDeps {
  spaceCheck: SpaceCheck
  log: Log
}

type Outcome =
  | { kind: 'stopped' }
  | { kind: 'interrupted' }
  | { kind: 'prepared'; prepared: Prepared }
  | { kind: 'cut over' }
  | { kind: 'failed'; problem: string }

/**
 * A tenant's own functions run while its copy is restored, and may take long. Such projects share half of the places, so that two of
 * them do not keep all others waiting.
 */
export const bounds = {
  all: 4,
  perProject: 1,
  slow: { afterMs: 60_000, forMs: 3_600_000, prompt: 2, shared: 2, perProject: 1 },
}
/** The command line on the host requests a cutover in the database. */
const pollMs = 1000
const maxAttempts = 3
/** Functions of the project run while it is restored, and may take long. */
const longestMs = 6 * 3_600_000
/** How long a prepared copy waits for the cutover. */
export const keepDays = 7

export interface PitrWorkers {
  preparing: Worker
  /** Of their own, so that the cutover of the operator never waits for copies of other projects. */
  cutovers: Worker
}

export function startPitrWorkers(deps: PitrWorkerDeps): PitrWorkers {
  const { control, log } = deps
  const { watching, forget, lease } = createTaskLeases(control, 'pitr_jobs')

  async function cutOver(job: store.Job, signal: AbortSignal): Promise<void> {
    const project = await store.findProject(control, job.project_id)
    if (!project || !job.manifest || !job.restore_id || !job.before_backup_id)
      throw new Error('the project was deleted')
    const { attempt } = job.manifest
    const name = { project: project.id, backup: job.id, attempt }
    const archive = await readArchive(deps.copies, deps.deriveKey, name, job.manifest)
    const replacement = {
      projectId: project.id,
      database: recoveredOf(project.ref),
      archive,
      restoreId: job.restore_id,
      sourceId: job.id,
      beforeId: job.before_backup_id,
      attempt: job.attempts,
      async record(session: Session) {
        await store.recordCutOver(session, job)
        await store.insertAudit(session, 'pitr.cut_over', job.id, job.project_id)
      },
    }
    await deps.backups.replace(replacement, watching(job, signal))
    await deps.copies.removeFolder(project.id).catch(() => {})
  }

  async function run(job: store.Job, signal: AbortSignal): Promise<Outcome> {
    if (job.attempts > maxAttempts) throw new Error(`the platform stopped ${maxAttempts} times meanwhile`)
    if (job.status === 'cutting_over') {
      await cutOver(job, signal)
      return { kind: 'cut over' }
    }
    const prepare = (within: AbortSignal) => prepareCopy(deps, job, watching(job, within))
    return { kind: 'prepared', prepared: await aboveReserve(deps.spaceCheck, signal, prepare) }
  }

  /** Not every error of a database that has ended says so: a restore names the object that it was creating. */
  const isInterruption = async ({ claimed_at: since }: store.Job, error: unknown): Promise<boolean> =>
    isOutage(error) || hasRestarted(control, since).catch(isOutage)

  async function act(job: store.Job, signal: AbortSignal): Promise<Outcome> {
    try {
      return await run(job, AbortSignal.any([signal, AbortSignal.timeout(longestMs)]))
    } catch (error) {
      // The platform stops. The job is begun again at the next start.
      if (signal.aborted) return { kind: 'stopped' }
      if (job.attempts < maxAttempts && (await isInterruption(job, error))) {
        log.warn({ err: error, job: job.id }, 'the database ended during a recovery to a time; trying again')
        return { kind: 'interrupted' }
      }
      log.error({ err: error, project: job.project_id, job: job.id }, 'a recovery to a time failed')
      return { kind: 'failed', problem: reasonOf(error) }
    } finally {
      forget(job)
    }
  }

  async function record(job: store.Job, outcome: Outcome): Promise<void> {
    if (outcome.kind === 'stopped') return void (await store.releaseJob(control, job))
    if (outcome.kind === 'interrupted') return void (await store.postponeJob(control, job, pauseSeconds))
    const isCutover = job.status === 'cutting_over'
    // It is recorded in the transaction that exchanges the databases.
    if (outcome.kind === 'cut over') return
    const audit = (session: Session, action: string) =>
      store.insertAudit(session, `pitr.${action}`, job.id, job.project_id)
    if (isCutover && outcome.kind === 'failed') await deps.backups.giveUp(job.restore_id!, outcome.problem)
    await control.transaction(async session => {
      if (outcome.kind === 'prepared')
        return (
          (await store.recordPrepared(session, job, outcome.prepared, keepDays)) && audit(session, 'prepared')
        )
      const recordProblem = isCutover ? store.recordNotCutOver : store.recordFailed
      return (
        (await recordProblem(session, job, outcome.problem)) &&
        audit(session, isCutover ? 'not_cut_over' : 'not_prepared')
      )
    })
  }

  const start = (name: string, statuses: readonly PitrStatus[]) =>
    startWorker<store.Job, Outcome>(
      {
        name,
        bounds,
        pollMs,
        graceMs: 1000,
        claim: room =>
          store.claimJobs(control, { statuses, full: fullProjects(room), limit: room.jobs, leaseSeconds }),
        nextDueMs: full => store.nextDueMs(control, statuses, full),
        act,
        record,
        lease,
      },
      log,
    )

  return {
    preparing: start('pitr', ['pending', 'preparing']),
    cutovers: start('pitr cutovers', ['cutting_over']),
  }
}

const fullProjects = ({ places }: Room) => [...places].flatMap(([id, free]) => (free === 0 ? [id] : []))
