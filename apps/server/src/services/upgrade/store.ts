// What is pending, and the records of upgrades. The control database may be that of an older release, without the records.
import type { Images, UpgradeManifest } from '@plinth/contract/upgrade.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface OutdatedProject {
  id: string
  ref: string
  name: string
  bytes: number
}

/** A project that is backed up before an upgrade. */
export interface ServedProject extends OutdatedProject {
  is_outdated: boolean
}

/** The oldest first. */
export const listServed = (control: Session, schemaVersion: string) =>
  control.rows<ServedProject>(sql`
    select p.id, p.ref, p.name, coalesce(pg_database_size(d.oid), 0)::float8 as bytes,
           p.schema_version <> ${schemaVersion} as is_outdated
      from projects p left join pg_database d on d.datname = p.ref
     where p.status in ('active', 'suspended') order by p.created_at`)

export const listOutdated = (control: Session, schemaVersion: string) =>
  control.rows<OutdatedProject>(sql`
    select p.id, p.ref, p.name, coalesce(pg_database_size(d.oid), 0)::float8 as bytes
      from projects p left join pg_database d on d.datname = p.ref
     where p.status in ('active', 'suspended') and p.schema_version <> ${schemaVersion} order by p.created_at`)

/** Undefined if the project was deleted. */
export const findSchemaVersion = async (control: Session, projectId: string) =>
  (
    await control.row<{ version: string }>(sql`
      select schema_version as version from projects where id = ${projectId} and status in ('active', 'suspended')`)
  )?.version

/** The newest backup that was made before an upgrade to this schema. */
export const findSnapshotBefore = async (control: Session, projectId: string, schemaVersion: string) =>
  (
    await control.row<{ id: string }>(sql`
      select id from backups
       where project_id = ${projectId} and kind = 'upgrade' and status = 'done' and schema_version <> ${schemaVersion}
       order by created_at desc limit 1`)
  )?.id

export const readServer = async (control: Session) =>
  (await control.row<{ postgres: string; bytes: number }>(sql`
    select current_setting('server_version') as postgres, pg_database_size(current_database())::float8 as bytes`))!

/** The clock of the database, as in the other times of a record. */
export const readClock = async (session: Session) =>
  (await session.row<{ now: string }>(sql`select clock_timestamp() as now`))!.now

export const hasDatabase = async (session: Session, name: string) =>
  (await session.row(sql`select from pg_database where datname = ${name}`)) !== undefined

const hasRecords = async (control: Session) =>
  (await control.row<{ exists: boolean }>(sql`select to_regclass('upgrades') is not null as exists`))!.exists

export interface Release {
  version: string
  images: Images
}

/** Undefined if an older release has not recorded it. */
export const findRelease = async (control: Session) =>
  (await hasRecords(control))
    ? control.row<Release>(sql`select version, images from installed_release`)
    : undefined

export const saveRelease = (control: Session, { version, images }: Release) =>
  control.run(sql`
    insert into installed_release as r (version, images) values (${version}, ${JSON.stringify(images)})
    on conflict (is_only) do update set version = excluded.version, images = excluded.images
     where (r.version, r.images) is distinct from (excluded.version, excluded.images)`)

/** Projects whose last upgrade has failed do not hold the platform up: the operator knows of them. */
export const listFailed = async (control: Session) =>
  (await hasRecords(control))
    ? control.rows<{ id: string }>(sql`
        select project_id as id from upgrade_projects where status = 'failed' and upgrade_id =
          (select id from upgrades order by started_at desc limit 1)`)
    : []

export interface NewUpgrade {
  id: string
  version: string
  prior: Release | undefined
  controlBackupId: string | undefined
  startedAt: string
}

/** For as long as the session lives. */
export const tryLockRun = async (session: Session) =>
  (await session.row<{ taken: boolean }>(
    sql`select pg_try_advisory_lock(hashtext('plinth: execute upgrade')) as taken`,
  ))!.taken

export const lockUpgrades = (session: Session) =>
  session.run(sql`select pg_advisory_xact_lock(hashtext('plinth: upgrade records'))`)

/** The last upgrade, if it was one to this release and some projects are not upgraded. It is continued. */
export const findUnfinished = async (session: Session, version: string) =>
  (
    await session.row<{ id: string }>(sql`
      select id from (select * from upgrades order by started_at desc limit 1) last
       where status <> 'done' and version = ${version}`)
  )?.id

/** The backup of the control database that the last upgrade names: without it there is no way back. */
export const listNeededBackups = async (control: Session) =>
  (await hasRecords(control))
    ? (
        await control.rows<{ id: string }>(sql`
          select control_backup_id as id from (select * from upgrades order by started_at desc limit 1) last
           where control_backup_id is not null`)
      ).map(({ id }) => id)
    : []

/** Backups of the upgrade that still exist, by project. */
export async function findSnapshots(session: Session, upgradeId: string): Promise<Map<string, string>> {
  const rows = await session.rows<{ project_id: string; backup_id: string }>(sql`
    select u.project_id, u.backup_id from upgrade_projects u join backups b on b.id = u.backup_id
     where u.upgrade_id = ${upgradeId} and b.status = 'done'`)
  return new Map(rows.map(({ project_id, backup_id }) => [project_id, backup_id]))
}

/** Of an upgrade that the platform begins by itself. */
export const insertAudit = (session: Session, id: string) =>
  session.run(sql`
    insert into audit (actor_kind, actor_label, action, target)
    values ('system', 'platform', 'platform.upgrade_executed', ${id})`)

/**
 * Those that a crash has interrupted end with it. Another node may have recorded one since this one started, and the last
 * that is recorded has to be the last by time.
 */
export async function insertUpgrade(
  session: Session,
  { id, version, prior, controlBackupId, startedAt }: NewUpgrade,
): Promise<void> {
  await session.run(
    sql`update upgrades set status = 'failed', finished_at = clock_timestamp() where status = 'running'`,
  )
  await session.run(sql`
    insert into upgrades (id, version, prior_version, prior_images, control_backup_id, started_at)
    values (${id}, ${version}, ${prior?.version ?? null}, ${JSON.stringify(prior?.images ?? null)}, ${controlBackupId ?? null},
            greatest(${startedAt}::timestamptz, (select max(started_at) + interval '1 ms' from upgrades)))`)
}

/** The backup of the control database that an earlier attempt has made stays the one to go back to. */
export const continueUpgrade = (session: Session, id: string, controlBackupId: string | undefined) =>
  session.run(sql`
    update upgrades set status = 'running', finished_at = null,
           control_backup_id = coalesce(control_backup_id, ${controlBackupId ?? null})
     where id = ${id}`)

/** Projects that failed before are tried again. */
export const resetFailed = (session: Session, upgradeId: string) =>
  session.run(sql`
    update upgrade_projects set status = 'pending', error = null
     where upgrade_id = ${upgradeId} and status = 'failed'`)

export const insertProjects = (session: Session, upgradeId: string, projectIds: readonly string[]) =>
  session.run(sql`
    insert into upgrade_projects (upgrade_id, project_id) select ${upgradeId}, unnest(${projectIds}::uuid[])
    on conflict do nothing`)

export const recordSnapshot = (session: Session, upgradeId: string, projectId: string, backupId: string) =>
  session.run(sql`
    update upgrade_projects set backup_id = ${backupId} where upgrade_id = ${upgradeId} and project_id = ${projectId}`)

export const recordProject = (
  session: Session,
  upgradeId: string,
  projectId: string,
  reason: string | undefined,
) =>
  session.run(sql`
    update upgrade_projects set status = ${reason === undefined ? 'done' : 'failed'}, error = ${reason ?? null}
     where upgrade_id = ${upgradeId} and project_id = ${projectId}`)

/** Records the projects that are up to date. */
export const recordUpgraded = (session: Session, upgradeId: string, schemaVersion: string) =>
  session.run(sql`
    update upgrade_projects u set status = 'done', error = null from projects p
     where u.upgrade_id = ${upgradeId} and u.status <> 'done' and p.id = u.project_id
       and p.schema_version = ${schemaVersion}`)

/** Returns whether it had not ended like this before. Retries that fail do not change the time of the end. */
export const finishUpgrade = async (session: Session, id: string, status: 'done' | 'failed') =>
  (await session.run(sql`
    update upgrades set status = ${status}, finished_at = clock_timestamp()
     where id = ${id} and status not in ('done', ${status})`)) > 0

export const findLast = async (session: Session) =>
  (await session.row<{ id: string }>(sql`select id from upgrades order by started_at desc limit 1`))?.id

/** Pending projects come before failed ones. A deleted project does not count. */
export const findOutcome = async (session: Session, id: string) =>
  (await session.row<{ outcome: 'running' | 'failed' | 'done' }>(sql`
    select case when bool_or(u.status = 'pending') then 'running' when bool_or(u.status = 'failed') then 'failed'
                else 'done' end as outcome
      from upgrade_projects u join projects p on p.id = u.project_id
     where u.upgrade_id = ${id} and p.status in ('creating', 'active', 'suspended')`))!.outcome

/** The given one, or the last one. */
export const findManifest = async (control: Session, id?: string): Promise<UpgradeManifest | undefined> =>
  (await hasRecords(control))
    ? control.row<UpgradeManifest>(sql`
        select u.id, u.status, u.started_at, u.finished_at, u.version, u.prior_version,
               nullif(u.prior_images, 'null') as prior_images, u.control_backup_id,
               coalesce(jsonb_object_agg(p.project_id, p.backup_id) filter (where p.backup_id is not null), '{}') as snapshots,
               coalesce(jsonb_object_agg(p.project_id, b.bytes) filter (where b.status = 'done'), '{}') as snapshot_bytes,
               coalesce(jsonb_agg(p.project_id) filter (where p.status = 'done'), '[]') as done,
               coalesce(jsonb_agg(jsonb_build_object('project_id', p.project_id, 'error', p.error))
                 filter (where p.status = 'failed'), '[]') as failed,
               coalesce(jsonb_agg(p.project_id) filter (where p.status = 'pending'), '[]') as pending
          from upgrades u left join upgrade_projects p on p.upgrade_id = u.id
          left join backups b on b.id = p.backup_id
         where u.id = coalesce(${id ?? null}::uuid, (select id from upgrades order by started_at desc limit 1))
         group by u.id`)
    : undefined
