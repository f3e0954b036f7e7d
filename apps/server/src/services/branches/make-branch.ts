// Gives a branch the present state of its parent: the database, what services store in the control database, and files.
import type { BranchMethod } from '@plinth/contract/branches.ts'
import { databaseArchive } from '#src/archive/archive.ts'
import {
  finishRestored,
  forgetRunning,
  readCatalogVersion,
  restoredSettings,
} from '#src/archive/database-store.ts'
import { restoreDatabase } from '#src/archive/restore-database.ts'
import { type Watching, writeDatabase } from '#src/archive/write-database.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { type Database, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { adoptDatabase, NotAdoptable } from '#src/tenancy/adopt-database.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import { swapDatabases } from '#src/tenancy/database-swap.ts'
import type { Lifecycle } from '#src/tenancy/lifecycle.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { ProjectData } from '#src/tenancy/project-data.ts'
import { MadeElsewhere } from '#src/tenancy/project-making.ts'
import { readProject } from '#src/tenancy/project-reader.ts'
import { type Provisioner, replacedOf, resetOf } from '#src/tenancy/provision.ts'
import type { TemplateCopies } from '#src/tenancy/template-copy.ts'
import { FilesChanged, type ParentState, parentState } from './parent-state.ts'
import { checkSpace } from './space.ts'
import * as store from './store.ts'

export interface BranchDeps {
  control: Database
  cluster: Cluster
  logins: Logins
  deriveKey: DeriveKey
  provisioner: Provisioner
  lifecycle: Lifecycle
  projectData: ProjectData
  /** Where the files of projects are. */
  pieces: Pieces
  templates: TemplateCopies
  dataDir: string
  freeForDatabases(): Promise<number | undefined>
  /** Drops a database that a crash may have left. */
  dropCopy(database: string): Promise<void>
  log: Log
}

/** Until files of the parent are left alone for long enough. */
const attempts = 3

interface Filled {
  method: BranchMethod
  state: ParentState
}

/** Creates the branch, or creates it again after an interruption. */
export function createBranch(
  deps: BranchDeps,
  task: store.Task,
  branch: store.TaskBranch,
  watching: Watching,
): Promise<void> {
  const { cluster, lifecycle, provisioner } = deps
  return lifecycle.make(branch.id, async signal => {
    const watched = { ...watching, signal: AbortSignal.any([watching.signal, signal]) }
    watched.progress('preparing', 0)
    await provisioner.createLogins(branch.ref)
    const filled = await fill(deps, task, branch, branch.ref, watched)
    await withClient(cluster.address, branch.ref, restoredSettings, session => finishRestored(session, '0'))
    await lifecycle.complete(branch.id, session => record(session, task, branch, filled))
  })
}

/** The branch is served as it was until its databases are exchanged. */
export async function resetBranch(
  deps: BranchDeps,
  task: store.Task,
  branch: store.TaskBranch,
  watching: Watching,
): Promise<void> {
  const { cluster, log } = deps
  const [made, kept] = [resetOf(branch.ref), replacedOf(branch.ref)]
  const dropCopies = async () => {
    for (const database of [made, kept]) await deps.dropCopy(database)
  }
  await dropCopies()
  // Users of the branch may have changed the password and settings of its login.
  await deps.logins.heal(deps.control, branch.ref, 'owner')
  try {
    const filled = await fill(deps, task, branch, made, watching)
    const version = await withClient(cluster.address, branch.ref, restoredSettings, readCatalogVersion)
    await withClient(cluster.address, made, restoredSettings, session => finishRestored(session, version))
    watching.signal.throwIfAborted()
    await swapDatabases(cluster, { live: branch.ref, made, kept }, async session => {
      const quotas = await store.readQuotas(session, branch.id)
      await record(session, task, branch, filled)
      await store.saveReset(session, branch.id, cluster.projectVersion, quotas)
    })
  } finally {
    // The outcome is known. What cannot be dropped now is dropped later, see left-databases.ts.
    await dropCopies().catch(error =>
      log.warn({ err: error, project: branch.id }, 'could not drop what a reset has left; will retry'),
    )
  }
}

/** Ends the task in the same transaction. Repeated after a crash, a reset would lose what was written since. */
async function record(
  session: Session,
  task: store.Task,
  { id, parentId }: store.TaskBranch,
  { state, method }: Filled,
): Promise<void> {
  if (!(await store.endTask(session, task))) throw new MadeElsewhere('another node works on the branch')
  await state.record(session)
  await store.recordCopied(session, id, method)
  await store.insertAudit(session, task.kind === 'create' ? 'branch.made' : 'branch.reset', id, parentId)
}

/** The database of this name gets the state of the parent, and the logins of the branch their rights in it. */
async function fill(
  deps: BranchDeps,
  task: store.Task,
  branch: store.TaskBranch,
  database: string,
  watching: Watching,
): Promise<Filled> {
  const state = parentState(deps, task, branch, watching)
  for (let attempt = 1; ; attempt++)
    try {
      return { state, method: await attemptFill(deps, state, branch, database, watching) }
    } catch (error) {
      if (!(error instanceof FilesChanged) || attempt === attempts) throw error
      deps.log.info({ project: branch.id, reason: error.message }, 'a branch is copied again')
      await deps.dropCopy(database)
    }
}

async function attemptFill(
  deps: BranchDeps,
  state: ParentState,
  branch: store.TaskBranch,
  database: string,
  watching: Watching,
): Promise<BranchMethod> {
  const { cluster, provisioner, projectData } = deps
  await state.begin()
  const method = branch.schemaOnly ? undefined : await copyWhole(deps, state, branch, database, watching)
  if (!method) await copyObjects(deps, state, branch, database, watching)
  watching.progress('rights', 0)
  await provisioner.renew(branch.ref, database)
  await projectData.reseal(cluster.address, database, branch.parentId, branch.id)
  // Again, because a branch that is reset is served meanwhile, and its files can be removed.
  await readProject(deps, { ref: branch.ref, database }, watching.signal, state.complete)
  return method ?? 'logical'
}

/** Undefined if it cannot be copied as a whole. */
async function copyWhole(
  { cluster, templates, dropCopy, log }: BranchDeps,
  state: ParentState,
  { id, ref, parentId, parentRef }: store.TaskBranch,
  database: string,
  { signal, progress }: Watching,
): Promise<BranchMethod | undefined> {
  progress('database', 0)
  const copied = await templates.copy({ id: parentId, ref: parentRef }, database, signal)
  if ('refused' in copied) {
    log.info({ project: id, reason: copied.refused }, 'a branch is copied object by object')
    return
  }
  await state.note()
  try {
    await withClient(cluster.address, database, restoredSettings, forgetRunning)
    await adoptDatabase(cluster.address, database, { from: parentRef, to: ref })
  } catch (error) {
    if (!(error instanceof NotAdoptable)) throw error
    log.info({ project: id, reason: error.message }, 'a branch is copied object by object')
    await dropCopy(database)
    return
  }
  log.info(
    { project: id, strategy: copied.strategy, heldMs: copied.heldMs },
    'copied the database of a branch',
  )
  return copied.strategy
}

/** Through an archive in the object store. The parent is not disturbed. */
async function copyObjects(
  deps: BranchDeps,
  { archive, note, complete }: ParentState,
  branch: store.TaskBranch,
  database: string,
  watching: Watching,
): Promise<void> {
  const { cluster, logins, dataDir } = deps
  const { address, control } = cluster
  const { ref, parentRef, schemaOnly } = branch
  // Also here, because nothing is known about a copy with shared blocks that turns out to be impossible.
  await checkSpace(deps, branch)
  const source = { address, database: parentRef, dataDir, hasRows: !schemaOnly }
  const contents = await writeDatabase(archive, source, watching, note, snapshot =>
    readProject(deps, { ref: parentRef, snapshot }, watching.signal, complete),
  )
  const target = {
    address,
    owner: logins.address(ref, 'owner'),
    control,
    database,
    refs: { from: parentRef, to: ref },
  }
  const { progress, signal } = watching
  const restoring = { signal, progress: (_: string, bytes: number) => progress('restoring', bytes) }
  await restoreDatabase(databaseArchive(archive, contents), target, restoring)
}
