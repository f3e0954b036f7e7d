// Export, restore and copy of a project's functions. A restore expects that the backup has put the bytes back; a copy
// copies them as well.
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
} from './project-data-store.ts'

export function functionsData(archives: Pick<Archives, 'copyBytes'>): ProjectDataHooks {
  /** Archives come first, because versions refer to them. */
  async function* exportParts(session: Session, projectId: string): AsyncGenerator<ExportedPart> {
    yield* await listExportedArchives(session, projectId)
    yield* await listExportedFunctions(session, projectId)
  }

  async function restoreParts(
    session: Session,
    projectId: string,
    from: string,
    parts: AsyncIterable<ExportedPart>,
  ) {
    await deleteFunctions(session, projectId)
    for await (const part of parts)
      if (part.kind === 'function') await insertExportedFunction(session, projectId, part)
      else {
        if (from !== projectId) await archives.copyBytes(from, projectId, part)
        await insertExportedArchive(session, projectId, part)
      }
  }

  return {
    export: exportParts as unknown as (session: Session, projectId: string) => AsyncGenerator<ExportedRow>,
    restore: (session, projectId, { from, rows }) =>
      restoreParts(session, projectId, from, rows as unknown as AsyncIterable<ExportedPart>),
  }
}
