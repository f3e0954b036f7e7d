// Makes a backup of a project: its database, what services store about it in the control database, and its files.
import { setTimeout as sleep } from 'node:timers/promises'
import { type ArchiveName, type ArchiveWriter, writeArchive } from '#src/archive/archive.ts'
import { readLines, writeLines } from '#src/archive/json-lines.ts'
import { type ArchivedFile, databaseBytes, type Manifest } from '#src/archive/manifest.ts'
import { countUnlisted } from '#src/archive/unlisted-files.ts'
import { writeControl } from '#src/archive/write-control.ts'
import { type Watching, writeDatabase } from '#src/archive/write-database.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import { version } from '#src/kernel/version.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { ProjectFile } from '#src/tenancy/project-data.ts'
import { type DatabaseReader, readProject } from '#src/tenancy/project-reader.ts'
import { mayCopyFiles } from './files-store.ts'
import * as store from './store.ts'
import { type CopiedFiles, copyFiles, type FileStores, onlyReferred } from './stored-files.ts'

export interface BackupDeps extends FileStores {
  cluster: Cluster
  logins: Logins
  deriveKey: DeriveKey
  dataDir: string
}

/** A file was removed after the snapshot was taken. */
class FilesChanged extends Error {}
const attempts = 3
const pollMs = 200

export async function makeBackup(
  deps: BackupDeps,
  name: ArchiveName,
  watching: Watching,
): Promise<store.DoneBackup> {
  await untilFilesAreRemoved(deps, name.project, watching.signal)
  for (let attempt = 1; ; attempt++)
    try {
      return await attemptBackup(deps, name, watching)
    } catch (error) {
      if (!(error instanceof FilesChanged) || attempt === attempts) throw error
    }
}

/** From then on the removal of files notices that this backup is being made. */
async function untilFilesAreRemoved(
  { control }: BackupDeps,
  project: string,
  signal: AbortSignal,
): Promise<void> {
  while (!(await control.transaction(session => mayCopyFiles(session, project))))
    await sleep(pollMs, undefined, { signal })
}

async function attemptBackup(
  deps: BackupDeps,
  name: ArchiveName,
  watching: Watching,
): Promise<store.DoneBackup> {
  const { control, cluster, deriveKey, dataDir } = deps
  const { project: projectId, backup: backupId } = name
  const project = await store.findProject(control, projectId)
  if (!project) throw new Error('the project was deleted')
  // Most files are copied before the snapshot, so that few can be removed between the snapshot and their copy.
  const before = await copyFiles(deps, name, deps.projectData.listFiles(control, projectId), watching)
  const archive = writeArchive(deps.backups, deriveKey, name)
  let exported: Pick<Manifest, 'services' | 'files'> | undefined
  let files: ArchivedFile | undefined
  let after: CopiedFiles | undefined
  const database = await writeDatabase(
    archive,
    { address: cluster.address, database: project.ref, dataDir },
    watching,
    // In one snapshot of the control database, which is taken right after that of the project.
    () =>
      control.transaction(async session => {
        await store.useOneSnapshot(session)
        exported = await writeControl(archive, session, deps.projectData, projectId)
      }),
    snapshot =>
      readProject(deps, { ref: project.ref, snapshot }, watching.signal, async database => {
        const list = exported!.files
        files = await writeReferred(deps, archive, list, database)
        after = await copyFiles(deps, name, readLines<ProjectFile>(archive.read(files)), watching)
        const lost =
          after.missing + (await countRemoved(deps, project.ref, { archive, list, database }, watching))
        if (lost > 0) throw new FilesChanged(`${lost} files were removed while the backup was made`)
      }),
  )
  const { services } = exported!
  const { count, bytes, storedBytes } = after!
  const manifest = await archive.finish({
    backup: backupId,
    platform: version,
    project,
    database,
    services,
    files: files!,
    fileCount: count,
    fileBytes: bytes,
  })
  return {
    bytes: databaseBytes(database) + bytes,
    stored_bytes: archive.storedBytes + before.storedBytes + storedBytes,
    files: count,
    manifest: { ...manifest, attempt: name.attempt },
  }
}

/** The list without files whose upload had not ended. */
async function writeReferred(
  { projectData }: BackupDeps,
  archive: ArchiveWriter,
  list: ArchivedFile,
  database: DatabaseReader,
): Promise<ArchivedFile> {
  const listed = () => readLines<ProjectFile>(archive.read(list))
  const [all, referred] = [
    await countOf(listed()),
    await countOf(onlyReferred(projectData, database, listed())),
  ]
  if (referred === all) return list
  return archive.add(write => writeLines(onlyReferred(projectData, database, listed()), write))
}

/** Files that were removed between the snapshot of the project database and that of the control database. */
async function countRemoved(
  deps: BackupDeps,
  ref: string,
  { archive, list, database }: { archive: ArchiveWriter; list: ArchivedFile; database: DatabaseReader },
  { signal }: Watching,
): Promise<number> {
  const { projectData } = deps
  let count = 0
  for (const service of projectData.fileServices())
    count += await countUnlisted(projectData, service, {
      database,
      listed: readLines<ProjectFile>(archive.read(list)),
      stillReferred: versions =>
        readProject(deps, { ref }, signal, live => projectData.filesOf(service).referred!(live, versions)),
      signal,
    })
  return count
}

async function countOf(files: AsyncIterable<ProjectFile>): Promise<number> {
  let count = 0
  for await (const _ of files) count++
  return count
}
