import type { Restore } from '@plinth/contract/backups.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { type BackedUpProject, waiting } from './store.ts'

const shownRestore = sql`
  r.id, r.backup_id, r.before_backup_id, r.status, r.created_at, r.finished_at, r.undo_until, r.error,
  (select coalesce(t.progress, ${waiting}) from backup_tasks t where t.restore_id = r.id) as progress`

export const insertRestore = (
  session: Session,
  {
    id,
    projectId,
    backupId,
    beforeId,
  }: { id: string; projectId: string; backupId: string; beforeId: string },
) =>
  session.run(sql`
    insert into restores (id, project_id, backup_id, before_backup_id)
    values (${id}, ${projectId}, ${backupId}, ${beforeId})`)

export const findRestore = (control: Session, projectId: string, id: string) =>
  control.row<Restore>(
    sql`select ${shownRestore} from restores r where project_id = ${projectId} and id = ${id}`,
  )

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

export const recordUndone = (session: Session, id: string) =>
  session.run(sql`update restores set status = 'undone', undo_until = null, error = null where id = ${id}`)

/** Also the backup of the state before, if it was not made yet. */
export const recordNotRestored = (session: Session, id: string, error: string) =>
  session.run(sql`
    with failed as (
      update restores set status = 'failed', finished_at = clock_timestamp(), error = ${error}
       where id = ${id} and status = 'running' returning before_backup_id)
    update backups b set status = 'failed', finished_at = clock_timestamp(), error = 'the restore has failed'
      from failed where b.id = failed.before_backup_id and b.status = 'running'`)

/** The error of an undo, which can be tried again. */
export const recordNotUndone = (session: Session, id: string, error: string) =>
  session.run(sql`update restores set error = ${error} where id = ${id}`)

export const restoreProject = (
  session: Session,
  id: string,
  { settings, schema_version: version }: Pick<BackedUpProject, 'settings' | 'schema_version'>,
) =>
  session.run(sql`
    update projects set settings = ${JSON.stringify(settings)}, schema_version = ${version}, updated_at = now() where id = ${id}`)

/** Restores whose time to be undone is over. */
export const listOver = (control: Database) =>
  control.rows<{ id: string; ref: string }>(sql`
    select r.id, p.ref from restores r join projects p on p.id = r.project_id
     where r.undo_until < now() and not exists (select from backup_tasks t where t.project_id = r.project_id)`)

export const forgetUndo = (session: Session, id: string) =>
  session.run(sql`update restores set undo_until = null where id = ${id}`)
