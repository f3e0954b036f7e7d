// Statements that make a database from an archive of the control database. No tenant can connect to it or has code in it.
import { dumpSettings } from '#src/kernel/postgres/copy.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { identifier, type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'

export const controlCopySettings = {
  ...dumpSettings,
  search_path: 'public',
  check_function_bodies: 'off',
  synchronous_commit: 'off',
}

export const dropControlCopy = (database: string) =>
  `drop database if exists ${identifier(database)} with (force)`
export const createControlCopy = (database: string) =>
  `create database ${identifier(database)} template template0 encoding 'UTF8'`
export const closeControlCopy = (database: string) =>
  `revoke all on database ${identifier(database)} from public`

/** Backups that were made since, of projects that the older control database knows. */
const keptTables = ['backups', 'backup_files'] as const

const hasTable = async (session: Session, table: string) =>
  (await session.row<{ exists: boolean }>(
    sql`select to_regclass(${`public.${table}`}) is not null as exists`,
  ))!.exists

const rowsAtOnce = 500

/**
 * Copies what the store of backups has from one control database to another one, which may be of another release. Rows
 * that both have keep the later end. A backup that was still being made in the other one is done.
 */
export async function copyBackupRecords(from: Session, to: Session): Promise<void> {
  for (const table of keptTables) {
    if (!(await hasTable(from, table)) || !(await hasTable(to, table))) return
    for (let offset = 0; ; offset += rowsAtOnce) {
      const rows = await from.rows<{ row: unknown }>(
        table === 'backups'
          ? sql`select to_jsonb(b) as row from backups b where status = 'done' order by id limit ${rowsAtOnce} offset ${offset}`
          : sql`select to_jsonb(f) as row from backup_files f order by project_id, version limit ${rowsAtOnce} offset ${offset}`,
      )
      const values = JSON.stringify(rows.map(({ row }) => row))
      // With the task that makes it. Another attempt would store files that the record does not name.
      if (table === 'backups')
        await to.run(sql`
          delete from backups b using jsonb_to_recordset(${values}::jsonb) as r (id uuid)
           where b.id = r.id and b.status = 'running'`)
      await to.run(
        table === 'backups'
          ? sql`
              insert into backups select r.* from jsonb_populate_recordset(null::backups, ${values}::jsonb) r
              on conflict (id) do nothing`
          : sql`
              insert into backup_files as f select r.* from jsonb_populate_recordset(null::backup_files, ${values}::jsonb) r
              on conflict (project_id, version) do update set
                size = excluded.size, damaged_at = excluded.damaged_at,
                first_at = least(f.first_at, excluded.first_at), last_at = greatest(f.last_at, excluded.last_at)`,
      )
      if (rows.length < rowsAtOnce) break
    }
  }
}

const removedMeanwhile = 'The backup was removed meanwhile.'

/**
 * Makes an older control database, after `copyBackupRecords`, forget the backups that were removed since. They cannot be restored,
 * and a later backup would not store a file again that only they had. Backups of projects that the newer one does not know
 * stay: a control database that was created after a loss has removed nothing.
 */
export async function forgetRemovedBackups(from: Session, to: Session): Promise<void> {
  for (const table of ['projects', 'backup_tasks', 'restores', ...keptTables])
    if (!(await hasTable(from, table)) || !(await hasTable(to, table))) return
  const projects = await idsIn(from, sql`select id from projects`)
  const kept = await idsIn(from, sql`select id from backups where status in ('running', 'done')`)
  const removed = await idsIn(
    to,
    sql`
      select id from backups
       where status <> 'failed' and project_id = any(${projects}::uuid[]) and id <> all(${kept}::uuid[])`,
  )
  const [row] = await to.rows<{ restores: string[] | null }>(sql`
    with ended as (
      delete from backup_tasks t where t.backup_id = any(${removed}::uuid[]) or t.restore_id in (
        select r.id from restores r where r.before_backup_id = any(${removed}::uuid[]))
      returning t.restore_id)
    select array_agg(restore_id) filter (where restore_id is not null) as restores from ended`)
  // Without its task a restore would have no end.
  await to.run(sql`
    update restores set status = 'failed', finished_at = clock_timestamp(), error = ${removedMeanwhile}
     where id = any(${row?.restores ?? []}::uuid[]) and status = 'running'`)
  await to.run(sql`delete from backups where id = any(${removed}::uuid[])`)
  await to.run(sql`
    delete from backup_files f where f.project_id = any(${projects}::uuid[]) and not exists (
      select from backups b
       where b.project_id = f.project_id and b.status <> 'failed' and b.created_at between f.first_at and f.last_at)`)
}

const idsIn = async (session: Session, query: SqlFragment) =>
  (await session.rows<{ id: string }>(query)).map(({ id }) => id)

/** For a copy of a control database, on which nothing works. A task would keep others of its project waiting. */
export const forgetTasks = (session: Session) => session.run(sql`delete from backup_tasks`)
