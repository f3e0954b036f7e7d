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

const isNamed = sql`exists (select from function_versions v
  where v.project_id = a.project_id and a.id in (v.code_archive, v.packages_archive))`

/** `used` is of those that a version names, and of new ones. `stored` is of all. */
export const countBytes = async (control: Database, projectId: string, newSeconds: number) =>
  (await control.row<{ used: number; stored: number }>(sql`
    select coalesce(sum(bytes) filter (
             where created_at >= now() - make_interval(secs => ${newSeconds}) or ${isNamed}), 0)::float8 as used,
           coalesce(sum(bytes), 0)::float8 as stored
      from function_archives a where project_id = ${projectId}`))!

/**
 * Called after all bytes are stored. Returns 0 if the deletion of the project has begun, because it may have removed bytes
 * already, and the rest was written after that.
 */
export const completeArchive = (session: Session, projectId: string, id: string, bytes: number) =>
  session.run(sql`
    update function_archives set is_complete = true, bytes = ${bytes}
     where project_id = ${projectId} and id = ${id}
       and exists (select from projects where id = ${projectId} and status not in ('deleting', 'deleted'))`)

/**
 * All versions name the new archive. The old one becomes incomplete, so no deployment uses it, and what is left of its bytes
 * is removed after a day. A restore of a backup that contains the old one makes it complete again.
 */
export async function replaceArchive(
  session: Session,
  projectId: string,
  from: string,
  to: string,
): Promise<void> {
  await session.run(sql`
    update function_archives set is_complete = false, bytes = 0, created_at = now()
     where project_id = ${projectId} and id = ${from}`)
  await session.run(sql`
    update function_versions
       set code_archive = case code_archive when ${from} then ${to}::uuid else code_archive end,
           packages_archive = case packages_archive when ${from} then ${to}::uuid else packages_archive end
     where project_id = ${projectId} and ${from} in (code_archive, packages_archive)`)
  // Nodes have versions in memory until the project changes.
  await session.run(sql`update projects set changed = pg_current_xact_id() where id = ${projectId}`)
}

export const findArchive = (control: Database, projectId: string, id: string) =>
  control.row<ArchiveRow>(sql`
    select id, bytes::float8 as bytes, data_key from function_archives
     where project_id = ${projectId} and id = ${id} and is_complete`)

/** Renews it as well, so that it is not removed before a version names it. */
export const reuseArchive = (control: Database, projectId: string, hash: string) =>
  control.row<ArchiveRow>(sql`
    update function_archives set created_at = now()
     where (project_id, id) in (select project_id, id from function_archives
             where project_id = ${projectId} and hash = ${hash} and is_complete limit 1)
    returning id, bytes::float8 as bytes, data_key`)

export interface KeptUnused {
  /** A deployment may be about to name a new one. */
  newSeconds: number
  /** A recovery to a time may bring back a version that names an older one. */
  days: number
  /** For each project; the oldest are removed first. */
  bytes: number
}

/**
 * Archives that no version names and that are not kept. One that is not complete may be part of a copy of a project, which
 * takes some hours. Only the age is compared again if the row was changed meanwhile, and a deployment that reuses the archive
 * renews it.
 */
export const takeUnused = (session: Session, { newSeconds, days, bytes }: KeptUnused, limit: number) =>
  session.rows<{ project_id: string; id: string; bytes: number }>(sql`
    with unused as (
      select project_id, id, sum(bytes) over (partition by project_id order by created_at desc, id) as newer_bytes
        from function_archives a where not ${isNamed})
    delete from function_archives where (project_id, id) in (
      select a.project_id, a.id from function_archives a join unused u using (project_id, id)
       where a.created_at < now() - make_interval(secs => case when a.is_complete then ${newSeconds} else 86400 end)
         and (not a.is_complete or u.newer_bytes > ${bytes} or a.created_at < now() - make_interval(days => ${days}))
       limit ${limit} for update of a skip locked)
    returning project_id, id, bytes::float8 as bytes`)

/** Those that a version names, and new ones. */
export const listUsedIds = async (control: Database, projectId: string, newSeconds: number) =>
  (
    await control.rows<{ id: string }>(sql`
      select id from function_archives a
       where project_id = ${projectId} and (created_at >= now() - make_interval(secs => ${newSeconds}) or ${isNamed})`)
  ).map(({ id }) => id)

export const listAllIds = async (control: Database, projectId: string) =>
  (
    await control.rows<{ id: string }>(sql`select id from function_archives where project_id = ${projectId}`)
  ).map(({ id }) => id)

export const deleteArchive = (control: Database, projectId: string, id: string) =>
  control.run(sql`delete from function_archives where project_id = ${projectId} and id = ${id}`)

/** A node may still write the others. They are removed after a day. */
export const deleteComplete = (control: Database, projectId: string) =>
  control.run(sql`delete from function_archives where project_id = ${projectId} and is_complete`)
