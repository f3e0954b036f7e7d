// Makes a backup of a project: its database, what services store about it in the control database, and its files.
import type { KeyObject } from 'node:crypto'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { version } from '#src/kernel/version.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { ProjectData } from '#src/tenancy/project-data.ts'
import { type ArchiveName, type ArchiveWriter, writeArchive } from './archive/archive.ts'
import { readLines, writeLines } from './archive/json-lines.ts'
import type { ArchivedFile, DatabaseContents, Manifest } from './archive/manifest.ts'
import { copyFiles, type FileStores, type FileVersion } from './archive/stored-files.ts'
import { type Watching, writeDatabase } from './archive/write-database.ts'
import * as store from './store.ts'

export interface BackupDeps extends FileStores {
  cluster: Cluster
  deriveKey: DeriveKey
  projectData: ProjectData
  dataDir: string
  /** The versions of the files that a project has. */
  filesOf(session: Session, projectId: string): AsyncIterable<FileVersion>
  /** With which they are encrypted. */
  fileKeyOf(projectId: string): Promise<KeyObject>
}

/** A file was removed after the snapshot was taken. */
class FilesChanged extends Error {}
const attempts = 3

export async function makeBackup(
  deps: BackupDeps,
  name: ArchiveName,
  watching: Watching,
): Promise<store.DoneBackup> {
  for (let attempt = 1; ; attempt++)
    try {
      return await attemptBackup(deps, name, watching)
    } catch (error) {
      if (!(error instanceof FilesChanged) || attempt === attempts) throw error
    }
}

async function attemptBackup(
  deps: BackupDeps,
  name: ArchiveName,
  watching: Watching,
): Promise<store.DoneBackup> {
  const { control, cluster, deriveKey, dataDir } = deps
  const { project: projectId, backup: backupId } = name
  const project = await store.findProject(control, projectId)
  const { created_at: at } = (await store.findBackup(control, projectId, backupId))!
  if (!project) throw new Error('the project was deleted')
  // Most files are copied before the snapshot, so that few can be removed between the snapshot and their copy.
  const before = await copyFiles(deps, projectId, deps.filesOf(control, projectId), at, watching)
  const archive = writeArchive(deps.backups, deriveKey, name)
  let exported: ExportedControl | undefined
  const database = await writeDatabase(
    archive,
    { address: cluster.address, database: project.ref, dataDir },
    watching,
    async () => {
      exported = await writeControl(deps, archive, projectId)
    },
  )
  const { services, files } = exported!
  const after = await copyFiles(deps, projectId, readLines(archive.read(files)), at, watching)
  if (after.missing.length > 0)
    throw new FilesChanged(`${after.missing.length} files were removed while the backup was made`)
  const manifest = await archive.finish({
    format: 1,
    backup: backupId,
    platform: version,
    project,
    database,
    services,
    files,
    fileCount: after.count,
    fileBytes: after.bytes,
  })
  return {
    bytes: bytesOf(database) + after.bytes,
    stored_bytes: archive.storedBytes + before.storedBytes + after.storedBytes,
    files: after.count,
    manifest: { ...manifest, attempt: name.attempt },
  }
}

type ExportedControl = Pick<Manifest, 'services' | 'files'>

/** In one snapshot of the control database, which is taken right after that of the project. */
function writeControl(
  { control, projectData, filesOf }: BackupDeps,
  archive: ArchiveWriter,
  projectId: string,
): Promise<ExportedControl> {
  return control.transaction(async session => {
    await store.useOneSnapshot(session)
    const services: Manifest['services'] = []
    for (const { service, rows } of projectData.export(session, projectId))
      services.push({ service, file: await archive.add(write => writeLines(rows, write)) })
    const files: ArchivedFile = await archive.add(write => writeLines(filesOf(session, projectId), write))
    return { services, files }
  })
}

const bytesOf = ({ schema, tables, largeObjectsFile }: DatabaseContents) =>
  tables.reduce((sum, { file }) => sum + file.bytes, schema.bytes + (largeObjectsFile?.bytes ?? 0))
