// Data of services about a project that is not in the project's database: exported to backups, restored from them, and
// copied to other projects, such as branches. Rows are read and written in the caller's transaction on the control
// database, so that an export is consistent and a restore takes effect together with the restored database. Bytes in the
// object store are copied outside of it, because that may take long.
import type { KeyObject } from 'node:crypto'
import { pieceCount, pieceName, storedPieceBytes } from '#src/kernel/objects/layout.ts'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import { sizesIn } from '#src/kernel/objects/sizes.ts'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import type { DatabaseReader } from './project-reader.ts'

/** A JSON object. Its service defines the fields. */
export type ExportedRow = Readonly<Record<string, unknown>>

export interface ExportedRows {
  /** The project the rows were exported from. Sealed values are bound to its id. */
  from: string
  rows: AsyncIterable<ExportedRow>
}

export interface ProjectDataHooks {
  /** Sealed values stay sealed. */
  export(session: Session, projectId: string): AsyncIterable<ExportedRow>
  /**
   * Replaces the data of the project. If it is another one than the exported, work that has effects outside the project,
   * such as jobs, is switched off.
   */
  restore(session: Session, projectId: string, exported: ExportedRows): Promise<void>
  /** Called before the first copy of the project: creates what its copies have in common with it. */
  prepareCopy?(session: Session, projectId: string): Promise<void>
  /** For a service whose rows refer to bytes in the object store. */
  files?: StoredFiles
}

/**
 * In a database that was copied to another project, seals values again that are bound to the id of the first one. It runs as
 * the superuser, so no code of the tenant may run.
 */
export type Reseal = (database: Session, from: string, to: string) => Promise<void>

export interface FileVersion {
  version: string
  size: number
}

/** Encrypted files in the object store. A version never changes. */
export interface StoredFiles {
  list(session: Session, projectId: string): AsyncIterable<FileVersion>
  /** The folder in which the pieces of a version are. */
  folder(projectId: string, version: string): string
  /**
   * Of these versions, those that the project database refers to. Others are uploads that have not ended. Without it, all
   * listed versions are complete.
   */
  referred?(database: DatabaseReader, versions: readonly string[]): Promise<string[]>
  /** All versions that the project database refers to, in the order in which they are listed. */
  allReferred?(database: DatabaseReader): AsyncIterable<string>
  /**
   * Called before the files of a project are copied to another one. Notes them, so that they are removed with the other
   * project, or after a day, if it does not get their rows.
   */
  reserve?(session: Session, from: string, to: string): Promise<void>
  /** The keys of versions, from the rows that were exported with them. */
  keys(exported: ExportedRows): Promise<(version: string) => KeyObject>
}

export interface ProjectFile extends FileVersion {
  service: string
}

export interface CopiedFiles {
  /** Without it, all that the project has now. */
  files?: AsyncIterable<ProjectFile>
  signal?: AbortSignal
  /** Services whose files are not copied. */
  except?: readonly string[]
}

export interface ServiceExport {
  service: string
  rows: AsyncIterable<ExportedRow>
}

export interface ProjectData {
  /** One export per service, to be read one after the other. */
  export(session: Session, projectId: string): ServiceExport[]
  /** Throws before any change if an export belongs to an unknown service. */
  restore(session: Session, projectId: string, from: string, exports: readonly ServiceExport[]): Promise<void>
  /** The files of all services. */
  listFiles(session: Session, projectId: string): AsyncIterable<ProjectFile>
  /** Services that have files. */
  fileServices(): string[]
  filesOf(service: string): StoredFiles
  prepareCopy(session: Session, projectId: string): Promise<void>
  /** Copies what another project does not have of the bytes of files. Returns files that are not there any more, or not yet. */
  copyFiles(
    pieces: Pieces,
    session: Session,
    from: string,
    to: string,
    options?: CopiedFiles,
  ): Promise<ProjectFile[]>
  /** For a database that was copied to another project, before it is served. All or nothing. */
  reseal(address: ServerAddress, database: string, from: string, to: string): Promise<void>
  addHooks(service: string, hooks: ProjectDataHooks): void
  addReseal(reseal: Reseal): void
}

export function createProjectData(): ProjectData {
  const hooks = new Map<string, ProjectDataHooks>()
  const reseals: Reseal[] = []

  function hooksOf(service: string): ProjectDataHooks {
    const found = hooks.get(service)
    if (!found)
      throw new Error(
        `This version of the platform has no service "${service}", so its data cannot be restored`,
      )
    return found
  }

  function filesOf(service: string): StoredFiles {
    const { files } = hooksOf(service)
    if (!files) throw new Error(`The service "${service}" has no files in this version of the platform`)
    return files
  }

  async function* listFiles(session: Session, projectId: string): AsyncGenerator<ProjectFile> {
    for (const [service, { files }] of hooks)
      if (files)
        for await (const { version, size } of files.list(session, projectId)) yield { service, version, size }
  }

  return {
    export: (session, projectId) =>
      [...hooks].map(([service, hook]) => ({ service, rows: hook.export(session, projectId) })),
    async restore(session, projectId, from, exports) {
      const steps = exports.map(({ service, rows }) => ({ hook: hooksOf(service), rows }))
      for (const { hook, rows } of steps) await hook.restore(session, projectId, { from, rows })
    },
    listFiles,
    fileServices: () => [...hooks].flatMap(([service, { files }]) => (files ? [service] : [])),
    filesOf,
    async prepareCopy(session, projectId) {
      for (const hook of hooks.values()) await hook.prepareCopy?.(session, projectId)
    },
    async copyFiles(
      pieces,
      session,
      from,
      to,
      { files = listFiles(session, from), signal, except = [] } = {},
    ) {
      for (const [service, hook] of hooks)
        if (!except.includes(service)) await hook.files?.reserve?.(session, from, to)
      const missing: ProjectFile[] = []
      let present = { folder: '', sizes: new Map<string, number>() }
      for await (const file of files) {
        signal?.throwIfAborted()
        if (except.includes(file.service)) continue
        const { folder: folderOf } = filesOf(file.service)
        const folder = folderOf(to, file.version)
        if (present.folder !== folder) present = { folder, sizes: await sizesIn(pieces, folder) }
        const isCopied = await copyFile(pieces, folderOf(from, file.version), present, file)
        if (!isCopied) missing.push(file)
      }
      return missing
    },
    reseal: (address, database, from, to) =>
      withClient(address, database, guardedSettings, async session => {
        await session.script('begin')
        for (const reseal of reseals) await reseal(session, from, to)
        await session.script('commit')
      }),
    addHooks: (service, added) => void hooks.set(service, added),
    addReseal: added => void reseals.push(added),
  }
}

/** False if a piece does not exist: the file was removed meanwhile, or its upload has not ended. */
async function copyFile(
  pieces: Pieces,
  from: string,
  to: { folder: string; sizes: ReadonlyMap<string, number> },
  { version, size }: FileVersion,
): Promise<boolean> {
  for (let piece = 0; piece < pieceCount(size); piece++) {
    const name = pieceName(to.folder, version, piece)
    const present = to.sizes.get(name)
    if (present === storedPieceBytes(size, piece)) continue
    try {
      // Its upload had not ended when it was copied before.
      if (present !== undefined) await pieces.remove([name])
      await pieces.copy(pieceName(from, version, piece), name)
    } catch (error) {
      if (error instanceof MissingPiece) return false
      throw error
    }
  }
  return true
}
