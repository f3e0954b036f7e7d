// What an upgrade to the installed release would do. Reading it changes nothing.
import type { Images, UpgradeManifest, UpgradePlan } from '@plinth/contract/upgrade.ts'
import { type Database, guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { listMissing, type Migration } from '#src/kernel/postgres/migrate.ts'
import { version } from '#src/kernel/version.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import * as store from './store.ts'

export interface Pending {
  plan: UpgradePlan
  /** None if nothing is pending. */
  projects: readonly store.ServedProject[]
  /** Those of them that have no backup of before the upgrade. */
  unsaved: readonly store.ServedProject[]
  /** The ids of projects that need no upgrade. */
  current: readonly string[]
  /** An upgrade to this release that has begun before and did not complete, with its backups that still exist. */
  continued: UpgradeManifest | undefined
}

export async function readPlan(control: Database, cluster: Cluster): Promise<Pending> {
  const server = await store.readServer(control)
  const release = await store.findRelease(control)
  const missing = (await listMissing(control, 'migrations', cluster.platformMigrations)) ?? []
  const served = await store.listServed(control, cluster.projectVersion)
  const hasPending = missing.length > 0 || served.some(project => project.is_outdated)
  const projects = hasPending ? served : []
  // Its backup of the control database is one of before the migrations only if all of them are applied.
  const continued = hasPending && missing.length === 0 ? await findContinued(control) : undefined
  // Those that a continued upgrade has upgraded may have changed since.
  const unsaved = continued
    ? projects.filter(({ id, is_outdated }) => is_outdated && !(id in continued.snapshots))
    : projects
  const failures = new Map(continued?.failed.map(({ project_id, error }) => [project_id, error]))
  const planned: UpgradePlan['projects'] = []
  for (const project of projects)
    planned.push(await planProject(cluster, project, unsaved.includes(project), failures.get(project.id)))
  const hasControlBackup = continued !== undefined && continued.control_backup_id !== null
  return {
    projects,
    unsaved,
    current: served.filter(project => !project.is_outdated).map(({ id }) => id),
    continued,
    plan: {
      target_version: version,
      current_version: release?.version ?? null,
      images: imagesOf(server.postgres),
      platform_migrations: missing.map(({ name }) => name),
      control_snapshot: hasPending && !hasControlBackup ? { database_bytes: server.bytes } : null,
      projects: planned,
    },
  }
}

/** Whether an upgrade would change anything. */
export const isPending = ({ platform_migrations, projects }: UpgradePlan): boolean =>
  platform_migrations.length + projects.length > 0

async function findContinued(control: Database): Promise<UpgradeManifest | undefined> {
  const id = await store.findUnfinished(control, version)
  if (id === undefined) return
  const manifest = (await store.findManifest(control, id))!
  return { ...manifest, snapshots: Object.fromEntries(await store.findSnapshots(control, id)) }
}

export const imagesOf = (postgres: string): Images => ({
  plinth: version,
  node: process.versions.node,
  postgres: postgres.split(' ')[0]!,
})

async function planProject(
  { address, projectMigrations }: Cluster,
  { id, ref, name, bytes, is_outdated }: store.ServedProject,
  isBackedUp: boolean,
  failure: string | undefined,
): Promise<UpgradePlan['projects'][number]> {
  const snapshot = isBackedUp ? ({ kind: 'upgrade', database_bytes: bytes } as const) : null
  if (!is_outdated) return { project_id: id, name, snapshot, migrations: [], error: null }
  const found = await withClient(address, ref, planSettings, session =>
    listMissing(session, 'platform.migrations', projectMigrations),
  ).then(
    missing => ({ migrations: (missing ?? projectMigrations).map(nameOf), error: failure ?? null }),
    (error: Error) => ({ migrations: [], error: error.message }),
  )
  return { project_id: id, name, snapshot, ...found }
}

/** Another session may hold a lock on the table. */
const planSettings = { ...guardedSettings, lock_timeout: '5s' }

const nameOf = ({ name }: Migration) => name
