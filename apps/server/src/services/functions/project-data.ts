// Export and restore of a project's functions. A restore expects that the bytes are in place.
import type { Session } from '#src/kernel/postgres/database.ts'
import type { ExportedRow, ProjectDataHooks } from '#src/tenancy/project-data.ts'
import type { Archives } from './archives.ts'
import {
  deleteFunctions,
  type ExportedPart,
  insertExportedArchive,
  insertExportedFunction,
  listExportedArchives,
  listExportedFunctions,
  reserveArchives,
} from './project-data-store.ts'

export function functionsData(archives: Pick<Archives, 'folderOf' | 'openKey'>): ProjectDataHooks {
  /** Archives come first, because versions refer to them. */
  async function* exportParts(session: Session, projectId: string): AsyncGenerator<ExportedPart> {
    yield* await listExportedArchives(session, projectId)
    yield* await listExportedFunctions(session, projectId)
  }

  async function restoreParts(session: Session, projectId: string, parts: AsyncIterable<ExportedPart>) {
    await deleteFunctions(session, projectId)
    for await (const part of parts)
      if (part.kind === 'function') await insertExportedFunction(session, projectId, part)
      else await insertExportedArchive(session, projectId, part)
  }

  return {
    export: exportParts as unknown as (session: Session, projectId: string) => AsyncGenerator<ExportedRow>,
    restore: (session, projectId, { rows }) =>
      restoreParts(session, projectId, rows as unknown as AsyncIterable<ExportedPart>),
    files: {
      async *list(session, projectId) {
        for (const { id, bytes } of await listExportedArchives(session, projectId))
          yield { version: id, size: bytes }
      },
      folder: archives.folderOf,
      reserve: reserveArchives,
      async keys({ rows }) {
        const sealed = new Map<string, string>()
        for await (const row of rows as unknown as AsyncIterable<ExportedPart>)
          if (row.kind === 'archive') sealed.set(row.id, row.data_key)
        return version => archives.openKey(version, sealed.get(version) ?? throwNoKey(version))
      },
    },
  }
}

function throwNoKey(version: string): never {
  throw new Error(`the export has no key of the archive ${version}`)
}
