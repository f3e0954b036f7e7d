// Restores a backup in the place of its project. The backup is restored into a database of its own and compared with the
// archive first, so a backup that is not complete changes nothing. Then both databases are exchanged, in one transaction
// with what services store in the control database. The state before is kept, as a database and as a backup.

import type { Restore } from '@plinth/contract/backups.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import { swapDatabases } from '#src/tenancy/database-swap.ts'
import type { ExportedRow } from '#src/tenancy/project-data.ts'
import { beforeOf, restoredOf } from '#src/tenancy/provision.ts'
import { type ArchiveReader, readArchive } from './archive/archive.ts'
import { finishRestored, readCatalogVersion, restoredSettings } from './archive/database-store.ts'
import { readLines } from './archive/json-lines.ts'
import { putFilesBack } from './archive/stored-files.ts'
import type { Watching } from './archive/write-database.ts'
import { makeBackup } from './make-backup.ts'
import * as restores from './restores-store.ts'
import * as store from './store.ts'
import { checkRestored, type VerifyDeps } from './verify-backup.ts'

export interface RestoreDeps extends VerifyDeps {
  /** Migrates a database of the project to this release, and gives its logins their rights. */
  renew(ref: string, database: string): Promise<void>
}

const undoHours = 24

/** Throws if the state of the project is unchanged. */
export async function restoreBackup(
  deps: RestoreDeps,
  task: { project_id: string; backup_id: string; attempts: number },
  restore: Restore,
  watching: Watching,
): Promise<void> {
  const { control, cluster } = deps
  const { project_id: projectId } = task
  if (restore.status !== 'running') return
  const project = await store.findProject(control, projectId)
  if (!project) throw new Error('the project was deleted')
  const archive = await openArchive(deps, projectId, restore.backup_id)
  await backUpBefore(deps, projectId, restore.before_backup_id, task.attempts, watching)
  const database = restoredOf(project.ref)
  await deps.dropCopy(database)
  try {
    const difference = await checkRestored(deps, archive, project, database, watching)
    if (difference !== null) throw new Error(`the backup cannot be restored: ${difference}`)
    await putFilesBack(deps, projectId, readLines(archive.read(archive.manifest.files)), watching)
    await deps.renew(project.ref, database)
    await renumber(deps, project.ref, database)
    await deps.dropCopy(beforeOf(project.ref))
    watching.signal.throwIfAborted()
    const names = { live: project.ref, made: database, kept: beforeOf(project.ref) }
    await swapDatabases(cluster, names, async session => {
      await restoreControl(deps, session, projectId, archive)
      await restores.restoreProject(session, projectId, {
        settings: archive.manifest.project.settings,
        schema_version: cluster.projectVersion,
      })
      await restores.recordRestored(session, projectId, restore.id, undoHours)
    })
  } finally {
    await deps.dropCopy(database)
  }
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
  if (restore.status !== 'done' || restore.undo_until === null) return
  const archive = await openArchive(deps, projectId, restore.before_backup_id)
  const database = restoredOf(project.ref)
  await deps.dropCopy(database)
  // Files that only the state before had may have been removed.
  await putFilesBack(deps, projectId, readLines(archive.read(archive.manifest.files)), watching)
  const names = { live: project.ref, made: beforeOf(project.ref), kept: database }
  await deps.renew(project.ref, beforeOf(project.ref))
  await renumber(deps, project.ref, beforeOf(project.ref))
  await swapDatabases(cluster, names, async session => {
    await restoreControl(deps, session, projectId, archive)
    await restores.restoreProject(session, projectId, {
      settings: archive.manifest.project.settings,
      schema_version: cluster.projectVersion,
    })
    await restores.recordUndone(session, restore.id)
  })
  await deps.dropCopy(database)
}

async function openArchive(deps: RestoreDeps, project: string, backup: string): Promise<ArchiveReader> {
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

async function restoreControl(
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
