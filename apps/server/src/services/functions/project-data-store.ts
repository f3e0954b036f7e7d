import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { lockProject } from './store.ts'

export interface ExportedArchive {
  kind: 'archive'
  id: string
  hash: string
  bytes: number
  /** Sealed for the id of the archive, so that it opens in any project. */
  data_key: string
}
export interface ExportedFunction {
  kind: 'function'
  function: Record<string, unknown>
  versions: Record<string, unknown>[]
}
export type ExportedPart = ExportedArchive | ExportedFunction

/** Without those that are kept for a recovery to a time. */
export const listExportedArchives = (session: Session, projectId: string) =>
  session.rows<ExportedArchive>(sql`
    select 'archive' as kind, id, hash, bytes::float8 as bytes, data_key from function_archives a
     where project_id = ${projectId} and is_complete and exists (
       select from function_versions v where v.project_id = a.project_id and a.id in (v.code_archive, v.packages_archive))
     order by id`)

export const listExportedFunctions = (session: Session, projectId: string) =>
  session.rows<ExportedFunction>(sql`
    select 'function' as kind, to_jsonb(f) - 'project_id' as function,
           (select jsonb_agg(to_jsonb(v) - 'project_id' order by v.version) from function_versions v
             where v.project_id = f.project_id and v.function_id = f.id) as versions
      from functions f where project_id = ${projectId} order by name`)

/** Their archives are kept from now on as those of a deleted function. */
export async function deleteFunctions(session: Session, projectId: string): Promise<void> {
  // As every change of functions: a deployment with locks in another order would end the exchange with a deadlock.
  await lockProject(session, projectId)
  await session.run(sql`
    update function_archives a set created_at = now()
     where project_id = ${projectId} and exists (
       select from function_versions v where v.project_id = a.project_id and a.id in (v.code_archive, v.packages_archive))`)
  await session.run(sql`delete from functions where project_id = ${projectId}`)
}

export const insertExportedArchive = (session: Session, projectId: string, archive: ExportedArchive) =>
  session.run(sql`
    insert into function_archives (project_id, id, hash, bytes, data_key, is_complete)
    values (${projectId}, ${archive.id}, ${archive.hash}, ${archive.bytes}, ${archive.data_key}, true)
    on conflict (project_id, id) do update
      set hash = excluded.hash, bytes = excluded.bytes, data_key = excluded.data_key, is_complete = true`)

/** Before their bytes are copied. Those that are there already are kept for an hour again. */
export async function reserveArchives(session: Session, from: string, to: string): Promise<void> {
  await session.run(sql`update function_archives set created_at = now() where project_id = ${to}`)
  await session.run(sql`
    insert into function_archives (project_id, id, hash, data_key)
    select ${to}, id, hash, data_key from function_archives where project_id = ${from} and is_complete
    on conflict (project_id, id) do nothing`)
}

export const insertExportedFunction = async (
  session: Session,
  projectId: string,
  { function: row, versions }: ExportedFunction,
) => {
  await session.run(sql`
    insert into functions (project_id, id, name, version, verify_jwt, created_at, updated_at)
    select ${projectId}, id, name, version, verify_jwt, created_at, updated_at
      from jsonb_populate_record(null::functions, ${JSON.stringify(row)})`)
  await session.run(sql`
    insert into function_versions
      (project_id, function_id, version, entrypoint, code_archive, packages_archive, packages, uses_node, created_at)
    select ${projectId}, function_id, version, entrypoint, code_archive, packages_archive, packages, uses_node, created_at
      from jsonb_populate_recordset(null::function_versions, ${JSON.stringify(versions)})`)
}
