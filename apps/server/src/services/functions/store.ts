import type { EdgeFunction } from '@plinth/contract/functions.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

/** The code of a version. */
export interface VersionParts {
  entrypoint: string
  code_archive: string
  packages_archive: string | null
  packages: readonly string[]
  uses_node: boolean
}

/** A function with its current version. */
export type FunctionRow = Omit<EdgeFunction, 'slug' | 'status'> & VersionParts

const columns = sql`
  f.id, f.name, f.version, f.verify_jwt, f.created_at, f.updated_at,
  v.entrypoint, v.code_archive, v.packages_archive, v.packages, v.uses_node`
const current = sql`
  functions f join function_versions v
    on v.project_id = f.project_id and v.function_id = f.id and v.version = f.version`

export async function listFunctions(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ functions: FunctionRow[]; total: number }> {
  const [functions, count] = await Promise.all([
    control.rows<FunctionRow>(sql`
      select ${columns} from ${current} where f.project_id = ${projectId}
       order by f.name limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from functions where project_id = ${projectId}`,
    ),
  ])
  return { functions, total: count?.total ?? 0 }
}

export const findFunction = (session: Session, projectId: string, name: string) =>
  session.row<FunctionRow>(
    sql`select ${columns} from ${current} where f.project_id = ${projectId} and f.name = ${name}`,
  )

/** All functions of a project, and a text that changes with its secrets. */
export const readCallable = (control: Database, projectId: string) =>
  control.row<{ functions: FunctionRow[]; secrets: string }>(sql`
    select coalesce((select json_agg(row_to_json(found)) from
                      (select ${columns} from ${current} where f.project_id = ${projectId}) found), '[]') as functions,
           coalesce((select md5(string_agg(name || ' ' || value, ' ' order by name))
                       from secrets where project_id = ${projectId}), '') as secrets`)

/** Blocks other changes of the project's functions until the transaction ends. */
export const lockProject = (session: Session, projectId: string) =>
  session.run(sql`select from projects where id = ${projectId} for no key update`)

export const countFunctions = async (session: Session, projectId: string) =>
  (await session.row<{ count: number }>(
    sql`select count(*)::int as count from functions where project_id = ${projectId}`,
  ))!.count

export const insertFunction = (session: Session, projectId: string, name: string, verifyJwt: boolean) =>
  session.row<{ id: string }>(sql`
    insert into functions (project_id, name, version, verify_jwt)
    values (${projectId}, ${name}, 1, ${verifyJwt}) returning id`)

export const insertVersion = (
  session: Session,
  projectId: string,
  functionId: string,
  version: number,
  parts: VersionParts,
) =>
  session.run(sql`
    insert into function_versions
      (project_id, function_id, version, entrypoint, code_archive, packages_archive, packages, uses_node)
    values (${projectId}, ${functionId}, ${version}, ${parts.entrypoint}, ${parts.code_archive},
            ${parts.packages_archive}, ${[...parts.packages]}::text[], ${parts.uses_node})`)

export const setVersion = (
  session: Session,
  projectId: string,
  functionId: string,
  version: number,
  verifyJwt: boolean,
) =>
  session.run(sql`
    update functions set version = ${version}, verify_jwt = ${verifyJwt}, updated_at = now()
     where project_id = ${projectId} and id = ${functionId}`)

export async function deleteOldVersions(
  session: Session,
  projectId: string,
  functionId: string,
  keepFrom: number,
): Promise<void> {
  await renewArchives(session, projectId, sql`v.function_id = ${functionId} and v.version < ${keepFrom}`)
  await session.run(sql`
    delete from function_versions
     where project_id = ${projectId} and function_id = ${functionId} and version < ${keepFrom}`)
}

/** Archives stay for a while after their last version, because a copy of the project may be about to read them. */
const renewArchives = (session: Session, projectId: string, versions: SqlFragment) =>
  session.run(sql`
    update function_archives a set created_at = now() from function_versions v
     where a.project_id = ${projectId} and v.project_id = a.project_id
       and a.id in (v.code_archive, v.packages_archive) and ${versions}`)

export const listVersions = (session: Session, projectId: string, functionId: string) =>
  session.rows<VersionParts & { version: number; created_at: string }>(sql`
    select version, created_at, entrypoint, code_archive, packages_archive, packages, uses_node from function_versions
     where project_id = ${projectId} and function_id = ${functionId} order by version desc`)

export async function deleteFunction(session: Session, projectId: string, name: string): Promise<number> {
  const named = sql`v.function_id in (select id from functions where project_id = ${projectId} and name = ${name})`
  await renewArchives(session, projectId, named)
  return session.run(sql`delete from functions where project_id = ${projectId} and name = ${name}`)
}
