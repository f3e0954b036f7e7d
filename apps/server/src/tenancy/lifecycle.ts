// Creates and deletes projects atomically. The row is written first and completed last, and the node holds an advisory lock
// meanwhile. A row in 'creating' or 'deleting' whose lock is free belongs to a crashed node, and recovery removes it. If
// the database of a deleted project cannot be dropped yet, the project is deleted and recovery drops the database later.
// A project that is made from a backup or from another project takes longer: a task makes it, which any node continues.
import { setTimeout as pause } from 'node:timers/promises'
import { startChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Cluster } from './cluster.ts'
import {
  deleteRow,
  insertCreating,
  listLeftovers,
  listUnfinished,
  markActive,
  markDeleted,
  markDeleting,
  markUnmade,
  type NewProject,
  noteDropped,
} from './lifecycle-store.ts'
import { createProjectMaking, noticeMs, type ProjectMaking } from './project-making.ts'
import type { Provisioner } from './provision.ts'

export interface Lifecycle extends ProjectMaking {
  /** False if the slug is taken. */
  create(project: NewProject): Promise<boolean>
  remove(id: string): Promise<void>
  /** Removes projects that a crashed node left in creation or deletion. */
  recover(): Promise<void>
  /** Starts the recovery in the background, because a removal may take seconds. */
  recoverInBackground(): void
  /** The hooks are called in the order in which they were added. */
  addHooks(hooks: ProjectHooks): void
  close(): void
}

/** For data of a service outside the project database. */
export interface ProjectHooks {
  /** A failure does not fail the creation. The service must create missing data on first use. */
  created?(projectId: string): Promise<void>
  /** Throws if the project must not be deleted. Called in the transaction that begins the deletion. */
  removing?(session: Session, projectId: string): Promise<void>
  /** The deletion completes only after this succeeds. It may be called repeatedly. */
  removed?(projectId: string): Promise<void>
}

/** Each operation holds one connection for its lock and needs a second, so this is lower than the pool size. */
const maxConcurrent = 3
/** Maximum time that a deletion request waits for DROP DATABASE. */
const dropMs = 3000
/** Later attempts have a longer timeout, because the server may be slow, and run less often. */
const later = { longestDropMs: 60_000, firstPauseMs: 1000, longestPauseMs: 30_000 }
/** How often a deletion looks whether the task that makes the project has ended. */
const waitForTask = 10
/** Interval of the recovery. */
const recoverMs = 60_000

export function createLifecycle(
  control: Database,
  cluster: Cluster,
  provisioner: Provisioner,
  log: Log,
): Lifecycle {
  const hooks: ProjectHooks[] = []
  const limit = createLimiter({ concurrency: maxConcurrent })

  const closing = new AbortController()

  /** Runs the work while holding the project's lock. Undefined if another node holds it. */
  const holdingLock = <T>(id: string, work: () => Promise<T>): Promise<T | undefined> =>
    control.transaction(async session => {
      const lock = await session.row<{ taken: boolean }>(
        sql`select pg_try_advisory_xact_lock(hashtextextended(${id}, 0)) as taken`,
      )
      return lock?.taken ? work() : undefined
    })
  const whileLocked = <T>(id: string, work: () => Promise<T>) => limit(id, () => holdingLock(id, work))

  const drop = (ref: string, patienceMs = dropMs) => provisioner.drop(ref, patienceMs, closing.signal)

  async function undo({ id, ref }: Pick<NewProject, 'id' | 'ref'>): Promise<void> {
    if (!(await drop(ref))) throw new Error('a database session that cannot be interrupted is in the way')
    await deleteRow(control, id)
  }

  /** If the rollback fails because the database is unavailable, it is retried when the database is back. */
  let recovering: NodeJS.Timeout | undefined
  let isClosed = false
  function recoverSoon(): void {
    clearTimeout(recovering)
    if (isClosed) return
    recovering = setTimeout(() => void recover().catch(recoverSoon), 1000).unref()
  }

  async function takeDown(id: string, ref: string): Promise<void> {
    const isDropped = await drop(ref)
    for (const { removed } of hooks) await removed?.(id)
    await markDeleted(control, id, !isDropped)
    if (isDropped) return
    log.warn({ project: id }, 'cannot drop the database of a deleted project yet; will retry')
    dropLeftoversSoon()
  }

  let dropping: NodeJS.Timeout | undefined
  let isDropping = false
  let attempts = 0
  function dropLeftoversSoon(): void {
    clearTimeout(dropping)
    if (isClosed) return
    const pauseMs = Math.min(later.longestPauseMs, later.firstPauseMs * 2 ** attempts)
    dropping = setTimeout(() => void dropLeftovers(), pauseMs).unref()
  }

  async function dropLeftovers(): Promise<void> {
    if (isDropping || isClosed) return
    isDropping = true
    try {
      const left = await listLeftovers(control)
      const patienceMs = Math.min(later.longestDropMs, dropMs * 2 ** attempts)
      let areDropped = true
      for (const { id, ref } of left)
        areDropped = ((await holdingLock(id, () => dropLeftover(id, ref, patienceMs))) ?? true) && areDropped
      attempts = areDropped ? 0 : attempts + 1
      if (!areDropped) dropLeftoversSoon()
    } catch (error) {
      if (!isClosed) log.warn({ err: error }, 'could not drop databases of deleted projects; will retry')
      attempts++
      dropLeftoversSoon()
    } finally {
      isDropping = false
    }
  }

  async function dropLeftover(id: string, ref: string, patienceMs: number): Promise<boolean> {
    if (!(await drop(ref, patienceMs))) return false
    await noteDropped(control, id)
    log.info({ project: id }, 'dropped the database of a deleted project')
    return true
  }

  const recovery = startChore({
    name: 'recover unfinished projects',
    everyMs: recoverMs,
    run: () => Promise.all([recover().catch(recoverSoon), dropLeftovers()]),
  })

  async function attach(id: string): Promise<void> {
    for (const { created } of hooks)
      await created?.(id).catch(error =>
        log.warn({ err: error, project: id }, 'creation hook failed; the service retries on first use'),
      )
  }

  const removeLocked = (id: string) =>
    whileLocked(id, async () => {
      const ref = await markDeleting(control, id, hooks)
      if (ref === undefined) return 'absent'
      await takeDown(id, ref)
      return 'removed'
    })

  async function recover(): Promise<void> {
    for (const { id, ref } of await listUnfinished(control)) {
      if (isClosed) return
      await whileLocked(id, async () => {
        // Another node may have finished it before this one got the lock.
        const status = (await listUnfinished(control)).find(each => each.id === id)?.status
        if (status === undefined) return
        if (status === 'creating') await undo({ id, ref })
        else await takeDown(id, ref)
        log.warn({ project: id, status }, 'removed an unfinished project')
      }).catch(error => {
        // One failure must not block the others or the start of the platform.
        log.error({ err: error, project: id }, 'could not remove an unfinished project; will retry')
        recoverSoon()
      })
    }
  }

  return {
    async create(project) {
      const created = await whileLocked(project.id, async () => {
        try {
          if (!(await insertCreating(control, project, cluster.projectVersion, false))) return false
          await provisioner.create(project.ref)
          await control.transaction(session => markActive(session, project))
          await attach(project.id)
          return true
        } catch (error) {
          await undo(project).catch(recoverSoon)
          throw error
        }
      })
      return created === true
    },

    ...createProjectMaking(control, cluster, attach, closing.signal),

    async remove(id) {
      // Set the status while holding the lock. A row in this status whose lock is free is left to the recovery of any node.
      const remove = () =>
        removeLocked(id).catch(error => {
          recoverSoon()
          throw error
        })
      // The task that makes a project notices its deletion soon. If it takes longer, the recovery removes the project.
      const isUnmade = await markUnmade(control, id)
      let removed = await remove()
      for (let tries = 0; isUnmade && !removed && tries < waitForTask; tries++)
        removed = await pause(noticeMs).then(remove)
      if (removed === 'absent') throw new Refusal('project_not_found', 'No project has this id')
      if (!removed && !isUnmade)
        throw new Refusal('project_busy', 'This project is being created or deleted already')
    },

    addHooks: added => void hooks.push(added),
    recover,
    recoverInBackground() {
      void recover().catch(recoverSoon)
      void dropLeftovers()
    },
    close() {
      isClosed = true
      closing.abort()
      clearTimeout(recovering)
      clearTimeout(dropping)
      void recovery.stop()
    },
  }
}
