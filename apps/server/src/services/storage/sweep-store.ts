import { countRows } from '#src/kernel/metrics.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Job } from '#src/kernel/worker-slots.ts'
import { numbered, type StoredFile } from './usage-store.ts'

export const batch = 1000
export const compareEveryMs = 24 * 3_600_000

export interface Area extends Job {
  isCompared: boolean
}

/** If the sweeper crashes, the area is due again after the lease of 10 minutes. */
export const claimAreas = (control: Database, count: number) =>
  control.rows<Area>(sql`
    update storage_areas set sweep_at = now() + interval '10 minutes'
     where project_id in (
       select project_id from storage_areas where sweep_at <= now()
        order by sweep_at limit ${count} for update skip locked)
    returning project_id as id, project_id,
              compared_at > now() - make_interval(secs => ${compareEveryMs / 1000}) as "isCompared"`)

export const nextDueMs = async (control: Database) =>
  (
    await control.row<{ ms: number | null }>(
      sql`select (extract(epoch from min(sweep_at) - now()) * 1000)::float8 as ms from storage_areas`,
    )
  )?.ms ?? undefined

/** Files of uploads that have ended, to be removed unless an object names them. */
export const countUnused = (session: Session) =>
  countRows(session, sql`select from stored_files where until <= now()`)

/** Files that are due but still being read are checked again after a minute at the earliest. */
export const recordSwept = (control: Database, project: string, isCompared: boolean) =>
  control.run(sql`
    update storage_areas a set
      sweep_at = greatest(now() + interval '1 minute', least(
        (select min(until) from stored_files f where f.project_id = a.project_id and until is not null),
        now() + interval '1 day')),
      compared_at = case when ${isCompared} then now() else compared_at end
     where project_id = ${project}`)

export const rescheduleSweep = (control: Database, project: string) =>
  control.run(
    sql`update storage_areas set sweep_at = now() + interval '20 seconds' where project_id = ${project}`,
  )

/**
 * Of these versions, those that only the undo of a restore can bring back: they were uploaded after the backup before it. Also
 * those that no object has named since.
 */
export const findForUndo = async (control: Database, project: string, versions: readonly string[]) =>
  new Set(
    (
      await control.rows<{ version: string }>(sql`
        select v.version::text as version
          from restores r join backups b on b.id = r.before_backup_id, unnest(${versions}::uuid[]) as v (version)
         where r.project_id = ${project} and r.undo_until is not null and not exists (
           select from backup_files f where f.project_id = r.project_id and f.version = v.version
              and b.created_at between f.first_at and f.last_at)`)
    ).map(({ version }) => version),
  )

export const insertFound = (control: Database, project: string, { version, size }: StoredFile) =>
  control.run(sql`
    insert into stored_files (version, project_id, size) values (${version}, ${project}, ${size}) on conflict do nothing`)

/** Requires a row with status `deleted`. An unknown id may belong to another platform, or be missing after a restore. */
export const isDeletedProject = async (control: Database, id: string) =>
  (await control.row(sql`select from projects where id::text = ${id} and status = 'deleted'`)) !== undefined

export const deleteExpired = (control: Database, project: string) =>
  control.run(sql`delete from storage_uploads where project_id = ${project} and expires_at <= now()`)

/** Excludes uploads whose lease is held, because a request is appending to them. */
export const findDue = async (control: Database, project: string) =>
  numbered(
    await control.rows(sql`
      select version, size from stored_files f
       where project_id = ${project} and until <= now()
         and not exists (select from storage_uploads u where u.project_id = f.project_id and u.version = f.version and u.held_until > now())
       limit ${batch}`),
  )

export const findConfirmed = async (control: Database, project: string, after: string) =>
  numbered(
    await control.rows(sql`
      select version, size from stored_files
       where project_id = ${project} and until is null and version > ${after}::uuid order by version limit ${batch}`),
  )

export const confirm = (control: Database, project: string, versions: readonly string[]) =>
  control.run(sql`
    update stored_files set until = null
     where project_id = ${project} and version = any(${versions}::uuid[]) and until is not null`)

/** Corrects the sum if it ever differs. The row lock prevents concurrent changes while it adds up. */
export const recount = (control: Database, project: string) =>
  control.transaction(async session => {
    await session.run(sql`select from storage_areas where project_id = ${project} for update`)
    await session.run(sql`
      update storage_areas
         set bytes = (select coalesce(sum(size), 0) from stored_files where project_id = ${project})
       where project_id = ${project}`)
  })
