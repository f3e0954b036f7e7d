import type { Restore } from '@plinth/contract/backups.ts'
import type { ArchivedProject } from '#src/archive/manifest.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { waiting } from './store.ts'

const shownRestore = sql`
  r.id, r.project_id, r.new_project_id, r.backup_id, r.before_backup_id, r.status, r.created_at, r.finished_at, r.undo_until, r.error,
  r.bytes::float8 as bytes,
  (select coalesce(t.progress, ${waiting}) from backup_tasks t where t.restore_id = r.id) as progress`

export const insertRestore = (
  session: Session,
  {
    id,
    projectId,
    backupId,
    beforeId,
    newProjectId,
    bytes,
  }: {
    id: string
    projectId: string
    backupId: string
    beforeId?: string
    newProjectId?: string
    /** Otherwise those of the backup. */
    bytes?: number
  },
) =>
  session.run(sql`
    insert into restores (id, project_id, backup_id, before_backup_id, new_project_id, bytes)
    values (${id}, ${projectId}, ${backupId}, ${beforeId ?? null}, ${newProjectId ?? null},
            coalesce(${bytes ?? null}::bigint, (select bytes from backups where id = ${backupId})))`)

export const findRestore = (control: Session, projectId: string, id: string) =>
  control.row<Restore>(
    sql`select ${shownRestore} from restores r where project_id = ${projectId} and id = ${id}`,
  )

export const isBeingRestored = async (control: Session, projectId: string) =>
  (await control.row(
    sql`select from backup_tasks where project_id = ${projectId} and kind in ('restore', 'undo')`,
  )) !== undefined

export async function listRestores(control: Database, projectId: string, { limit, offset }: Paging) {
  const [restores, count] = await Promise.all([
    control.rows<Restore>(sql`
      select ${shownRestore} from restores r where project_id = ${projectId}
       order by created_at desc, id limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from restores where project_id = ${projectId}`,
    ),
  ])
  return { restores, total: count?.total ?? 0 }
}

/** In the transaction that exchanges the databases. An earlier restore cannot be undone any more. */
export async function recordRestored(session: Session, projectId: string, id: string, undoHours: number) {
  await session.run(sql`update restores set undo_until = null where project_id = ${projectId}`)
  await session.run(sql`
    update restores set status = 'done', finished_at = clock_timestamp(), undo_until = now() + make_interval(hours => ${undoHours})
     where id = ${id}`)
}

/** In the transaction that makes the new project active. */
export async function recordMade(session: Session, id: string, projectId: string, version: string) {
  await session.run(sql`update projects set schema_version = ${version} where id = ${projectId}`)
  await session.run(sql`
    update restores set status = 'done', finished_at = clock_timestamp() where id = ${id}`)
}

export const recordUndone = (session: Session, id: string) =>
  session.run(sql`update restores set status = 'undone', undo_until = null, error = null where id = ${id}`)

/** Once the databases are exchanged, only copying files and dropping the other database can fail. */
const recordIncomplete = (session: Session, id: string, error: string) =>
  session.run(sql`
    update restores set error = ${`The databases are exchanged, but the rest has failed: ${error}`}
     where id = ${id} and status in ('done', 'undone')`)

/** Also the backup of the state before, if it was not made yet. False if the databases were exchanged. */
export async function recordNotRestored(session: Session, id: string, error: string): Promise<boolean> {
  const failed = await session.row<{ before_backup_id: string }>(sql`
    update restores set status = 'failed', finished_at = clock_timestamp(), error = ${error}
     where id = ${id} and status = 'running' returning before_backup_id`)
  if (!failed) {
    await recordIncomplete(session, id, error)
    return false
  }
  await session.run(sql`
    update backups set status = 'failed', finished_at = clock_timestamp(), error = 'the restore has failed'
     where id = ${failed.before_backup_id} and status = 'running'`)
  return true
}

/** The error of an undo, which can be tried again. False if the databases were exchanged. */
export async function recordNotUndone(session: Session, id: string, error: string): Promise<boolean> {
  const isUnchanged =
    (await session.run(sql`update restores set error = ${error} where id = ${id} and status = 'done'`)) === 1
  if (!isUnchanged) await recordIncomplete(session, id, error)
  return isUnchanged
}

export const restoreProject = (
  session: Session,
  id: string,
  { settings, schema_version: version }: Pick<ArchivedProject, 'settings' | 'schema_version'>,
) =>
  session.run(sql`
    update projects set settings = ${JSON.stringify(settings)}, schema_version = ${version}, updated_at = now() where id = ${id}`)

/** By its id alone, as a task knows it. */
export const readRestore = (control: Session, id: string) =>
  control.row<Restore>(sql`select ${shownRestore} from restores r where id = ${id}`)

/** Restores whose time to be undone is over. */
export const listOver = (control: Database) =>
  control.rows<{ id: string; ref: string }>(sql`
    select r.id, p.ref from restores r join projects p on p.id = r.project_id
     where r.undo_until < now() and not exists (select from backup_tasks t where t.project_id = r.project_id)`)

/** Until the end of the transaction. False if there is a newer state before a restore. */
export const holdOver = async (session: Session, id: string) =>
  (await session.row(sql`select from restores where id = ${id} and undo_until < now() for update`)) !==
  undefined

export const forgetUndo = (session: Session, id: string) =>
  session.run(sql`update restores set undo_until = null where id = ${id}`)
