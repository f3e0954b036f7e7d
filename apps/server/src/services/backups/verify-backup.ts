// Verifies a backup: restores it into a database of its own, and compares that database and the files with the archive.
import type { Logins } from '#src/tenancy/logins.ts'
import { verifyOf } from '#src/tenancy/provision.ts'
import { type ArchiveReader, readArchive } from './archive/archive.ts'
import { compareDatabase } from './archive/compare-database.ts'
import { readLines } from './archive/json-lines.ts'
import { restoreDatabase } from './archive/restore-database.ts'
import { checkFiles } from './archive/stored-files.ts'
import type { Watching } from './archive/write-database.ts'
import type { BackupDeps } from './make-backup.ts'
import * as store from './store.ts'

export interface VerifyDeps extends BackupDeps {
  logins: Logins
  /** Drops a database that a crash may have left. */
  dropCopy(database: string): Promise<void>
}

/** Of these, the first are named in the result. */
const namedDifferences = 10

/** What differs, or null. */
export async function verifyBackup(
  deps: VerifyDeps,
  projectId: string,
  backupId: string,
  watching: Watching,
): Promise<string | null> {
  const { control, deriveKey, backups } = deps
  const project = await store.findProject(control, projectId)
  const packed = await store.findManifest(control, backupId)
  if (!project || !packed) throw new Error('the project or the backup was deleted')
  const name = { project: projectId, backup: backupId, attempt: packed.attempt }
  const archive = await readArchive(backups, deriveKey, name, packed)
  const database = verifyOf(project.ref)
  await deps.dropCopy(database)
  try {
    return await checkRestored(deps, archive, project, database, watching)
  } finally {
    await deps.dropCopy(database)
  }
}

/** Restores the archive into a new database, and compares it and the files. Returns what differs, or null. */
export async function checkRestored(
  { control, cluster, backups, logins, dataDir, fileKeyOf }: VerifyDeps,
  archive: ArchiveReader,
  project: store.BackedUpProject,
  database: string,
  watching: Watching,
): Promise<string | null> {
  const { manifest } = archive
  const { address } = cluster
  for (const { file } of manifest.services)
    for await (const _ of archive.read(file)) watching.signal.throwIfAborted()
  const refs = { from: manifest.project.ref, to: project.ref }
  const owner = logins.address(project.ref, 'owner')
  // The tenant may have changed the password and settings of its login.
  await logins.heal(control, project.ref, 'owner')
  await restoreDatabase(archive, { address, owner, control: cluster.control, database, refs }, watching)
  const differences = [
    ...(await compareDatabase(archive, { address, database, dataDir }, watching)),
    ...(await checkFiles(backups, fileKeyOf, project.id, readLines(archive.read(manifest.files)), watching)),
  ]
  return differences.length === 0 ? null : sentence(differences)
}

const sentence = (differences: readonly string[]) =>
  differences.length > namedDifferences
    ? `${differences.slice(0, namedDifferences).join('; ')}; and ${differences.length - namedDifferences} more differences`
    : differences.join('; ')
