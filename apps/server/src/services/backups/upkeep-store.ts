// What keeps the store of backups and its operator in order.
import type { BackupProblem } from '@plinth/contract/health.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { DifferenceCounts } from './differences.ts'
import { notVerified } from './store.ts'

/**
 * Backups beyond the retention, but neither the newest nor the newest verified one, nor one that a restore, its undo or the way
 * back from an upgrade needs.
 * Those of a deleted project are kept for the retention after its deletion.
 */
export const listExpired = (control: Database, usualDays: number, limit: number) =>
  control.rows<{ id: string; project_id: string }>(sql`
    with ranked as (
      select b.id, b.project_id, b.created_at, s.retain_count, p.deleted_at,
             case when s.retain_count is null then coalesce(s.retain_days, ${usualDays}) else s.retain_days end as days,
             b.status = 'done' as is_done,
             b.kind = 'upgrade' and b.created_at > now() - make_interval(days => ${usualDays}) as is_way_back,
             row_number() over (partition by b.project_id, b.status order by b.created_at desc) as place,
             b.verified_at is not null
               and row_number() over (partition by b.project_id, b.verified_at is null order by b.created_at desc) = 1 as is_proof
        from backups b left join projects p on p.id = b.project_id left join backup_settings s on s.project_id = b.project_id
       where b.status <> 'running')
    select id, project_id from ranked r
     where case when deleted_at is not null then deleted_at < now() - make_interval(days => coalesce(days, ${usualDays}))
                when is_done and (place = 1 or is_proof or is_way_back) then false
                else coalesce(created_at < now() - make_interval(days => days), false) or coalesce(place > retain_count, false) end
       and not exists (select from backup_tasks t where t.backup_id = r.id)
       and not (deleted_at is null and exists (
         select from restores x where x.before_backup_id = r.id and (x.status = 'running' or x.undo_until is not null)))
     order by created_at limit ${limit}`)

/**
 * Backups that nothing will end, because a crash has left them without a task. One before a restore can be made without a task,
 * and ends with the restore.
 */
export const failAbandoned = (control: Database, error: string) =>
  control.run(sql`
    update backups b set status = 'failed', finished_at = clock_timestamp(), error = ${error}
     where status = 'running' and kind <> 'before_restore' and created_at < now() - interval '1 hour'
       and not exists (select from backup_tasks t where t.backup_id = b.id)`)

/** Not if a task needs it. The second statement sees tasks that have begun before the lock. */
export const deleteBackup = (control: Database, id: string) =>
  control.transaction(async session => {
    await session.run(sql`select from backups where id = ${id} for update`)
    const gone = await session.run(sql`
      delete from backups where id = ${id} and not exists (select from backup_tasks t where t.backup_id = ${id})`)
    return gone === 1
  })

/** The attempt whose files are needed, or undefined if all may be: the backup is still being made. */
export async function listKept(control: Database, ids: readonly string[]) {
  const rows = await control.rows<{ id: string; attempt: number | null }>(sql`
    select id, (manifest ->> 'attempt')::int as attempt from backups
     where id = any(${ids}::uuid[]) and status in ('running', 'done')`)
  return new Map(rows.map(({ id, attempt }) => [id, attempt ?? undefined]))
}

/** What the backups of a project have added to the store, and its quota. */
export const readUse = async (session: Session, projectId: string) =>
  (await session.row<{ bytes: number; megabytes: number | null }>(sql`
    select coalesce((select sum(b.stored_bytes) from backups b where b.project_id = p.id and b.status = 'done'), 0)::float8 as bytes,
           (p.quotas ->> 'max_backup_size_mb')::float8 as megabytes
      from projects p where p.id = ${projectId}`)) ?? { bytes: 0, megabytes: null }

// For the operator

export interface BackupHealth {
  /** Projects with a schedule. Only their backups are expected, so only they have failed or are overdue. */
  scheduled: number
  /**
   * Of the newest backup of the project for which it is the oldest: of those with a schedule, counted from their creation if they
   * have no backup. If no project has a schedule, of those with a backup.
   */
  oldest_seconds: number | null
  /** Since the last successful verification, of the project with verifications for which it is the longest ago. The same projects. */
  verified_seconds: number | null
  failed: number
  overdue: number
}

export const readHealth = (control: Session) =>
  control.row<BackupHealth>(sql`
    with known as (
      select p.id, p.created_at, coalesce(s.enabled, false) as is_scheduled, s.interval_minutes,
             coalesce(s.verify_enabled, true) as verify_enabled
        from projects p left join backup_settings s on s.project_id = p.id where p.status in ('active', 'suspended')),
    newest as (
      select k.*, case when is_scheduled then k.created_at end as since,
             (select max(b.finished_at) from backups b where b.project_id = k.id and b.status = 'done') as done_at,
             (select max(b.verified_at) from backups b where b.project_id = k.id and b.status = 'done') as verified_at,
             (select b.status from backups b where b.project_id = k.id and b.status <> 'running' order by b.created_at desc limit 1) as status
        from known k where is_scheduled or not exists (select from known where is_scheduled))
    select count(*) filter (where is_scheduled)::int as scheduled,
           max(extract(epoch from now() - coalesce(done_at, since)))::float8 as oldest_seconds,
           max(extract(epoch from now() - coalesce(verified_at, since))) filter (where verify_enabled)::float8 as verified_seconds,
           count(*) filter (where is_scheduled and status = 'failed')::int as failed,
           count(*) filter (where is_scheduled and coalesce(done_at, since) < now() - 2 * make_interval(mins => interval_minutes))::int as overdue
      from newest`)

export interface Unverified {
  kind: BackupProblem['kind']
  count: number
  /** The newest of them, with their projects. */
  named: string[]
}

/**
 * Backups that differ or are damaged, whose verification was interrupted, or is overdue: after twice its interval. One can be
 * of two kinds.
 */
const withFound = (usualMinutes: number) => sql`
    with kept as (
      select b.id, b.project_id, b.created_at, b.verified_at, b.verify_error, b.verify_differences,
             coalesce(starts_with(b.verify_error, ${notVerified}), false) as is_interrupted,
             coalesce(s.verify_enabled, true) and coalesce(b.verified_at, b.finished_at)
               < now() - 2 * make_interval(mins => coalesce(s.verify_interval_minutes, ${usualMinutes})) as is_overdue
        from backups b join projects p on p.id = b.project_id and p.status in ('active', 'suspended')
        left join backup_settings s on s.project_id = b.project_id
       where b.status = 'done'),
    found as (
      select 'unverifiable' as kind, k.* from kept k where verify_error is not null and not is_interrupted
      union all
      select 'interrupted', k.* from kept k where is_interrupted and not exists (
        select from backups newer where newer.project_id = k.project_id and newer.created_at > k.created_at and newer.verified_at is not null)
      union all
      select 'unverified', k.* from kept k where is_overdue and (verify_error is null or is_interrupted))`

export const listUnverified = (control: Session, usualMinutes: number, names: number) =>
  control.rows<Unverified>(sql`
    ${withFound(usualMinutes)}
    select kind, count(*)::int as count,
           (array_agg(format('%s of project %s', id, project_id) order by created_at desc))[1:${names}::int] as named
      from found group by kind`)

/** Earlier releases have not counted what differs. */
const counted = sql`
  coalesce(verify_differences, jsonb_build_object(case when is_interrupted then 'interrupted' else 'unknown' end, 1))`

/** Those that differ or are damaged first, then the newest. */
export const listProblems = (control: Session, usualMinutes: number, limit: number, maxText: number) =>
  control.rows<BackupProblem>(sql`
    ${withFound(usualMinutes)},
    ordered as (
      select f.*, array_position(array['unverifiable', 'interrupted', 'unverified'], kind) as place from found f),
    once as (select distinct on (id) * from ordered order by id, place)
    select id as backup_id, project_id, kind, created_at, verified_at, left(verify_error, ${maxText}) as verify_error,
           case when verify_error is null then '{}' else ${counted} end as differences
      from once order by place, created_at desc, id limit ${limit}`)

/** In all backups whose last verification has failed. */
export const countDifferences = async (control: Session, usualMinutes: number): Promise<DifferenceCounts> => {
  const rows = await control.rows<{ kind: string; count: number }>(sql`
    ${withFound(usualMinutes)}
    select d.key as kind, sum(d.value::float8) as count
      from found f cross join lateral jsonb_each_text(${counted}) d
     where f.kind <> 'unverified' group by d.key`)
  return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]))
}
