// Removes unreferenced files: interrupted uploads, objects that were deleted by SQL, bytes left by a crash. A file that an
// object of the project references is never removed.
import { inBatches } from '#src/kernel/batches.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import { plainBytes } from '#src/kernel/objects/layout.ts'
import type { PieceFound, Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { tryFilesLockInTransaction } from '#src/tenancy/files-lock.ts'
import { hasWayBack } from '#src/tenancy/instance-cutover.ts'
import { findKept } from './kept-files-store.ts'
import type { NeededVersions } from './needed-versions.ts'
import type { Removal } from './removal.ts'
import type { Store } from './store.ts'
import {
  type Area,
  batch,
  claimAreas,
  compareEveryMs,
  confirm,
  deleteExpired,
  findConfirmed,
  findDue,
  insertFound,
  isDeletedProject,
  nextDueMs,
  recordSwept,
  recount,
  rescheduleSweep,
} from './sweep-store.ts'
import type { Usage } from './usage.ts'
import type { StoredFile } from './usage-store.ts'

/** Newer files are skipped, because their usage row may not be visible yet. */
const minAgeMs = 3_600_000
/** Minimum interval between sweeps of a project that has reached its quota. */
const pauseMs = 10_000

type Outcome = 'done' | 'later'

interface SweepDeps {
  control: Database
  directory: Directory
  store: Store
  usage: Usage
  removal: Removal
  needed: NeededVersions
  pieces: Pieces
  log: Log
}

export interface Sweeping {
  /** Sweeps one project now. False if it was swept a moment ago, or files are being copied to it. */
  sweep(tenant: Tenant): Promise<boolean>
  start(): Worker
}

export function createSweeping(deps: SweepDeps): Sweeping {
  const { control, directory, store, usage, removal, needed, pieces, log } = deps
  const lastSwept = new Map<string, number>()

  /**
   * Confirms files that objects reference, now or after the undo of a restore, and removes the others, unless they are being
   * read. Returns how many it handled.
   */
  async function settle(tenant: Tenant, files: readonly StoredFile[]): Promise<number> {
    const versions = await needed(
      tenant,
      files.map(({ version }) => version),
    )
    const isKept = ({ version }: StoredFile) => versions.has(version)
    const [kept, left] = [true, false].map(is => files.filter(file => isKept(file) === is))
    await confirm(
      control,
      tenant.id,
      kept!.map(({ version }) => version),
    )
    const gone = await removal.drop(tenant.id, left!)
    if (gone > 0) log.info({ project: tenant.id, files: gone }, 'removed unreferenced files')
    return kept!.length + gone
  }

  async function sweepDue(tenant: Tenant): Promise<void> {
    await deleteExpired(control, tenant.id)
    for (;;) {
      const files = await findDue(control, tenant.id)
      // Only files that are being read are left.
      if (files.length === 0 || (await settle(tenant, files)) === 0) return
    }
  }

  /** Compares all confirmed files with the versions that objects reference. */
  async function compare(tenant: Tenant): Promise<void> {
    for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
      const files = await findConfirmed(control, tenant.id, after)
      if (files.length === 0) return
      await settle(tenant, files)
      after = files.at(-1)!.version
    }
  }

  /** Handles files without a usage row, for example after a restore of an older control database. */
  async function removeUntracked(tenant: Tenant): Promise<void> {
    const unnamed: string[] = []
    const forgotten = new Map<string, number>()
    for await (const found of inBatches(pieces.list(tenant.id), batch)) {
      const old = found.filter(({ modifiedAt }) => Date.now() - modifiedAt.getTime() > minAgeMs)
      const untracked = await without(old, versions => usage.find(tenant.id, versions))
      const kept = await findKept(control, tenant.id, [...new Set(untracked.map(versionOf))].filter(isUuid))
      const unknown = untracked.filter(piece => !kept.has(versionOf(piece)))
      const named = await store.namedVersions(tenant, [...new Set(unknown.map(versionOf))])
      for (const piece of unknown) {
        const version = versionOf(piece)
        if (named.has(version)) forgotten.set(version, (forgotten.get(version) ?? 0) + piece.size)
        else unnamed.push(piece.name)
      }
    }
    // Files that were uploaded after the time of a recovery of the instance.
    if (await hasWayBack(control)) unnamed.length = 0
    await pieces.remove(unnamed)
    for (const [version, stored] of forgotten)
      await insertFound(control, tenant.id, { version, size: plainBytes(stored) })
    if (unnamed.length + forgotten.size > 0)
      log.warn(
        { project: tenant.id, removed: unnamed.length, found: forgotten.size },
        'found files without a usage record: removed the unreferenced ones and recorded the others',
      )
  }

  async function without(found: PieceFound[], find: (versions: string[]) => Promise<StoredFile[]>) {
    const known = new Set((await find([...new Set(found.map(versionOf))])).map(({ version }) => version))
    return found.filter(piece => !known.has(versionOf(piece)))
  }

  /** An upload that was running during the deletion of its project may have stored bytes afterwards. */
  async function removeDeletedProjects(): Promise<void> {
    for await (const folder of pieces.folders())
      if (await isDeletedProject(control, folder)) {
        await pieces.removeFolder(folder)
        log.info({ project: folder }, 'removed files of a deleted project')
      }
  }

  /** False if files are being copied to the project, which nothing refers to yet. */
  const whileSettled = (tenant: Tenant, work: () => Promise<void>): Promise<boolean> =>
    control.transaction(async session => {
      if (!(await tryFilesLockInTransaction(session, tenant.id))) return false
      await work()
      return true
    })

  async function act({ project_id, isCompared }: Area): Promise<Outcome> {
    const tenant = await directory.find(project_id)
    if (!tenant) return 'done'
    const isSwept = await whileSettled(tenant, async () => {
      await sweepDue(tenant)
      if (isCompared) return
      await compare(tenant)
      await removeUntracked(tenant)
      await recount(control, tenant.id)
    })
    return isSwept ? 'done' : 'later'
  }

  return {
    async sweep(tenant) {
      const now = performance.now()
      if (now - (lastSwept.get(tenant.id) ?? Number.NEGATIVE_INFINITY) < pauseMs) return false
      lastSwept.set(tenant.id, now)
      setTimeout(() => lastSwept.delete(tenant.id), pauseMs).unref()
      return whileSettled(tenant, async () => {
        await sweepDue(tenant)
        await compare(tenant)
      })
    },

    start() {
      const daily = startChore(
        {
          name: 'storage: remove folders of deleted projects',
          everyMs: compareEveryMs,
          runsAtStart: true,
          run: removeDeletedProjects,
        },
        log,
      )
      const worker = startWorker<Area, Outcome>(
        {
          name: 'storage sweeper',
          bounds: { all: 2, perProject: 1 },
          claim: ({ jobs }) => claimAreas(control, jobs),
          nextDueMs: () => nextDueMs(control),
          act: area =>
            act(area).catch(error => {
              log.warn({ err: error, project: area.project_id }, 'sweep of files failed; will retry')
              return 'later'
            }),
          record: async ({ project_id, isCompared }, outcome) => {
            if (outcome === 'done') await recordSwept(control, project_id, !isCompared)
            else await rescheduleSweep(control, project_id)
          },
          pollMs: 60_000,
          graceMs: 2000,
        },
        log,
      )
      return {
        ...worker,
        async close() {
          await daily.stop()
          await worker.close()
        },
      }
    },
  }
}

const versionOf = ({ name }: PieceFound) => name.slice(name.indexOf('/') + 1, name.lastIndexOf('.'))
