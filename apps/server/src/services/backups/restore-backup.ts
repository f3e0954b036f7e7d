// Restores a backup in the place of its project. The backup is restored into a database of its own and compared with the
// archive first, so a backup that is not complete changes nothing. Then both databases are exchanged, in one transaction
// with what services store in the control database. The state before is kept, as a database and as a backup.

import type { Restore } from '@plinth/contract/backups.ts'
import { type ArchiveReader, readArchive } from '#src/archive/archive.ts'
import { finishRestored, readCatalogVersion, restoredSettings } from '#src/archive/database-store.ts'
import { readLines } from '#src/archive/json-lines.ts'
import { contentBytes } from '#src/archive/manifest.ts'
import type { Watching } from '#src/archive/write-database.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import { swapDatabases } from '#src/tenancy/database-swap.ts'
import type { ExportedRow } from '#src/tenancy/project-data.ts'
import { beforeOf, restoredOf } from '#src/tenancy/provision.ts'
import { noteRestorePoint } from '#src/tenancy/restore-points.ts'
import { makeBackup } from './make-backup.ts'
import * as restores from './restores-store.ts'
import * as store from './store.ts'
import { putFilesBack } from './stored-files.ts'
import type { TaskGuard } from './task-guard.ts'
import { withoutTask } from './task-guard.ts'
import { checkRestored, type VerifyDeps } from './verify-backup.ts'

export interface RestoreDeps extends VerifyDeps, TaskGuard {
  /** Migrates a database of the project to this release, and gives its logins their rights. */
  renew(ref: string, database: string): Promise<void>
}

/** A signal that also aborts after the longest time that a restore may take from now on. */
export type Limit = (signal: AbortSignal) => AbortSignal

const undoHours = 24

/** Throws if the state of the project is unchanged. The backup of the state before may take any time, as others may. */
export async function restoreBackup(
  deps: RestoreDeps,
  task: { project_id: string; backup_id: string; attempts: number },
  restore: Restore,
  unlimited: Watching,
  limit: Limit,
): Promise<void> {
  const { control } = deps
  const { project_id: projectId } = task
  if (restore.status === 'failed') return
  const project = await store.findProject(control, projectId)
  if (!project) throw new Error('the project was deleted')
  const archive = await openArchive(deps, projectId, restore.backup_id)
  if (restore.status === 'running')
    await backUpBefore(deps, projectId, restore.before_backup_id!, task.attempts, unlimited)
  const watching = { ...unlimited, signal: limit(unlimited.signal) }
  // It was interrupted after the exchange.
  if (restore.status !== 'running') return putFilesBack(deps, archive, projectId, watching)
  const database = restoredOf(project.ref)
  try {
    // The tenant may have changed the password and settings of its login.
    await deps.logins.heal(control, project.ref, 'owner')
    const differences = await checkRestored(deps, archive, project, database, watching)
    if (differences) throw new Error(`the backup cannot be restored: ${differences.text}`)
    await putFilesBack(deps, archive, projectId, watching)
    await putInPlace(deps, project, { archive, database, restoreId: restore.id }, watching)
    // Those that users have deleted since the first time. From the exchange on they are in use.
    await putFilesBack(deps, archive, projectId, watching)
  } finally {
    await deps.dropCopy(database)
  }
}

/** Exchanges the live database and a restored one, in one transaction with what services store about the project. */
async function putInPlace(
  deps: RestoreDeps,
  { id, ref }: { id: string; ref: string },
  { archive, database, restoreId }: { archive: ArchiveReader; database: string; restoreId: string },
  { signal }: Watching,
  record: (session: Session) => Promise<unknown> = async () => {},
): Promise<void> {
  const { cluster } = deps
  await finishCopy(deps, ref, database)
  signal.throwIfAborted()
  await swapDatabases(cluster, { live: ref, made: database, kept: beforeOf(ref) }, async session => {
    await deps.hold(session)
    await noteRestorePoint(session, 'restore', id)
    await restoreControl(deps, session, id, archive)
    await restores.restoreProject(session, id, {
      settings: archive.manifest.project.settings,
      schema_version: cluster.projectVersion,
    })
    await restores.recordRestored(session, id, restoreId, undoHours)
    await record(session)
  })
}

export interface Replacement {
  projectId: string
  /** A database of the project that was restored from the archive and compared with it. */
  database: string
  archive: ArchiveReader
  /** The ids of the restore that is recorded, of where its state comes from, and of the backup that is made before. */
  restoreId: string
  sourceId: string
  beforeId: string
  attempt: number
  /** Runs in the transaction that exchanges the databases. */
  record(session: Session): Promise<unknown>
}

/**
 * Like a restore, of a database that is prepared already. Files that no longer exist are left out. It can be begun again with
 * the same ids until it is given up.
 */
export async function replaceProject(
  unguarded: Omit<RestoreDeps, 'whileOurs' | 'hold'>,
  { projectId, archive, restoreId, sourceId, beforeId, ...replacement }: Replacement,
  watching: Watching,
): Promise<void> {
  const { control } = unguarded
  const deps = { ...unguarded, ...withoutTask(control, projectId) }
  const project = await store.findProject(control, projectId)
  if (!project) throw new Error('the project was deleted')
  await control.transaction(async session => {
    if (await restores.findRestore(session, projectId, restoreId)) return
    await store.insertBackup(session, beforeId, projectId, 'before_restore')
    await restores.insertRestore(session, {
      id: restoreId,
      projectId,
      backupId: sourceId,
      beforeId,
      bytes: contentBytes(archive.manifest),
    })
  })
  if (await restores.isBeingRestored(control, projectId))
    throw new Error('a backup of the project is being restored')
  await backUpBefore(deps, projectId, beforeId, replacement.attempt, watching)
  await putFilesBack(deps, archive, projectId, watching, () => {})
  await putInPlace(deps, project, { archive, restoreId, ...replacement }, watching, replacement.record)
  // The state before an earlier restore has this name now.
  await deps.dropCopy(replacement.database)
  await putFilesBack(deps, archive, projectId, watching, () => {})
}

/** Exchanges the databases again. What services have stored before comes from the backup that was made before. */
export async function undoRestore(
  deps: RestoreDeps,
  projectId: string,
  restore: Restore,
  watching: Watching,
): Promise<void> {
  const { control, cluster } = deps
  const project = await store.findProject(control, projectId)
  if (!project) throw new Error('the project was deleted')
  const isUndone = restore.status === 'undone'
  if (!isUndone && (restore.status !== 'done' || restore.undo_until === null))
    throw new Error('the state before the restore is not kept any more')
  const archive = await openArchive(deps, projectId, restore.before_backup_id!)
  const database = restoredOf(project.ref)
  // Files that only the state before had may have been removed.
  await putFilesBack(deps, archive, projectId, watching)
  if (isUndone) return
  const names = { live: project.ref, made: beforeOf(project.ref), kept: database }
  await finishCopy(deps, project.ref, beforeOf(project.ref))
  try {
    await swapDatabases(cluster, names, async session => {
      await deps.hold(session)
      await noteRestorePoint(session, 'restore', projectId)
      await restoreControl(deps, session, projectId, archive)
      await restores.restoreProject(session, projectId, {
        settings: archive.manifest.project.settings,
        schema_version: cluster.projectVersion,
      })
      await restores.recordUndone(session, restore.id)
    })
    await putFilesBack(deps, archive, projectId, watching)
  } finally {
    await deps.dropCopy(database)
  }
}

/** Migrates a database of the project before it becomes live. Another node may have begun to fill one with its name. */
const finishCopy = (deps: RestoreDeps, live: string, made: string) =>
  deps.whileOurs(async () => {
    await deps.renew(live, made)
    await renumber(deps, live, made)
  })

export async function openArchive(
  deps: RestoreDeps,
  project: string,
  backup: string,
): Promise<ArchiveReader> {
  const packed = await store.findManifest(deps.control, backup)
  if (!packed) throw new Error('the backup was deleted')
  return readArchive(deps.backups, deps.deriveKey, { project, backup, attempt: packed.attempt }, packed)
}

/** Once, also if the restore is begun again. */
async function backUpBefore(
  deps: RestoreDeps,
  project: string,
  backup: string,
  attempt: number,
  watching: Watching,
): Promise<void> {
  if (await store.findManifest(deps.control, backup)) return
  const done = await makeBackup(deps, { project, backup, attempt }, watching)
  await store.recordDone(deps.control, backup, done)
}

/** Statements compare the number of the schema they were made for, so a restored one must have a higher number. */
async function renumber({ cluster }: RestoreDeps, live: string, made: string): Promise<void> {
  const version = await withClient(cluster.address, live, restoredSettings, session =>
    readCatalogVersion(session),
  )
  await withClient(cluster.address, made, restoredSettings, session => finishRestored(session, version))
}

export async function restoreControl(
  { projectData }: RestoreDeps,
  session: Session,
  projectId: string,
  archive: ArchiveReader,
): Promise<void> {
  const exports = archive.manifest.services.map(({ service, file }) => ({
    service,
    rows: readLines<ExportedRow>(archive.read(file)),
  }))
  await projectData.restore(session, projectId, archive.manifest.project.id, exports)
}
