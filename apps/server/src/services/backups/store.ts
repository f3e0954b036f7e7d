// Backups, their settings, and the tasks that make and verify them.
import type { Backup, BackupKind, BackupSettings, DeletedProject } from '@plinth/contract/backups.ts'
import type { ArchivedProject } from '#src/archive/manifest.ts'
import type { PackedFile } from '#src/kernel/objects/packed-file.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { DifferenceCounts } from './differences.ts'
import type { Effort } from './time-limit.ts'

/** Until a node reports progress. Null means that nothing is being done. */
export const waiting = sql`'{"step": "waiting", "bytes": 0}'::jsonb`
/** The driver returns bigint as text, so sizes are read as float8. */
const shown = sql`
  b.id, b.status, b.kind, b.created_at, b.finished_at, b.bytes::float8 as bytes, b.stored_bytes::float8 as stored_bytes,
  b.files::float8 as files, b.schema_version, b.verified_at, b.verify_error, b.error,
  (select coalesce(t.progress, ${waiting}) from backup_tasks t where t.backup_id = b.id) as progress`

export async function listBackups(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ backups: Backup[]; total: number }> {
  const [backups, count] = await Promise.all([
    control.rows<Backup>(sql`
      select ${shown} from backups b where project_id = ${projectId}
       order by created_at desc, id limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from backups where project_id = ${projectId}`,
    ),
  ])
  return { backups, total: count?.total ?? 0 }
}

export const findBackup = (control: Session, projectId: string, id: string) =>
  control.row<Backup>(sql`select ${shown} from backups b where project_id = ${projectId} and id = ${id}`)

export const lockProject = (session: Session, projectId: string) =>
  session.run(sql`select from projects where id = ${projectId} for no key update`)

// Settings

const settingsColumns = sql`
  enabled, interval_minutes, retain_days, retain_count, verify_enabled, verify_interval_minutes`

export const findSettings = (control: Session, projectId: string) =>
  control.row<BackupSettings>(
    sql`select ${settingsColumns} from backup_settings where project_id = ${projectId}`,
  )

/** A changed interval counts from now. */
export const saveSettings = (session: Session, projectId: string, given: BackupSettings) =>
  session.row<BackupSettings>(sql`
    insert into backup_settings as s
      (project_id, enabled, interval_minutes, retain_days, retain_count, verify_enabled, verify_interval_minutes)
    values (${projectId}, ${given.enabled}, ${given.interval_minutes}, ${given.retain_days}, ${given.retain_count},
            ${given.verify_enabled}, ${given.verify_interval_minutes})
    on conflict (project_id) do update set
      enabled = excluded.enabled, interval_minutes = excluded.interval_minutes, retain_days = excluded.retain_days,
      retain_count = excluded.retain_count, verify_enabled = excluded.verify_enabled,
      verify_interval_minutes = excluded.verify_interval_minutes,
      next_run_at = case when excluded.enabled and not s.enabled then now()
                         else least(s.next_run_at, now() + make_interval(mins => excluded.interval_minutes)) end
    returning ${settingsColumns}`)

// Tasks

export interface Task {
  id: string
  project_id: string
  kind: 'backup' | 'verification' | 'restore' | 'undo' | 'new_project'
  backup_id: string
  restore_id: string | null
  attempts: number
  claimed_at: string
}

export interface NewTask {
  id: string
  projectId: string
  kind: Task['kind']
  backupId: string
  restoreId?: string
}

/**
 * False if the project has a task already, or the backup was removed. A verification gives way to any other task, and comes
 * again later.
 */
export const insertTask = async (session: Session, { id, projectId, kind, backupId, restoreId }: NewTask) =>
  (await session.run(sql`
    insert into backup_tasks as t (id, project_id, kind, backup_id, restore_id)
    select ${id}, ${projectId}, ${kind}, b.id, ${restoreId ?? null} from backups b where b.id = ${backupId} for key share
    on conflict (project_id) do update set
      id = excluded.id, kind = excluded.kind, backup_id = excluded.backup_id, restore_id = excluded.restore_id,
      leased_until = null, attempts = 0, progress = null
     where t.kind = 'verification' and excluded.kind <> 'verification'`)) === 1

export const isBeingVerified = async (control: Session, backupId: string) =>
  (await control.row(
    sql`select from backup_tasks where backup_id = ${backupId} and kind = 'verification'`,
  )) !== undefined

export const insertBackup = (session: Session, id: string, projectId: string, kind: BackupKind) =>
  session.run(sql`
    insert into backups (id, project_id, kind, schema_version)
    select ${id}, id, ${kind}, schema_version from projects where id = ${projectId}`)

/**
 * Of a project `s`. A verification gives way to the schedule, but if it takes longer than the pause between two backups, none
 * would ever be verified. So it is waited for while no backup was verified within the interval of verifications.
 */
const isFree = sql`
  not exists (
    select from backup_tasks t where t.project_id = s.project_id and (t.kind <> 'verification' or (
      t.leased_until > now() and not exists (
        select from backups b
         where b.project_id = s.project_id and b.verified_at > now() - make_interval(mins => s.verify_interval_minutes)))))`

/** Projects whose next backup is due and may begin. Their next one is planned. */
export const takeDue = (session: Session, limit: number) =>
  session.rows<{ project_id: string }>(sql`
    update backup_settings set next_run_at = now() + make_interval(mins => interval_minutes)
     where project_id in (
       select s.project_id from backup_settings s join projects p on p.id = s.project_id
        where s.enabled and s.next_run_at <= now() and p.status in ('active', 'suspended')
          and ${isFree}
        order by s.next_run_at limit ${limit} for update of s skip locked)
    returning project_id`)

/**
 * Backups whose next verification is due, of each project the newest of them. Projects without settings have the usual
 * interval. A verification that was interrupted is due again after an hour. A backup that differs is not verified again.
 */
export const listDueVerifications = (session: Session, limit: number, usualMinutes: number) =>
  session.rows<{ project_id: string; backup_id: string }>(sql`
    select project_id, backup_id from (
      select distinct on (b.project_id) b.project_id, b.id as backup_id, coalesce(b.verified_at, b.finished_at) as since
        from backups b join projects p on p.id = b.project_id and p.status in ('active', 'suspended')
        left join backup_settings s on s.project_id = b.project_id
       where b.status = 'done' and coalesce(s.verify_enabled, true)
         and case when b.verify_error is null then coalesce(
                    b.verified_at <= now() - make_interval(mins => coalesce(s.verify_interval_minutes, ${usualMinutes})), true)
                  else starts_with(b.verify_error, ${notVerified}) and not exists (
                    select from audit a where a.project_id = b.project_id and a.action = 'backups.not_verified'
                       and a.target = b.id::text and a.at > now() - interval '1 hour') end
         and not exists (select from backup_tasks t where t.project_id = b.project_id)
       order by b.project_id, b.created_at desc) due
     order by since limit ${limit}`)

/** What a node may claim. */
export interface Claimable {
  /** Projects that claim nothing. */
  full: readonly string[]
  /** Projects that claim no verification. */
  slow: readonly string[]
  /** How many verifications. */
  verifications: number
}

/** Tasks that no node works on. Nobody waits for a verification. */
export const claimTasks = (
  control: Session,
  limit: number,
  { full, slow, verifications }: Claimable,
  leaseSeconds: number,
) =>
  control.rows<Task>(sql`
    with due as (
      select id, kind, created_at, row_number() over (partition by kind order by created_at) as place from backup_tasks
       where (leased_until is null or leased_until <= now()) and project_id <> all(${full}::uuid[])
         and (kind <> 'verification' or project_id <> all(${slow}::uuid[])))
    update backup_tasks set leased_until = now() + make_interval(secs => ${leaseSeconds}), attempts = attempts + 1
     where id in (
       select t.id from backup_tasks t join due d on d.id = t.id
        where (t.leased_until is null or t.leased_until <= now()) and (d.kind <> 'verification' or d.place <= ${verifications})
        order by d.kind = 'verification', d.created_at limit ${limit} for update of t skip locked)
    returning id, project_id, kind, backup_id, restore_id, attempts, now() as claimed_at`)

/** Until the end of the transaction no node can claim or replace the task. Its lease can be extended meanwhile. */
export const holdTask = async (session: Session, { id, attempts }: Task) =>
  (await session.row(
    sql`select from backup_tasks where id = ${id} and attempts = ${attempts} for key share`,
  )) !== undefined

/** Until the end of the transaction the project cannot be deleted. False if it is already. */
export const holdProject = async (session: Session, id: string) =>
  (await session.row(
    sql`select from projects where id = ${id} and status not in ('deleting', 'deleted') for share`,
  )) !== undefined

/** Also of a deleted project. */
export const findRef = async (session: Session, id: string) =>
  (await session.row<{ ref: string }>(sql`select ref from projects where id = ${id}`))?.ref

export const listExisting = async (session: Session, databases: readonly string[]) =>
  (
    await session.rows<{ datname: string }>(
      sql`select datname from pg_database where datname = any(${databases})`,
    )
  ).map(({ datname }) => datname)

/** Claims a new task for this process. */
export const leaseTask = (session: Session, id: string, leaseSeconds: number) =>
  session.row<Task>(sql`
    update backup_tasks set leased_until = now() + make_interval(secs => ${leaseSeconds}), attempts = 1 where id = ${id}
    returning id, project_id, kind, backup_id, restore_id, attempts`)

/** Ends backups before an upgrade that no worker has begun again, because their process was killed. Returns them. */
export const endSnapshotTasks = (session: Session, projectId: string, reason: string) =>
  session.rows<{ id: string }>(sql`
    with ended as (
      delete from backup_tasks t using backups b
       where t.project_id = ${projectId} and b.id = t.backup_id and b.kind = 'upgrade' and t.attempts <= 1
      returning b.id)
    update backups set status = 'failed', finished_at = clock_timestamp(), error = ${reason}
     where id in (select id from ended) and status = 'running' returning id`)

export const deleteNewBackup = (session: Session, id: string) =>
  session.run(sql`delete from backups where id = ${id}`)

export const nextDueMs = async (control: Session, { full, slow, verifications }: Claimable) =>
  (
    await control.row<{ ms: number | null }>(sql`
      select (extract(epoch from min(at) - now()) * 1000)::float8 as ms from (
        select min(next_run_at) as at from backup_settings s where enabled and ${isFree}
        union all select min(coalesce(leased_until, now())) from backup_tasks
         where project_id <> all(${full}::uuid[])
           and (kind <> 'verification' or ${verifications}::int > 0 and project_id <> all(${slow}::uuid[]))) due`)
  )?.ms ?? undefined

/** How the manifest is read. */
export interface StoredManifest extends PackedFile {
  attempt: number
}

export interface DoneBackup {
  bytes: number
  stored_bytes: number
  files: number
  manifest: StoredManifest
}

export const recordDone = (session: Session, id: string, done: DoneBackup) =>
  session.run(sql`
    update backups set status = 'done', finished_at = clock_timestamp(), bytes = ${done.bytes},
           stored_bytes = ${done.stored_bytes}, files = ${done.files}, manifest = ${JSON.stringify(done.manifest)}
     where id = ${id} and status = 'running'`)

export const recordFailed = (session: Session, id: string, error: string) =>
  session.run(sql`
    update backups set status = 'failed', finished_at = clock_timestamp(), error = ${error}
     where id = ${id} and status = 'running'`)

/** An error that begins so is not one of the backup, which is verified again later. */
export const notVerified = 'Not verified: '

/** An error means that it could not be verified, or differs. */
export const recordVerified = (
  session: Session,
  id: string,
  error: string | null,
  differences: DifferenceCounts | null,
) =>
  session.run(sql`
    update backups set verify_error = ${error}, verify_differences = ${differences && JSON.stringify(differences)},
           verified_at = case when ${error}::text is null then clock_timestamp()
                              when starts_with(${error}, ${notVerified}) then verified_at end
     where id = ${id}`)

/** False if another node has begun the task again. */
export const deleteTask = async (session: Session, { id, attempts }: Task) =>
  (await session.run(sql`delete from backup_tasks where id = ${id} and attempts = ${attempts}`)) === 1

/** For a task that the stop of Postgres has interrupted. It is begun again soon. */
export const postponeTask = (control: Session, { id, attempts }: Task, seconds: number) =>
  control.run(sql`
    update backup_tasks set leased_until = now() + make_interval(secs => ${seconds}), progress = null
     where id = ${id} and attempts = ${attempts}`)

/** For a task that has not been tried: the platform stops, or another node works on it. */
export const releaseTask = (control: Session, { id, attempts }: Task, pauseSeconds: number) =>
  control.run(sql`
    update backup_tasks set leased_until = now() + make_interval(secs => ${pauseSeconds}), attempts = attempts - 1, progress = null
     where id = ${id} and attempts = ${attempts}`)

/** Bounds what a log entry says of a problem. */
const maxDetails = 2000

/** `problem` is why a task has failed, or what a verification has found. */
export const insertAudit = (
  session: Session,
  action: string,
  { backup_id: backupId, project_id: projectId }: Pick<Task, 'backup_id' | 'project_id'>,
  problem: string | null = null,
) =>
  session.run(sql`
    insert into audit (actor_kind, actor_label, action, target, project_id, details)
    values ('system', 'platform', ${action}, ${backupId}, ${projectId}, ${problem?.slice(0, maxDetails) ?? null})`)

export const findProject = (session: Session, id: string) =>
  session.row<ArchivedProject>(sql`
    select id, ref, name, slug, description, settings, quotas, schema_version from projects
     where id = ${id} and status in ('active', 'suspended')`)

/** A project that is being made from a backup. */
export const findUnmade = (session: Session, id: string) =>
  session.row<{ id: string; ref: string }>(
    sql`select id, ref from projects where id = ${id} and status = 'creating'`,
  )

/** Whether a deleted project has backups that can be restored as a new one. */
export const hasBackups = async (session: Session, id: string) =>
  (await session.row(sql`
    select from projects p where id = ${id} and status = 'deleted'
       and exists (select from backups b where b.project_id = p.id and b.status = 'done')`)) !== undefined

export async function listDeletedProjects(control: Database, { limit, offset }: Paging, usualDays: number) {
  const found = sql`
    from projects p cross join lateral (
      select count(*)::int as backups, (array_agg(b.id order by b.created_at desc))[1] as newest_backup_id
        from backups b where b.project_id = p.id and b.status = 'done') kept
    where p.status = 'deleted' and kept.backups > 0`
  const [projects, count] = await Promise.all([
    control.rows<DeletedProject>(sql`
      select p.id, p.name, p.slug, p.deleted_at, kept.backups, kept.newest_backup_id,
             p.deleted_at + make_interval(days => coalesce(
               (select s.retain_days from backup_settings s where s.project_id = p.id), ${usualDays})) as kept_until
      ${found} order by p.deleted_at desc, p.id limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(sql`select count(*)::int as total ${found}`),
  ])
  return { projects, total: count?.total ?? 0 }
}
export const findDatabaseBytes = async (session: Session, ref: string) =>
  (
    await session.row<{ bytes: number }>(sql`
      select pg_database_size(datname)::float8 as bytes from pg_database where datname = ${ref}`)
  )?.bytes ?? 0

/** Of the schema, the rows and the large objects in a backup. */
export const findContentBytes = async (session: Session, { id, bytes }: Pick<Backup, 'id' | 'bytes'>) => {
  const row = await session.row<{ bytes: number }>(sql`
    select coalesce(sum(f.size), 0)::float8 as bytes
      from backups b join backup_files f on f.project_id = b.project_id and b.created_at between f.first_at and f.last_at
     where b.id = ${id}`)
  return (bytes ?? 0) - row!.bytes
}

/** For a transaction that has run no statement yet. */
export const useOneSnapshot = (session: Session) =>
  session.run(sql`set transaction isolation level repeatable read, read only`)

export const findEffort = async (session: Session, id: string): Promise<Effort> =>
  (await session.row<Effort>(sql`
    select coalesce(extract(epoch from finished_at - created_at) * 1000, 0)::float8 as ms, bytes::float8 as bytes,
           files::float8 as files
      from backups where id = ${id}`)) ?? { ms: 0, bytes: 0, files: 0 }

export const findManifest = async (session: Session, id: string) =>
  (
    await session.row<{ manifest: StoredManifest | null }>(
      sql`select manifest from backups where id = ${id} and status = 'done'`,
    )
  )?.manifest ?? undefined
