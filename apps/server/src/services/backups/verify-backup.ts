// Verifies a backup: restores it into a database of its own, and compares that database and the files with the archive.

import { type ArchiveReader, readArchive } from '#src/archive/archive.ts'
import { compareDatabase } from '#src/archive/compare-database.ts'
import { restoreDatabase } from '#src/archive/restore-database.ts'
import type { Watching } from '#src/archive/write-database.ts'
import { verifyOf } from '#src/tenancy/provision.ts'
import { type Differences, differencesOf } from './differences.ts'
import type { BackupDeps } from './make-backup.ts'
import { checkSpace, type DiskSpace } from './space.ts'
import * as store from './store.ts'
import { checkFiles } from './stored-files.ts'
import type { TaskGuard } from './task-guard.ts'

export interface VerifyDeps extends BackupDeps, DiskSpace, Omit<TaskGuard, 'hold'> {}

/** What differs, or null. */
export async function verifyBackup(
  deps: VerifyDeps,
  projectId: string,
  backupId: string,
  watching: Watching,
): Promise<Differences | null> {
  const { control, deriveKey, backups } = deps
  const project = await store.findProject(control, projectId)
  const packed = await store.findManifest(control, backupId)
  if (!project || !packed) throw new Error('the project or the backup was deleted')
  const name = { project: projectId, backup: backupId, attempt: packed.attempt }
  const archive = await readArchive(backups, deriveKey, name, packed)
  const database = verifyOf(project.ref)
  try {
    // The tenant may have changed the password and settings of its login.
    await deps.logins.heal(control, project.ref, 'owner')
    return await checkRestored(deps, archive, project, database, watching)
  } finally {
    await deps.dropCopy(database)
  }
}

/** Restores the archive into a new database, and compares it and the files. Returns what differs, or null. */
export async function checkRestored(
  deps: VerifyDeps,
  archive: ArchiveReader,
  project: { ref: string },
  database: string,
  watching: Watching,
): Promise<Differences | null> {
  const { cluster, logins, dataDir } = deps
  const { manifest } = archive
  const { address } = cluster
  await checkSpace(deps, manifest.database)
  for (const { file } of manifest.services)
    for await (const _ of archive.read(file)) watching.signal.throwIfAborted()
  const refs = { from: manifest.project.ref, to: project.ref }
  const owner = logins.address(project.ref, 'owner')
  const target = { address, owner, control: cluster.control, database, refs, creating: deps.whileOurs }
  await restoreDatabase(archive, target, watching)
  return differencesOf([
    ...(await compareDatabase(archive, { address, database, dataDir }, refs, watching)),
    ...(await checkFiles(deps, archive, watching)),
  ])
}
