// Creates and resets branches. If a node dies, another one begins the task again.
import { createTaskLeases, hasRestarted, leaseSeconds } from '#src/archive/task-leases-store.ts'
import { startChore } from '#src/kernel/chores.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { tryFilesLock } from '#src/tenancy/files-lock.ts'
import { MadeElsewhere } from '#src/tenancy/project-making.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { type BranchDeps, createBranch, resetBranch } from './make-branch.ts'
import { reasonOf } from './reason.ts'
import * as store from './store.ts'
import { filesPauseSeconds } from './task-files.ts'

/** Without an error, the branch has its new state or was deleted, and both are recorded. */
type Outcome =
  | { kind: 'stopped' }
  /** Postgres has stopped. The task is begun again. */
  | { kind: 'interrupted' }
  | { kind: 'ended'; error?: string; hasFiles?: boolean }

/** Functions of tenants may take long while rows are restored. Such projects share one place. */
const bounds = {
  all: 3,
  perProject: 1,
  slow: { afterMs: 60_000, forMs: 3_600_000, prompt: 2, shared: 1, perProject: 1 },
}
const longestMs = 6 * 3_600_000
const noticeMs = 500
const maxAttempts = 3
/** Until a node that was interrupted releases its lock. */
const pauseSeconds = 2
const dropMs = 60_000
/** A service for files may hang, and other branches of the parent wait meanwhile. */
const filesMs = 60_000
/** What is left of these is removed later. */
const archiveMs = 3000

interface BranchWorkerDeps extends BranchDeps {
  spaceCheck: SpaceCheck
  changed(branchId: string): void
}

class NotWanted extends Error {}

export function startBranchWorker(deps: BranchWorkerDeps): Worker {
  const { control, cluster, pieces, provisioner, spaceCheck, log } = deps
  const { watching, forget, lease } = createTaskLeases(control, 'branch_tasks')

  /** A deletion of the branch waits for the lock. */
  const holdingLock = (id: string, work: () => Promise<void>) =>
    withClient(cluster.address, cluster.control, controlSettings, async session => {
      if (!(await store.tryLock(session, id))) throw new MadeElsewhere('another node works on the branch')
      if (!(await tryFilesLock(session, id))) throw new MadeElsewhere('files of the branch are being removed')
      await work()
    })

  /** Aborts with the platform, after the longest time, if the branch is deleted, and if the disk is nearly full. */
  async function whileWanted(
    task: store.Task,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const unwanted = new AbortController()
    const look = async () => {
      if (!(await store.isWanted(control, task))) unwanted.abort(new NotWanted('the branch was deleted'))
      const refusal = spaceCheck.refusal('disk')
      if (refusal) unwanted.abort(refusal)
    }
    await look()
    unwanted.signal.throwIfAborted()
    const chore = startChore({ name: 'notice a deletion', everyMs: noticeMs, run: look })
    try {
      await work(AbortSignal.any([signal, unwanted.signal, AbortSignal.timeout(longestMs)]))
    } catch (error) {
      throw unwanted.signal.aborted ? unwanted.signal.reason : error
    } finally {
      await chore.stop()
    }
  }

  async function run(task: store.Task, signal: AbortSignal): Promise<void> {
    const branch = await store.findTaskBranch(control, task.branch_id)
    if (!branch || !(await store.isWanted(control, task))) throw new NotWanted('the branch was deleted')
    if (task.attempts > maxAttempts)
      throw new Error(`the platform or its database stopped ${maxAttempts} times meanwhile`)
    const work = (within: AbortSignal) => {
      const watched = watching(task, within)
      return task.kind === 'create'
        ? createBranch(deps, task, branch, watched)
        : holdingLock(branch.id, () => resetBranch(deps, task, branch, watched))
    }
    await whileWanted(task, signal, work).finally(() => deps.changed(branch.id))
  }

  const removeFolder = (folder: string, signal: AbortSignal, withinMs: number) =>
    pieces.removeFolder(folder, AbortSignal.any([signal, AbortSignal.timeout(withinMs)]))

  /** What a failed attempt has left of a branch that is not served. */
  async function dropUnfinished({ branch_id: id, kind }: store.Task, signal: AbortSignal): Promise<void> {
    if (kind !== 'create') return
    const branch = await store.findTaskBranch(control, id)
    if (branch?.status !== 'creating') return
    await provisioner.drop(branch.ref, dropMs)
    await removeFolder(id, signal, filesMs).catch(error =>
      log.warn({ err: error, project: id }, 'could not remove the files of a failed branch'),
    )
  }

  async function attempt(task: store.Task, signal: AbortSignal): Promise<Outcome> {
    try {
      await run(task, signal)
      return { kind: 'ended' }
    } catch (error) {
      if (signal.aborted || error instanceof MadeElsewhere) return { kind: 'stopped' }
      if (isOutage(error)) return { kind: 'interrupted' }
      return outcomeOf(task, error, signal)
    }
  }

  async function outcomeOf(task: store.Task, error: unknown, signal: AbortSignal): Promise<Outcome> {
    try {
      if (await store.isElsewhere(control, task)) return { kind: 'stopped' }
      if (error instanceof NotWanted) return { kind: 'ended' }
      if (!(await store.isWanted(control, task))) {
        log.warn({ err: error, project: task.branch_id }, 'something failed after a branch was made')
        return { kind: 'ended' }
      }
      if (task.attempts <= maxAttempts && (await hasRestarted(control, task.claimed_at)))
        return { kind: 'interrupted' }
      log.error({ err: error, project: task.branch_id, task: task.kind }, 'a branch could not be made')
      await dropUnfinished(task, signal)
      return { kind: 'ended', error: reasonOf(error) }
    } catch (outage) {
      if (isOutage(outage)) return { kind: 'interrupted' }
      throw outage
    }
  }

  async function act(task: store.Task, signal: AbortSignal): Promise<Outcome> {
    const outcome = await attempt(task, signal).finally(() => forget(task))
    if (outcome.kind !== 'ended') return outcome
    try {
      await removeFolder(task.id, signal, archiveMs)
      return outcome
    } catch (error) {
      log.warn(
        { err: error, project: task.branch_id },
        'could not remove the archive of a branch; will retry',
      )
      return { ...outcome, hasFiles: true }
    }
  }

  const failures = { create: 'branch.not_made', reset: 'branch.not_reset' }

  async function record(task: store.Task, outcome: Outcome): Promise<void> {
    if (outcome.kind === 'stopped') return void (await store.releaseTask(control, task, pauseSeconds))
    if (outcome.kind === 'interrupted') return void (await store.postponeTask(control, task, pauseSeconds))
    const { error, hasFiles } = outcome
    await control.transaction(async session => {
      const isOurs = await (hasFiles
        ? store.keepForFiles(session, task, filesPauseSeconds)
        : store.deleteTask(session, task))
      if (!isOurs || error === undefined) return
      await store.insertAudit(session, failures[task.kind], task.branch_id, task.project_id)
      await store.recordFailed(session, task.branch_id, error)
    })
  }

  return startWorker<store.Task, Outcome>(
    {
      name: 'branches',
      bounds,
      pollMs: 10_000,
      graceMs: 1000,
      claim: room => store.claimTasks(control, room.jobs, fullOf(room.places), leaseSeconds),
      nextDueMs: full => store.nextDueMs(control, full),
      act,
      record,
      lease,
    },
    log,
  )
}

const fullOf = (places: ReadonlyMap<string, number>) =>
  [...places].filter(([, free]) => free === 0).map(([id]) => id)
