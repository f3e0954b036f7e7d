// What services store about the parent outside its database, as it was when its database was copied: their rows in the control
// database, and the bytes of files. A file of the parent may be removed at any time, so its bytes are copied before the
// database and right after it, and it is checked that the branch has all that its database refers to.
import { type ArchiveWriter, writeArchive } from '#src/archive/archive.ts'
import { readLines } from '#src/archive/json-lines.ts'
import type { Manifest } from '#src/archive/manifest.ts'
import { countUnlisted } from '#src/archive/unlisted-files.ts'
import { writeControl } from '#src/archive/write-control.ts'
import type { Watching } from '#src/archive/write-database.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { ExportedRow, ProjectData, ProjectFile } from '#src/tenancy/project-data.ts'
import { type DatabaseReader, readProject } from '#src/tenancy/project-reader.ts'
import * as store from './store.ts'

interface ParentStateDeps {
  control: Database
  logins: Logins
  deriveKey: DeriveKey
  projectData: ProjectData
  /** Where the files of projects are. */
  pieces: Pieces
}

/** Files of the parent were removed or replaced before their bytes could be copied. */
export class FilesChanged extends Error {}

/** Services whose rows and files are data of users. */
const dataServices: readonly string[] = ['storage']

export interface ParentState {
  /** In the object store. It is removed by the task. */
  archive: ArchiveWriter
  /** Before the database is copied, so that few files can be removed before they are copied. */
  begin(): Promise<void>
  /** Right after the snapshot of the database. */
  note(): Promise<void>
  /** Copies what is missing. Throws FilesChanged unless the branch has the bytes of all files that the database refers to. */
  complete(database: DatabaseReader): Promise<void>
  /** Gives the rows to the branch, in the transaction in which it gets the database. */
  record(session: Session): Promise<void>
}

export function parentState(
  deps: ParentStateDeps,
  { id: folder, attempts: attempt }: store.Task,
  { id, parentId, parentRef, schemaOnly }: store.TaskBranch,
  { signal, progress }: Watching,
): ParentState {
  const { control, projectData, pieces } = deps
  const archive = writeArchive(pieces, deps.deriveKey, { project: folder, backup: folder, attempt })
  const except = schemaOnly ? dataServices : []
  let noted: Pick<Manifest, 'services' | 'files'> | undefined

  const listed = () => readLines<ProjectFile>(archive.read(noted!.files))

  function copyFiles(files?: AsyncIterable<ProjectFile>): Promise<ProjectFile[]> {
    progress('files', 0)
    const options = { signal, except, ...(files && { files }) }
    return projectData.copyFiles(pieces, control, parentId, id, options)
  }

  /** Files whose rows were removed between the snapshot of the database and that of the control database. */
  const countRemoved = (service: string, database: DatabaseReader): Promise<number> =>
    countUnlisted(projectData, service, {
      database,
      listed: listed(),
      stillReferred: versions => stillReferred(service, versions),
      signal,
    })

  const stillReferred = (service: string, versions: readonly string[]) =>
    readProject(deps, { ref: parentRef }, signal, live =>
      projectData.filesOf(service).referred!(live, versions),
    )

  return {
    archive,
    async begin() {
      await projectData.prepareCopy(control, parentId)
      await copyFiles()
    },
    async note() {
      noted = await control.transaction(async session => {
        await store.useOneSnapshot(session)
        return writeControl(archive, session, projectData, parentId)
      })
      await copyFiles(listed())
    },
    async complete(database) {
      const missing = await copyFiles(listed())
      let lost = 0
      for (const [service, files] of Map.groupBy(missing, file => file.service)) {
        const versions = files.map(({ version }) => version)
        lost += ((await projectData.filesOf(service).referred?.(database, versions)) ?? versions).length
      }
      for (const service of dataServices)
        if (!except.includes(service)) lost += await countRemoved(service, database)
      if (lost > 0)
        throw new FilesChanged(
          `Files of the project were replaced or removed while it was copied, or are missing in the object store: ${lost}`,
        )
    },
    async record(session) {
      const exports = noted!.services
        .filter(({ service }) => !except.includes(service))
        .map(({ service, file }) => ({ service, rows: readLines<ExportedRow>(archive.read(file)) }))
      await projectData.restore(session, id, parentId, exports)
    },
  }
}
