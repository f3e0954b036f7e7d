import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface ArchiveRow {
  id: string
  bytes: number
  /** Sealed. */
  data_key: string
}

export const insertArchive = (
  control: Database,
  projectId: string,
  { id, data_key, hash }: { id: string; data_key: string; hash: string },
) =>
  control.run(sql`
    insert into function_archives (project_id, id, hash, data_key) values (${projectId}, ${id}, ${hash}, ${data_key})`)

export const totalBytes = async (control: Database, projectId: string) =>
  (await control.row<{ bytes: number }>(
    sql`select coalesce(sum(bytes), 0)::float8 as bytes from function_archives where project_id = ${projectId}`,
  ))!.bytes

export const completeArchive = (control: Database, projectId: string, id: string, bytes: number) =>
  control.run(sql`
    update function_archives set is_complete = true, bytes = ${bytes}
     where project_id = ${projectId} and id = ${id}`)

export const findArchive = (control: Database, projectId: string, id: string) =>
  control.row<ArchiveRow>(sql`
    select id, bytes::float8 as bytes, data_key from function_archives
     where project_id = ${projectId} and id = ${id} and is_complete`)

/** Renews it as well, so that it is not removed before a version names it. */
export const reuseArchive = async (control: Database, projectId: string, hash: string) =>
  (
    await control.row<{ id: string }>(sql`
      update function_archives set created_at = now()
       where (project_id, id) in (select project_id, id from function_archives
               where project_id = ${projectId} and hash = ${hash} and is_complete limit 1)
      returning id`)
  )?.id

/**
 * Archives that no version names, except new ones, which a deployment may be about to name. One that is not complete may be
 * part of a copy of a project, which takes some hours.
 */
export const takeUnused = (session: Session, minAgeSeconds: number, limit: number) =>
  session.rows<{ project_id: string; id: string; bytes: number }>(sql`
    delete from function_archives where (project_id, id) in (
      select a.project_id, a.id from function_archives a
       where a.created_at < now() - make_interval(secs => case when a.is_complete then ${minAgeSeconds} else 86400 end)
         and not exists (select from function_versions v
                          where v.project_id = a.project_id and a.id in (v.code_archive, v.packages_archive))
       limit ${limit} for update skip locked)
    returning project_id, id, bytes::float8 as bytes`)

export const listAllIds = async (control: Database, projectId: string) =>
  (
    await control.rows<{ id: string }>(sql`select id from function_archives where project_id = ${projectId}`)
  ).map(({ id }) => id)

export const deleteAll = (control: Database, projectId: string) =>
  control.run(sql`delete from function_archives where project_id = ${projectId}`)
