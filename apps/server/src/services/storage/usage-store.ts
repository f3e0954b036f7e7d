import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { literal, sql } from '#src/kernel/postgres/sql.ts'

export interface StoredFile {
  version: string
  size: number
}

interface StoredRow {
  version: string
  size: string
}

/** The driver returns bigint as text. */
export const numbered = (rows: readonly StoredRow[]): StoredFile[] =>
  rows.map(({ version, size }) => ({ version, size: Number(size) }))

export const findKey = async (control: Session, project: string) =>
  (
    await control.row<{ data_key: string }>(
      sql`select data_key from storage_areas where project_id = ${project}`,
    )
  )?.data_key

export const insertArea = (control: Session, project: string, key: string, sweepAt: Date) =>
  control.run(sql`
    insert into storage_areas (project_id, data_key, sweep_at) values (${project}, ${key}, ${sweepAt})
    on conflict do nothing`)

/**
 * Asynchronous commit keeps the lock on the usage row short. A crash cannot lose the reservation of a visible object:
 * the transaction that inserts the object commits later to the same WAL.
 */
const asyncCommit = sql`select set_config('synchronous_commit', 'off', true)`

export const reserveBytes = (
  control: Database,
  project: string,
  version: string,
  size: number,
  until: Date,
  limit: number,
) =>
  control.repeat(sql`
    with async_commit as materialized (${asyncCommit}),
    area as (
      update storage_areas set bytes = bytes + ${size}, sweep_at = least(sweep_at, ${until}::timestamptz)
        from async_commit
       where project_id = ${project} and bytes + ${size} <= ${limit}::bigint
      returning project_id)
    insert into stored_files (version, project_id, size, until) select ${version}, project_id, ${size}, ${until} from area`)

export const resizeFile = (
  control: Database,
  project: string,
  { version, size }: StoredFile,
  limit: number,
) =>
  control.repeat(sql`
    with async_commit as materialized (${asyncCommit}),
    area as (
      update storage_areas a set bytes = a.bytes + ${size} - f.size from async_commit, stored_files f
       where a.project_id = ${project} and f.version = ${version} and f.project_id = a.project_id
         and (${size} <= f.size or a.bytes + ${size} - f.size <= ${limit}::bigint)
      returning a.project_id)
    update stored_files f set size = ${size} from area
     where f.project_id = area.project_id and f.version = ${version}`)

export const findFiles = async (
  control: Database,
  project: string,
  versions: readonly string[],
): Promise<StoredFile[]> => {
  const rows = await control.repeatRows<StoredRow>(sql`
    select version, size from stored_files where project_id = ${project} and version = any(${versions}::uuid[])`)
  return numbered(rows)
}

export const dropFiles = (control: Database, project: string, versions: readonly string[]) =>
  control.repeat(sql`
    with async_commit as materialized (${asyncCommit}),
    dropped as (
      delete from stored_files using async_commit
       where project_id = ${project} and version = any(${versions}::uuid[]) returning size)
    update storage_areas set bytes = bytes - (select coalesce(sum(size), 0) from dropped) where project_id = ${project}`)

export const hasFiles = async (session: Session, project: string) =>
  (await session.row(sql`select from stored_files where project_id = ${project} limit 1`)) !== undefined

export const replaceKey = (session: Session, project: string, key: string) =>
  session.run(sql`update storage_areas set data_key = ${key} where project_id = ${project}`)

export const listFiles = async (session: Session, project: string, after: string, limit: number) =>
  numbered(
    await session.rows(sql`
      select version, size from stored_files
       where project_id = ${project} and version > ${after}::uuid order by version limit ${limit}`),
  )

/** Skips versions that are stored already. Returns the bytes of the others. */
export const insertFiles = async (
  session: Session,
  project: string,
  files: readonly StoredFile[],
  until: Date,
): Promise<number> => {
  const inserted = await session.row<{ bytes: string }>(sql`
    with inserted as (
      insert into stored_files (version, project_id, size, until)
      select version, ${project}, size, ${until}
        from unnest(${files.map(({ version }) => version)}::uuid[], ${files.map(({ size }) => size)}::bigint[]) as file (version, size)
      on conflict do nothing returning size)
    select coalesce(sum(size), 0) as bytes from inserted`)
  return Number(inserted!.bytes)
}

export const addUsage = (session: Session, project: string, bytes: number, sweepAt: Date) =>
  session.run(sql`
    update storage_areas set bytes = bytes + ${bytes}, sweep_at = least(sweep_at, ${sweepAt}::timestamptz)
     where project_id = ${project}`)

export const deleteArea = (control: Database, projectId: string) =>
  control.run(sql`delete from storage_areas where project_id = ${projectId}`)

export const findUsedBytes = async (control: Database, project: string): Promise<number> =>
  Number(
    (await control.row<{ bytes: string }>(sql`select bytes from storage_areas where project_id = ${project}`))
      ?.bytes ?? 0,
  )

/** In a project database, for a session without parameters. */
export const selectReferred = (versions: readonly string[]): string => `
  select distinct version from storage.objects where version in (${versions.map(literal).join(', ') || 'null'})`

/** In the same way. Others than those that the platform has given have no bytes. */
export const selectAllReferred = (after: string, limit: number): string => `
  select distinct version from storage.objects
   where version > ${literal(after)} and version ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
   order by version limit ${limit}`
