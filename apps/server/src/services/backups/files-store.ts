// The files that backups have in common, and which of them the store has.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/** Until the end of the transaction no removal and no backup of the project begins. False if one begins now. */
export const tryHoldFiles = async (session: Session, projectId: string) =>
  (await session.row<{ isHeld: boolean }>(sql`
    select pg_try_advisory_xact_lock(hashtextextended('backup files of ' || ${projectId}, 0)) as "isHeld"`))!
    .isHeld

/** Whether a backup that is recorded as running may begin: from then on removals notice it. */
export const mayCopyFiles = async (session: Session, projectId: string) =>
  (await tryHoldFiles(session, projectId)) &&
  (await session.row(sql`
    select from backup_file_removals where project_id = ${projectId} and leased_until > clock_timestamp()`)) ===
    undefined

/** One node removes stored files of a project at a time. */
export interface FileRemoval {
  id: string
  projectId: string
}

/** No backup of the project begins to copy files during the lease. False if one is being made, or files are being removed. */
export const beginRemoval = (control: Database, { id, projectId }: FileRemoval, leaseSeconds: number) =>
  control.transaction(
    async session =>
      (await tryHoldFiles(session, projectId)) &&
      !(await isBeingBackedUp(session, projectId)) &&
      (await session.run(sql`
        insert into backup_file_removals as r (project_id, id, leased_until)
        values (${projectId}, ${id}, clock_timestamp() + make_interval(secs => ${leaseSeconds}))
        on conflict (project_id) do update set id = excluded.id, leased_until = excluded.leased_until
         where r.leased_until <= clock_timestamp()`)) === 1,
  )

/** False if the lease was over, so that a backup may have begun. */
export const extendRemoval = async (session: Session, { id, projectId }: FileRemoval, leaseSeconds: number) =>
  (await session.run(sql`
    update backup_file_removals set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
     where project_id = ${projectId} and id = ${id} and leased_until > clock_timestamp()`)) === 1

export const endRemoval = (control: Session, { id, projectId }: FileRemoval) =>
  control.run(sql`delete from backup_file_removals where project_id = ${projectId} and id = ${id}`)

const isBeingBackedUp = async (session: Session, projectId: string) =>
  (await session.row(
    sql`select from backups where project_id = ${projectId} and status = 'running' limit 1`,
  )) !== undefined

/** The time of the backup never leaves SQL: read as a Date it would lose its microseconds. */
export const noteFiles = (
  control: Session,
  backupId: string,
  files: readonly { version: string; size: number; isDamaged: boolean }[],
) =>
  control.run(sql`
    insert into backup_files as f (project_id, version, size, damaged_at, first_at, last_at)
    select b.project_id, g.version, g.size, case when g."isDamaged" then clock_timestamp() end, b.created_at, b.created_at
      from backups b, json_to_recordset(${JSON.stringify(files)}::json) as g (version uuid, size bigint, "isDamaged" boolean)
     where b.id = ${backupId}
    on conflict (project_id, version) do update set
      size = excluded.size, damaged_at = excluded.damaged_at, first_at = least(f.first_at, excluded.first_at),
      last_at = greatest(f.last_at, excluded.last_at)`)

/** Whether a damaged copy of the file is all that the store has. */
export const isDamaged = async (
  control: Session,
  projectId: string,
  { version, size }: { version: string; size: number },
) =>
  (await control.row(sql`
    select from backup_files
     where project_id = ${projectId} and version = ${version} and size = ${size} and damaged_at is not null`)) !==
  undefined

/**
 * Of these files, the versions that the store has, as far as is known. A version with another size was copied before its
 * upload had ended.
 */
export const listCopied = async (
  control: Session,
  projectId: string,
  files: readonly { version: string; size: number }[],
) =>
  new Set(
    (
      await control.rows<{ version: string }>(sql`
        select f.version from backup_files f
          join json_to_recordset(${JSON.stringify(files)}::json) as g (version uuid, size bigint) using (version, size)
         where f.project_id = ${projectId} and f.damaged_at is null`)
    ).map(({ version }) => version),
  )

/** The next backup of the project copies the file again. */
export const noteDamaged = (
  control: Session,
  projectId: string,
  { version, size }: { version: string; size: number },
) =>
  control.run(sql`
    update backup_files set damaged_at = clock_timestamp()
     where project_id = ${projectId} and version = ${version} and size = ${size} and damaged_at is null`)

export const listNotedFiles = async (control: Session, projectId: string, versions: readonly string[]) =>
  new Set(
    (
      await control.rows<{ version: string }>(sql`
        select version from backup_files where project_id = ${projectId} and version = any(${versions}::uuid[])`)
    ).map(({ version }) => version),
  )

/** Files that no backup contains any more. None while one is being made, which may have found them in the store. */
export const takeUnneededFiles = async (session: Session, projectId: string, limit: number) =>
  (
    await session.rows<{ version: string; size: string }>(sql`
      delete from backup_files where (project_id, version) in (
        select f.project_id, f.version from backup_files f
         where f.project_id = ${projectId} and not exists (
           select from backups b where b.project_id = f.project_id and (b.status = 'running' or b.created_at between f.first_at and f.last_at))
         limit ${limit})
      returning version, size::text as size`)
  ).map(({ version, size }) => ({ version, size: Number(size) }))
