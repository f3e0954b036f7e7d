// What keeps the store of backups and its operator in order.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

/**
 * Backups beyond the retention, but neither the newest nor the newest verified one. Those of a deleted project are kept for
 * the retention after its deletion.
 */
export const listExpired = (control: Database, usualDays: number, limit: number) =>
  control.rows<{ id: string; project_id: string }>(sql`
    with ranked as (
      select b.id, b.project_id, b.created_at, s.retain_count, p.deleted_at,
             case when s.retain_count is null then coalesce(s.retain_days, ${usualDays}) else s.retain_days end as days,
             b.status = 'done' as is_done,
             row_number() over (partition by b.project_id, b.status order by b.created_at desc) as place,
             b.verified_at is not null
               and row_number() over (partition by b.project_id, b.verified_at is null order by b.created_at desc) = 1 as is_proof
        from backups b left join projects p on p.id = b.project_id left join backup_settings s on s.project_id = b.project_id
       where b.status <> 'running')
    select id, project_id from ranked r
     where case when deleted_at is not null then deleted_at < now() - make_interval(days => coalesce(days, ${usualDays}))
                when is_done and (place = 1 or is_proof) then false
                else coalesce(created_at < now() - make_interval(days => days), false) or coalesce(place > retain_count, false) end
       and not exists (select from backup_tasks t where t.backup_id = r.id)
     order by created_at limit ${limit}`)

/** Files that no backup contains any more. */
export const takeUnneededFiles = async (session: Session, projectId: string, limit: number) =>
  (
    await session.rows<{ version: string; size: string }>(sql`
      delete from backup_files where (project_id, version) in (
        select f.project_id, f.version from backup_files f
         where f.project_id = ${projectId} and not exists (
           select from backups b where b.project_id = f.project_id and b.created_at between f.first_at and f.last_at)
         limit ${limit})
      returning version, size::text as size`)
  ).map(({ version, size }) => ({ version, size: Number(size) }))

export const deleteBackup = (session: Session, id: string) =>
  session.run(sql`delete from backups where id = ${id}`)

/** The attempt whose files are needed, or undefined if all may be: the backup is still being made. */
export async function listKept(control: Database, ids: readonly string[]) {
  const rows = await control.rows<{ id: string; attempt: number | null }>(sql`
    select id, (manifest ->> 'attempt')::int as attempt from backups
     where id = any(${ids}::uuid[]) and status in ('running', 'done')`)
  return new Map(rows.map(({ id, attempt }) => [id, attempt ?? undefined]))
}

// For the operator

export interface BackupHealth {
  /** Of the newest backup of the project with a schedule for which it is the oldest. */
  oldest_seconds: number | null
  failed: number
  overdue: number
  unverifiable: number
}

export const readHealth = (control: Session) =>
  control.row<BackupHealth>(sql`
    with newest as (
      select s.project_id, s.interval_minutes, p.created_at as since,
             (select max(b.finished_at) from backups b where b.project_id = p.id and b.status = 'done') as done_at,
             (select b.status from backups b where b.project_id = p.id and b.status <> 'running' order by b.created_at desc limit 1) as status
        from backup_settings s join projects p on p.id = s.project_id where s.enabled and p.status in ('active', 'suspended'))
    select max(extract(epoch from now() - coalesce(done_at, since)))::float8 as oldest_seconds,
           count(*) filter (where status = 'failed')::int as failed,
           count(*) filter (where coalesce(done_at, since) < now() - 2 * make_interval(mins => interval_minutes))::int as overdue,
           (select count(*)::int from backups b join projects p on p.id = b.project_id and p.status in ('active', 'suspended')
             where b.verify_error is not null) as unverifiable
      from newest`)
