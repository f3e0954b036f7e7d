// What an upgrade to the installed release would do. Reading it changes nothing.
import type { Images, UpgradePlan } from '@plinth/contract/upgrade.ts'
import { type Database, guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { listMissing, type Migration } from '#src/kernel/postgres/migrate.ts'
import { version } from '#src/kernel/version.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import * as store from './store.ts'

export interface Pending {
  plan: UpgradePlan
  /** All that are backed up. None if nothing is pending. */
  projects: readonly store.ServedProject[]
}

export async function readPlan(control: Database, cluster: Cluster): Promise<Pending> {
  const server = await store.readServer(control)
  const release = await store.findRelease(control)
  const missing = (await listMissing(control, 'migrations', cluster.platformMigrations)) ?? []
  const served = await store.listServed(control, cluster.projectVersion)
  const hasPending = missing.length > 0 || served.some(project => project.is_outdated)
  const projects = hasPending ? served : []
  const planned: UpgradePlan['projects'] = []
  for (const project of projects) planned.push(await planProject(cluster, project))
  return {
    projects,
    plan: {
      target_version: version,
      current_version: release?.version ?? null,
      images: imagesOf(server.postgres),
      platform_migrations: missing.map(({ name }) => name),
      control_snapshot: hasPending ? { database_bytes: server.bytes } : null,
      projects: planned,
    },
  }
}

/** Whether an upgrade would change anything. */
export const isPending = ({ control_snapshot }: UpgradePlan): boolean => control_snapshot !== null

export const imagesOf = (postgres: string): Images => ({
  plinth: version,
  node: process.versions.node,
  postgres: postgres.split(' ')[0]!,
})

async function planProject(
  { address, projectMigrations }: Cluster,
  { id, ref, name, bytes, is_outdated }: store.ServedProject,
): Promise<UpgradePlan['projects'][number]> {
  const snapshot = { kind: 'upgrade', database_bytes: bytes } as const
  if (!is_outdated) return { project_id: id, name, snapshot, migrations: [], error: null }
  const found = await withClient(address, ref, planSettings, session =>
    listMissing(session, 'platform.migrations', projectMigrations),
  ).then(
    missing => ({ migrations: (missing ?? projectMigrations).map(nameOf), error: null }),
    (error: Error) => ({ migrations: [], error: error.message }),
  )
  return { project_id: id, name, snapshot, ...found }
}

/** Another session may hold a lock on the table. */
const planSettings = { ...guardedSettings, lock_timeout: '5s' }

const nameOf = ({ name }: Migration) => name
