// Jobs that recover projects to a time, and the named times of projects.
import type { PitrJob, PitrStatus, RestorePoint } from '@plinth/contract/pitr.ts'
import type { ArchivedProject } from '#src/archive/manifest.ts'
import type { PackedFile } from '#src/kernel/objects/packed-file.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

/** Times of commits have microseconds. */
const targetTime = sql`to_char(j.target_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as target_time`
const open = sql`status in ('pending', 'preparing', 'prepared', 'cutting_over')`
const active = sql`status in ('pending', 'preparing', 'cutting_over')`

const shown = sql`
  j.id, j.status, ${targetTime}, j.created_at, j.prepared_at, j.finished_at, j.expires_at, j.error, j.warnings,
  case when j.status = 'done' then j.restore_id end as restore_id,
  case when j.${active} then coalesce(j.progress, '{"step": "waiting", "bytes": 0}'::jsonb) end as progress`

export async function listJobs(
  control: Database,
  projectId: string,
  { limit, offset }: Paging,
): Promise<{ jobs: PitrJob[]; total: number }> {
  const [jobs, count] = await Promise.all([
    control.rows<PitrJob>(sql`
      select ${shown}, j.bytes::float8 as bytes from pitr_jobs j where project_id = ${projectId}
       order by created_at desc, id limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from pitr_jobs where project_id = ${projectId}`,
    ),
  ])
  return { jobs, total: count?.total ?? 0 }
}

/** False if the project has a job that is not over. A prepared copy is given up. */
export async function insertJob(session: Session, id: string, projectId: string, target: string) {
  await session.run(sql`
    update pitr_jobs set status = 'expired', finished_at = clock_timestamp(), error = 'Another recovery was requested.'
     where project_id = ${projectId} and status = 'prepared'`)
  const inserted = await session.run(sql`
    insert into pitr_jobs (id, project_id, target_time) values (${id}, ${projectId}, ${target})
    on conflict (project_id) where ${open} do nothing`)
  return inserted === 1
}

export type FoundJob = Omit<PitrJob, 'bytes'> & { project_id: string }

/** Commands on the host call it before the control database is migrated, so it reads only columns that all releases have. */
export const findJob = (control: Session, id: string) =>
  control.row<FoundJob>(sql`select ${shown}, j.project_id from pitr_jobs j where id = ${id}`)

/** Null if there is no such database. */
export const readDatabaseBytes = async (session: Session, database: string) =>
  (
    await session.row<{ bytes: number }>(sql`
      select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${database}`)
  )?.bytes ?? null

/** Of all databases of a server. */
export const readServerBytes = async (session: Session) =>
  (await session.row<{ bytes: number }>(
    sql`select sum(pg_database_size(oid))::float8 as bytes from pg_database`,
  ))!.bytes

/** Undefined if the job has no prepared copy. */
export const startCutover = (control: Session, id: string, restoreId: string, beforeId: string) =>
  control.row<{ id: string; project_id: string }>(sql`
    update pitr_jobs set status = 'cutting_over', restore_id = ${restoreId}, before_backup_id = ${beforeId},
           attempts = 0, leased_until = null, progress = null, error = null
     where id = ${id} and status = 'prepared' returning id, project_id`)

// For the worker

export interface Job {
  id: string
  project_id: string
  status: PitrStatus
  target_time: string
  manifest: StoredManifest | null
  restore_id: string | null
  before_backup_id: string | null
  attempts: number
  claimed_at: string
}

/** How the archive of the recovered project is read. */
export interface StoredManifest extends PackedFile {
  attempt: number
}

export interface Claim {
  statuses: readonly PitrStatus[]
  /** Projects that may not begin a job now. */
  full: readonly string[]
  limit: number
  leaseSeconds: number
}

export const claimJobs = (control: Session, { statuses, full, limit, leaseSeconds }: Claim) =>
  control.rows<Job>(sql`
    update pitr_jobs j set leased_until = now() + make_interval(secs => ${leaseSeconds}), attempts = attempts + 1,
           status = case status when 'pending' then 'preparing' else status end
     where id in (
       select id from pitr_jobs
        where status = any(${statuses}::text[]) and project_id <> all(${full}::uuid[])
          and (leased_until is null or leased_until <= now())
        order by created_at limit ${limit} for update skip locked)
    returning id, project_id, status, ${targetTime}, manifest, restore_id, before_backup_id, attempts,
              now() as claimed_at`)

export const nextDueMs = async (control: Session, statuses: readonly PitrStatus[], full: readonly string[]) =>
  (
    await control.row<{ ms: number | null }>(sql`
      select (extract(epoch from min(coalesce(leased_until, now())) - now()) * 1000)::float8 as ms
        from pitr_jobs where status = any(${statuses}::text[]) and project_id <> all(${full}::uuid[])`)
  )?.ms ?? undefined

/** For a job that the stop of the platform has interrupted. */
export const releaseJob = (control: Session, { id, attempts }: Job) =>
  control.run(sql`
    update pitr_jobs set leased_until = null, attempts = attempts - 1, progress = null
     where id = ${id} and attempts = ${attempts} and ${active}`)

/** For a job that is tried again after a moment. */
export const postponeJob = (control: Session, { id, attempts }: Job, seconds: number) =>
  control.run(sql`
    update pitr_jobs set leased_until = now() + make_interval(secs => ${seconds}), progress = null
     where id = ${id} and attempts = ${attempts} and ${active}`)

const over = sql`leased_until = null, attempts = 0, progress = null`

/** Like the following, false if the job was begun again meanwhile. */
export const recordPrepared = async (
  session: Session,
  { id, attempts }: Job,
  { manifest, bytes, warnings }: { manifest: StoredManifest; bytes: number; warnings: readonly string[] },
  keepDays: number,
) =>
  (await session.run(sql`
    update pitr_jobs set status = 'prepared', prepared_at = clock_timestamp(), ${over}, error = null,
           manifest = ${JSON.stringify(manifest)}, bytes = ${bytes}, warnings = ${JSON.stringify(warnings)},
           expires_at = clock_timestamp() + make_interval(days => ${keepDays})
     where id = ${id} and attempts = ${attempts} and status = 'preparing'`)) === 1

export const recordFailed = async (session: Session, { id, attempts }: Job, error: string) =>
  (await session.run(sql`
    update pitr_jobs set status = 'failed', finished_at = clock_timestamp(), ${over}, error = ${error}
     where id = ${id} and attempts = ${attempts} and status = 'preparing'`)) === 1

/** The prepared copy waits for another cutover. */
export const recordNotCutOver = async (session: Session, { id, attempts }: Job, error: string) =>
  (await session.run(sql`
    update pitr_jobs set status = 'prepared', ${over}, error = ${error}
     where id = ${id} and attempts = ${attempts} and status = 'cutting_over'`)) === 1

/** In the transaction that exchanges the databases. */
export async function recordCutOver(session: Session, { id, attempts }: Job): Promise<void> {
  const updated = await session.run(sql`
    update pitr_jobs set status = 'done', finished_at = clock_timestamp(), ${over}, error = null, expires_at = null
     where id = ${id} and attempts = ${attempts} and status = 'cutting_over'`)
  if (updated !== 1) throw new Error('the cutover was begun again meanwhile')
}

/** The restores of cutovers that have begun. */
export const listCutovers = async (control: Session) =>
  (
    await control.rows<{ id: string }>(
      sql`select restore_id as id from pitr_jobs where status = 'cutting_over'`,
    )
  ).map(({ id }) => id)

/** When recovery is switched off. Prepared copies are given up, too. */
export const failOpenJobs = (control: Session, error: string) =>
  control.run(sql`
    update pitr_jobs set status = 'failed', finished_at = clock_timestamp(), ${over}, error = ${error} where ${open}`)

/** Those whose prepared copy has waited too long. */
export const expireJobs = (control: Session) =>
  control.rows<{ id: string; project_id: string }>(sql`
    update pitr_jobs set status = 'expired', finished_at = clock_timestamp(), error = 'It was not cut over in time.'
     where status = 'prepared' and expires_at < now() returning id, project_id`)

/** Recovered copies of projects without a job that needs them. */
export const listStrayCopies = async (control: Session, suffix: string) =>
  (
    await control.rows<{ name: string }>(sql`
      select d.datname as name from projects p join pg_database d on d.datname = p.ref || ${suffix}
       where not exists (select from pg_catalog.pg_stat_activity a where a.datname = d.datname)
         and not exists (select from pitr_jobs j where j.project_id = p.id and ${open})`)
  ).map(({ name }) => name)

/** Projects whose recovered copy is needed. */
export const listNeeded = async (control: Session) =>
  new Set(
    (await control.rows<{ id: string }>(sql`select project_id as id from pitr_jobs where ${open}`)).map(
      ({ id }) => id,
    ),
  )

// For plans

export const findProject = (session: Session, id: string) =>
  session.row<ArchivedProject & { created_at: string }>(sql`
    select id, ref, name, slug, description, settings, quotas, schema_version, created_at from projects
     where id = ${id} and status in ('active', 'suspended')`)

export const listPoints = (control: Session, projectId: string, from: string) =>
  control.rows<RestorePoint>(sql`
    select kind, at from restore_points
     where (project_id = ${projectId} or project_id is null) and at >= ${from} order by at desc limit 1000`)

export const prunePoints = (control: Session, days: number) =>
  control.run(sql`delete from restore_points where at < now() - make_interval(days => ${days})`)

/** For a session of its own that has run no statement yet. */
export const beginSnapshot = 'begin isolation level repeatable read read only'

export const insertAudit = (
  session: Session,
  action: string,
  target: string | null,
  projectId: string | null,
) =>
  session.run(sql`
    insert into audit (actor_kind, actor_label, action, target, project_id)
    values ('system', 'platform', ${action}, ${target}, ${projectId})`)
